"""How long slices take through tiers that work on them one after the other: the prediction behind their number.

Slice k enters a tier when it has left the tier before and slice k - 1 has left this one. Two tiers that use the same
ports (sums and copies by the same NICs) take turns: later slices of the one beside earlier slices of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from interlock._native import _core

__all__ = ["Tier", "ramp", "slices_s"]


@dataclass(frozen=True, slots=True)
class Tier:
    """What a slice that holds all bytes would take, and what each slice pays beside that."""

    ports: str  # tiers that name the same ones share them
    busy_s: float  # of all bytes
    messages: int  # of one slice at one port, one after the other
    overhead_s: float
    latency_s: float
    # Of a tier whose slices follow each other by waiting (nothing else holds them back): how many are under way. One:
    # each is sent when the one before has arrived. Two share the ports, so that the first of them takes as long again.
    under_way: int | None = None


def ramp(count: int, most: int = 8) -> tuple[float, ...]:
    """Weights 1, 2, 4, ... of slices: short ones at both ends, so that all tiers begin soon and end together.

    >>> ramp(6)
    (1.0, 2.0, 4.0, 4.0, 2.0, 1.0)
    """
    return tuple(float(min(2**k, 2 ** (count - 1 - k), most)) for k in range(count))


def slices_s(tiers: Sequence[Tier], weights: Sequence[float]) -> float:
    """Arrival of the last slice.

    >>> slices_s([Tier("up", 1.0, 1, 0.0, 0.0), Tier("nic", 1.0, 1, 0.0, 0.0)], (1.0, 1.0))
    1.5
    """
    number: dict[str, int] = {}
    return _core.tier_slices_s(
        np.array([tier.busy_s for tier in tiers]),
        np.array([tier.messages * tier.overhead_s for tier in tiers]),
        np.array([tier.latency_s for tier in tiers]),
        np.array([number.setdefault(tier.ports, len(number)) for tier in tiers], np.int32),
        np.array([tier.under_way or 0 for tier in tiers], np.int32),
        np.array(weights),
    )
