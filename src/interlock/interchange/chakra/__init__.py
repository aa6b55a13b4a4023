"""Chakra execution traces, and the ASTRA-sim configuration that runs them."""

from interlock.interchange.chakra.read import read_schedule
from interlock.interchange.chakra.write import write_schedule

__all__ = ["read_schedule", "write_schedule"]
