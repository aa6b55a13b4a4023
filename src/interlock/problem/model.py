"""Problem: a topology and the items to be moved on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlock.collectives import Collective
from interlock.problem.items import Items
from interlock.topology import Cluster, Topology
from interlock.traffic import Demand, Routing

if TYPE_CHECKING:
    from interlock.problem.step import StepTasks

__all__ = ["Problem"]


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
