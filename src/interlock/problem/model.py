"""Problem: a topology and the items to be moved on it."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.collectives import Collective
from interlock.problem.items import Items
from interlock.topology import Cluster, Topology
from interlock.traffic import Demand, Routing

__all__ = ["Problem"]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What must be moved, and on what. `cluster`, `demand`, `collective` and `routing` say where
    it came from."""

    topology: Topology
    items: Items
    cluster: Cluster | None = None
    demand: Demand | None = None
    collective: Collective | None = None
    routing: Routing | None = None

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
        cluster = self.cluster
        where = f"{cluster.servers}x{cluster.gpus_per_server} {cluster.name}" if cluster else self.topology.name
        return f"{what} on {where}"
