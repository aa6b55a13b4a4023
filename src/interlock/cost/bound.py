"""Bound: a proven least makespan, and the resource that forces it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Bound", "tightest"]


@dataclass(frozen=True, slots=True)
class Bound:
    """No schedule of the problem ends before `seconds`.

    `binds` names the resource that forces it, in words. `parts` holds the best bound of every family that was tried,
    by the resource it names.
    """

    seconds: float
    binds: str
    parts: dict[str, float] = field(default_factory=dict)


def tightest(parts: Iterable[tuple[float, str]]) -> Bound:
    """The largest of several bounds; the first one named wins a tie.

    >>> tightest([(1.0, "latency"), (2.0, "NICs of server 3, receiving")]).binds
    'NICs of server 3, receiving'
    """
    by_resource: dict[str, float] = {}
    best = Bound(0.0, "nothing to move")
    for seconds, resource in parts:
        if seconds <= 0.0:
            continue
        by_resource[resource] = max(seconds, by_resource.get(resource, 0.0))
        if seconds > best.seconds:
            best = Bound(seconds, resource)
    return Bound(best.seconds, best.binds, by_resource)
