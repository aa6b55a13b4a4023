"""What consumers of MSCCL XML accept. Their loaders let some of it pass and then hang or read past a buffer.

Read in the sources of microsoft/msccl, Azure/msccl-executor-nccl and ROCm/rccl: see docs/reference/formats.md.
"""

from __future__ import annotations

from interlock.collectives import CollectiveKind

__all__ = [
    "ALIGNMENT",
    "COLLECTIVE_BY_NAME",
    "MAX_CHANNELS",
    "MAX_COUNT",
    "MAX_DEPENDED_BLOCK",
    "MAX_NAME",
    "MAX_NODES_PER_GPU",
    "MAX_OFFSET",
    "MAX_PEERS_PER_CHANNEL",
    "MAX_STEPS",
    "MAX_STEPS_WRITTEN",
    "MAX_THREADBLOCKS",
    "MAX_THREADBLOCKS_MSCCL",
]

MAX_STEPS = 256  # microsoft/msccl
MAX_STEPS_WRITTEN = 64  # Azure's executor and RCCL: we never write more
MAX_COUNT = 71  # "cnt" must be below 72
MAX_CHANNELS = 32
MAX_PEERS_PER_CHANNEL = 32  # sending, and receiving
MAX_THREADBLOCKS = 32 * MAX_CHANNELS
MAX_THREADBLOCKS_MSCCL = 216  # microsoft/msccl: twice the processors of an A100
MAX_DEPENDED_BLOCK = 127  # executors keep the id of a depended-on threadblock in 8 bits
MAX_NODES_PER_GPU = 4096  # XML elements an executor keeps: algo, all gpus, one gpu's threadblocks and steps
MAX_OFFSET = 32_767  # 16 bits
MAX_NAME = 63

ALIGNMENT = 16  # of chunks, in bytes: whole elements of any type
COLLECTIVE_BY_NAME = {kind.replace("-", ""): str(kind) for kind in (*CollectiveKind, "all-to-allv", "custom")}
COLLECTIVE_BY_NAME["reduce_scatter"] = "reduce-scatter"  # microsoft/msccl
