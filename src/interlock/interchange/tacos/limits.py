"""What TACOS' CSV can hold, and how much of it is read."""

from __future__ import annotations

from interlock.collectives import CollectiveKind

__all__ = ["COPYING", "GIB", "HEADER", "MAX_CHUNKS", "MAX_RANKS", "MAX_TRANSFERS"]

GIB = 2**30  # TACOS' "GB/s" are 2^30 bytes per second
MAX_RANKS = 65_536
MAX_CHUNKS = 1 << 22
MAX_TRANSFERS = 10_000_000
HEADER = "SrcID,DestID,Latency (ns),Bandwidth (GB/s),Chunks"
COPYING = (CollectiveKind.ALL_GATHER, CollectiveKind.BROADCAST, CollectiveKind.GATHER)
