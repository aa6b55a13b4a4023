"""Where a way works: the arcs between ranks, and the symmetry that makes one rank stand for all, if there is one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from interlock.algorithms.synthesis.arcs import ArcSet, arcs_of
from interlock.algorithms.synthesis.symmetry import Quotient, quotient_of
from interlock.topology import Topology

__all__ = ["Graph", "graph_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Arcs point the way copies go; where sums flow into roots they are turned round, and time runs backwards."""

    topology: Topology
    arcs: ArcSet
    quotient: Quotient | None  # None: no symmetry is known that moves rank 0 to every rank

    def reversed(self) -> Graph:
        """With all arcs turned round."""
        quotient = None if self.quotient is None else self.quotient.reversed()
        return replace(self, arcs=self.arcs.reversed(), quotient=quotient)


def graph_of(topology: Topology) -> Graph:
    """Arcs and symmetry of a topology."""
    arcs = arcs_of(topology).alone()
    return Graph(topology, arcs, quotient_of(topology, arcs) if len(arcs) else None)
