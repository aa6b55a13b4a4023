"""MSCCL++ JSON: execution plans."""

from interlock.interchange.mscclpp.read import read_schedule
from interlock.interchange.mscclpp.write import write_schedule

__all__ = ["read_schedule", "write_schedule"]
