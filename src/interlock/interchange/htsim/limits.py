"""What htsim's connection matrix can hold."""

from __future__ import annotations

__all__ = ["MAX_FLOWS", "MAX_FLOW_BYTES", "MAX_NODES", "TRIGGERS"]

MAX_FLOW_BYTES = 2**31 - 1  # htsim keeps sizes in 32 bits: larger messages become several flows
MAX_FLOWS = 10_000_000  # that we write: as many rows as a schedule may have, a few hundred megabytes of text
MAX_NODES = 65_536
TRIGGERS = ("oneshot", "multishot", "barrier")
