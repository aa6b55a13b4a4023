"""Whether something fits into this machine's memory, asked before it is made."""

from __future__ import annotations

import resource
from pathlib import Path

from interlock.errors import LimitExceeded
from interlock.units import format_bytes

__all__ = ["check_memory"]

SMALL_BYTES = 1 << 28  # asking costs more than it saves


def check_memory(needed_bytes: float, what: str) -> None:
    """Raise, with the number, where `what` needs more memory than this machine has left."""
    if needed_bytes <= SMALL_BYTES:
        return
    free_bytes = _free_bytes()
    if needed_bytes > free_bytes:
        needed, free = format_bytes(needed_bytes), format_bytes(free_bytes)
        raise LimitExceeded(f"{what} needs about {needed} of memory, but only {free} are free")


def _free_bytes() -> float:
    """What the machine and this process's own limit leave."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    least = float("inf") if limit == resource.RLIM_INFINITY else limit - _own_bytes()
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return least
    told = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return min(least, *told) if told else least


def _own_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 0
