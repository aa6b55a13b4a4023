"""Collectives as pre- and postconditions: who holds or contributes what, and who must end with it.

Sizes are counted as nccl-tests count them: All-Gather by its total output, Reduce-Scatter by its total input,
All-Reduce by its buffer, All-to-All by one rank's send buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import index

from interlock.errors import InvalidInput, nearest
from interlock.units import Quantity, parse_bytes

__all__ = [
    "Collective",
    "CollectiveKind",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "collective",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


class CollectiveKind(StrEnum):
    """The operations this package knows."""

    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_REDUCE = "all-reduce"
    ALL_TO_ALL = "all-to-all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    GATHER = "gather"
    SCATTER = "scatter"


_NAMES = [kind.value for kind in CollectiveKind]


@dataclass(frozen=True, slots=True)
class Collective:
    """One operation over a process group (None: every rank); `root` matters only to rooted ones."""

    kind: CollectiveKind
    size_bytes: int
    group: tuple[int, ...] | None = None
    root: int = 0

    @property
    def is_rooted(self) -> bool:
        """Whether one rank plays a special part."""
        rooted = (CollectiveKind.BROADCAST, CollectiveKind.REDUCE, CollectiveKind.GATHER, CollectiveKind.SCATTER)
        return self.kind in rooted

    @property
    def reduces(self) -> bool:
        """Whether values are summed."""
        return self.kind in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE)

    @property
    def spreads(self) -> bool:
        """Whether the same value, or sum of values, ends at several ranks."""
        return self.kind in (CollectiveKind.ALL_GATHER, CollectiveKind.ALL_REDUCE, CollectiveKind.BROADCAST)

    def bus_factor(self, num_ranks: int) -> float:
        """busbw / algbw as nccl-tests define it."""
        if self.kind is CollectiveKind.ALL_REDUCE:
            return 2 * (num_ranks - 1) / num_ranks
        if self.kind in (CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_TO_ALL):
            return (num_ranks - 1) / num_ranks
        return 1.0


def collective(kind: str, size: Quantity, group: Sequence[int] | None = None, root: int = 0) -> Collective:
    """Any collective by name.

    >>> collective("all-gather", "1 GiB").size_bytes
    1073741824
    """
    try:
        known = CollectiveKind(kind)
    except ValueError:
        raise InvalidInput(f"unknown collective {str(kind)[:64]!r}; {nearest(str(kind)[:64], _NAMES)}") from None
    members = None if group is None else _members(group)
    made = Collective(known, parse_bytes(size, "size"), members, _rank(root, "root"))
    if made.is_rooted and members is not None and root not in members:
        raise InvalidInput(f"root={root} is not among the {len(members)} ranks of the group")
    return made


def _members(group: Sequence[int]) -> tuple[int, ...]:
    if isinstance(group, str | bytes) or not hasattr(group, "__len__") or not hasattr(group, "__iter__"):
        raise InvalidInput(f"group={str(group)[:64]!r} must be a list of ranks")
    members = tuple(_rank(rank, f"group[{place}]") for place, rank in enumerate(group))
    if not members:
        raise InvalidInput("group is empty; it must name at least one rank")
    if len(set(members)) != len(members):
        twice = next(rank for place, rank in enumerate(members) if rank in members[:place])
        raise InvalidInput(f"group names rank {twice} twice; each rank may be in it once")
    return members


def _rank(value: object, name: str) -> int:
    try:
        rank = -1 if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        rank = -1
    if not 0 <= rank < 2**31:
        raise InvalidInput(f"{name}={str(value)[:64]!r} must be a rank, a whole number of at least 0")
    return rank


def all_gather(size: Quantity, group: Sequence[int] | None = None) -> Collective:
    """Every rank ends with every rank's share; `size` is the whole output."""
    return collective("all-gather", size, group)


def reduce_scatter(size: Quantity, group: Sequence[int] | None = None) -> Collective:
    """Every rank ends with its share of the sum; `size` is one rank's whole input."""
    return collective("reduce-scatter", size, group)


def all_reduce(size: Quantity, group: Sequence[int] | None = None) -> Collective:
    """Every rank ends with the sum; `size` is the buffer."""
    return collective("all-reduce", size, group)


def all_to_all(size: Quantity, group: Sequence[int] | None = None) -> Collective:
    """Every rank sends every rank an equal share; `size` is one rank's send buffer, its own share included."""
    return collective("all-to-all", size, group)


def broadcast(size: Quantity, group: Sequence[int] | None = None, root: int = 0) -> Collective:
    """The root's buffer of `size` ends at every rank."""
    return collective("broadcast", size, group, root)


def reduce(size: Quantity, group: Sequence[int] | None = None, root: int = 0) -> Collective:
    """The sum of all buffers of `size` ends at the root."""
    return collective("reduce", size, group, root)


def gather(size: Quantity, group: Sequence[int] | None = None, root: int = 0) -> Collective:
    """Every rank's share ends at the root; `size` is the root's whole output."""
    return collective("gather", size, group, root)


def scatter(size: Quantity, group: Sequence[int] | None = None, root: int = 0) -> Collective:
    """The root's shares end at their ranks; `size` is the root's whole input."""
    return collective("scatter", size, group, root)
