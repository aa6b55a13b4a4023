"""What htsim's connection matrix can hold."""

from __future__ import annotations

__all__ = ["MAX_FLOWS", "MAX_FLOWS_READ", "MAX_FLOW_BYTES", "MAX_NODES", "MAX_WAITS", "TRIGGERS"]

MAX_FLOW_BYTES = 2**31 - 1  # htsim keeps sizes in 32 bits: larger messages become several flows
MAX_FLOWS = 10_000_000  # that we write: as many rows as a schedule may have, a few hundred megabytes of text
MAX_FLOWS_READ = 100_000  # connections, and triggers: each takes about 20 us
MAX_WAITS = 2_000_000  # of connections for connections: a barrier makes all of one side wait for all of the other
MAX_NODES = 65_536
TRIGGERS = ("oneshot", "multishot", "barrier")
