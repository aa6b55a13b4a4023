"""What consumers of MSCCL XML accept. Their loaders let some of it pass and then hang or read past a buffer.

Read in the sources of microsoft/msccl, Azure/msccl-executor-nccl and ROCm/rccl: see docs/reference/formats.md.
"""

from __future__ import annotations

__all__ = [
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
    "NAME_BY_COLLECTIVE",
]

MAX_STEPS = 256  # microsoft/msccl
MAX_STEPS_WRITTEN = 64  # Azure's executor and RCCL: we never write more
MAX_COUNT = 71  # "cnt" must be below 72
MAX_CHANNELS = 32
MAX_PEERS_PER_CHANNEL = 32  # sending, and receiving
MAX_THREADBLOCKS = 32 * MAX_CHANNELS
MAX_DEPENDED_BLOCK = 127  # executors keep the id of a depended-on threadblock in 8 bits
MAX_NODES_PER_GPU = 4096  # XML elements an executor keeps: algo, all gpus, one gpu's threadblocks and steps
MAX_OFFSET = 32_767  # 16 bits
MAX_NAME = 63

NAME_BY_COLLECTIVE = {
    "all-gather": "allgather",
    "all-reduce": "allreduce",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "alltoall",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "all-to-allv": "allreduce",  # the padded chunk-matrix form: equal input and output, nothing is added
}
COLLECTIVE_BY_NAME = {name: kind for kind, name in NAME_BY_COLLECTIVE.items() if kind != "all-to-allv"} | {
    "reducescatter": "reduce-scatter",
    "alltoallv": "all-to-allv",
    "custom": "custom",
}
