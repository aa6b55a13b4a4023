"""What MSCCL++'s executor accepts; its plan loader checks little of it (docs/reference/formats.md has the sources)."""

from __future__ import annotations

from interlock.collectives import CollectiveKind

__all__ = [
    "ALIGNMENT",
    "COLLECTIVE_BY_NAME",
    "MAX_BARRIERS",
    "MAX_BUFFER_BYTES",
    "MAX_CHANNELS",
    "MAX_CHANNELS_PER_OPERATION",
    "MAX_OPERATIONS",
    "MAX_SEMAPHORES",
    "MAX_THREADBLOCKS",
    "NAME_BY_COLLECTIVE",
]

MAX_OPERATIONS = 64  # per threadblock, those inside pipelines counted
MAX_CHANNELS = 16  # per threadblock and type, and remote buffers likewise
MAX_CHANNELS_PER_OPERATION = 8
MAX_BARRIERS = 16
MAX_SEMAPHORES = 16
MAX_BUFFER_BYTES = 2**32 - 1  # offsets have 32 bits
ALIGNMENT = 16  # of chunks, in bytes
MAX_THREADBLOCKS = 1024  # ours: the format sets none, the GPU's number of processors does

COLLECTIVE_BY_NAME = {kind.replace("-", ""): str(kind) for kind in (*CollectiveKind, "all-to-allv")}
NAME_BY_COLLECTIVE = {kind: name for name, kind in COLLECTIVE_BY_NAME.items()} | {"items": "custom"}
