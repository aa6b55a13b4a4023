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
    arcs: ArcSet  # that hold their links alone
    shared: ArcSet | None  # the same where a message leaves others what it does not use; None: it uses all it holds
    quotient: Quotient | None  # None: no symmetry is known that moves rank 0 to every rank

    def reversed(self) -> Graph:
        """With all arcs turned round."""
        quotient = None if self.quotient is None else self.quotient.reversed()
        shared = None if self.shared is None else self.shared.reversed()
        return replace(self, arcs=self.arcs.reversed(), shared=shared, quotient=quotient)

    def opened(self) -> Graph:
        """With every rank's stage open already."""
        shared = None if self.shared is None else replace(self.shared, opening_s=0.0)
        return replace(self, arcs=replace(self.arcs, opening_s=0.0), shared=shared)

    def patient(self) -> Graph:
        """With links shared by messages that keep to their times, as each waits for word of those before it."""
        assert self.shared is not None
        return replace(self, arcs=self.shared.patient(), quotient=None)


def graph_of(topology: Topology) -> Graph:
    """Arcs and symmetry of a topology."""
    shared = arcs_of(topology)
    arcs = shared.alone()
    quotient = quotient_of(topology, arcs) if len(arcs) else None
    return Graph(topology, arcs, shared if shared.can_share else None, quotient)
