"""Problem: a topology and the items to be moved on it, as a table.

An item has a size, contributors (one, its origin; or several, whose values are summed) and destinations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import Collective
from interlock.errors import LimitExceeded
from interlock.ragged import Ragged
from interlock.topology import Cluster, Topology
from interlock.traffic import Demand, Routing

if TYPE_CHECKING:
    from interlock.problem.step import StepTasks

__all__ = ["Items", "MAX_ITEMS", "Problem", "RankSets", "check_count"]


MAX_ITEMS = 2**28


@dataclass(frozen=True, slots=True, eq=False)
class RankSets:
    """A set of ranks per item: `rows`, or one `shared` set for every item."""

    num_items: int
    rows: Ragged | None = None
    shared: NDArray[np.int32] | None = None

    @classmethod
    def of(cls, rows: Ragged) -> RankSets:
        """One set per item."""
        return cls(len(rows), rows=rows)

    @classmethod
    def one(cls, ranks: NDArray[np.int32]) -> RankSets:
        """One rank per item."""
        return cls.of(Ragged.single(ranks))

    @classmethod
    def same(cls, ranks: NDArray[np.int32], num_items: int) -> RankSets:
        """The same set for every item."""
        return cls(num_items, shared=np.ascontiguousarray(ranks, np.int32))

    def __len__(self) -> int:
        return self.num_items

    def __getitem__(self, item: int) -> NDArray[np.int32]:
        if self.shared is not None:
            return self.shared
        assert self.rows is not None
        return self.rows[item]

    @property
    def is_single(self) -> bool:
        """Whether every item has exactly one rank."""
        if self.shared is not None:
            return len(self.shared) == 1
        assert self.rows is not None
        return self.rows.is_single

    def to_ragged(self) -> Ragged:
        """All sets written out."""
        if self.rows is not None:
            return self.rows
        assert self.shared is not None
        counts = np.full(self.num_items, len(self.shared))
        return Ragged.from_counts(counts, np.tile(self.shared, self.num_items))

    def take(self, items: NDArray[np.integer]) -> RankSets:
        """The sets of the chosen items, in the order given."""
        if self.shared is not None:
            return RankSets.same(self.shared, len(items))
        assert self.rows is not None
        return RankSets.of(self.rows.take(items))


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Everything to be moved."""

    size_bytes: NDArray[np.int64]  # [num_items]
    contributors: RankSets
    destinations: RankSets

    @classmethod
    def of(cls, size_bytes: NDArray[np.int64], contributors: RankSets, destinations: RankSets) -> Items:
        """Items without those of no bytes."""
        check_count(len(size_bytes))
        if len(size_bytes) == 0 or size_bytes.min() > 0:
            return cls(size_bytes, contributors, destinations)
        keep = np.flatnonzero(size_bytes > 0)
        return cls(size_bytes[keep], contributors.take(keep), destinations.take(keep))

    def __len__(self) -> int:
        return len(self.size_bytes)

    @property
    def are_reduced(self) -> bool:
        """Whether any item is a sum of several contributions."""
        return not self.contributors.is_single

    @property
    def origin(self) -> NDArray[np.int32]:
        """The one contributor of each item; only for items that are not reduced."""
        return self.contributors.to_ragged().values


def check_count(num_items: int) -> None:
    """Refuse more items than a table may hold; called before any of them is made."""
    if num_items > MAX_ITEMS:
        raise LimitExceeded(f"the problem has {num_items} items; at most {MAX_ITEMS} are supported")


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What must be moved, and on what. `cluster`, `demand`, `collective`, `routing` and
    `step` say where it came from."""

    topology: Topology
    items: Items
    cluster: Cluster | None = None
    demand: Demand | None = None
    collective: Collective | None = None
    routing: Routing | None = None
    step: StepTasks | None = None

    @property
    def num_ranks(self) -> int:
        """GPUs of the topology."""
        return self.topology.num_ranks

    @property
    def name(self) -> str:
        """One line for tables."""
        what = "items"
        if self.demand is not None:
            what = self.demand.name
        elif self.collective is not None:
            what = str(self.collective.kind)
        elif self.routing is not None:
            what = f"{'combine' if self.items.are_reduced else 'dispatch'} of {self.routing.name}"
        elif self.step is not None:
            what = f"{self.step.name} of {len(self.step.tasks)} tasks"
        cluster = self.cluster
        where = f"{cluster.servers}x{cluster.gpus_per_server} {cluster.name}" if cluster else self.topology.name
        return f"{what} on {where}"
