"""MSCCL XML: algorithms for RCCL, Azure's executor and microsoft/msccl."""

from interlock.interchange.msccl.read import read_schedule
from interlock.interchange.msccl.write import write_schedule

__all__ = ["read_schedule", "write_schedule"]
