"""Collectives over a process group: every rank plans alike, once for every size, and values move.

Plans come from a function the caller gives, so this module knows no algorithm.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from interlock.collectives import Collective, CollectiveKind
from interlock.runtime.buffers import combining
from interlock.runtime.pacing import may_pace
from interlock.runtime.placement import GroupPlacement
from interlock.runtime.runner import Disagreement, LoweredRank, Planned, digest_of_words
from interlock.runtime.session import runner_on
from interlock.topology import Cluster

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

__all__ = ["ChooseCollective", "CollectiveSession", "PreparedCollective"]

MAX_PLANS = 256  # kept for sizes that come again

ChooseCollective = Callable[[Cluster, Collective, int], Planned]  # the last is the size of an element in bytes


@dataclass(frozen=True, slots=True, eq=False)
class PreparedCollective:
    """A collective that every rank agreed on, planned and lowered for this rank."""

    plan: Planned
    lowered: LoweredRank
    prepare_s: float


class CollectiveSession:
    """One process group and the plans that are kept for its collectives.

    Parameters
    ----------
    choose
        Gives the plan for a collective on a cluster; must give the same one on every rank.
    settings
        Words that must be equal on every rank: whatever `choose` depends on.
    """

    def __init__(
        self,
        group: dist.ProcessGroup,
        cluster: Cluster,
        placement: GroupPlacement,
        choose: ChooseCollective,
        settings: str,
        timeout_s: float | None = None,
    ) -> None:
        self.cluster, self.placement = cluster, placement
        self.runner = runner_on(group, cluster, placement, timeout_s)
        self.rank, self.num_ranks = self.runner.rank, self.runner.num_ranks
        self._choose = choose
        self._settings = f"{settings} {cluster!r} {cluster.faults}"
        self._calls = self.runner.exchange(1)
        self._prepared: OrderedDict[tuple[CollectiveKind, int, int, int], PreparedCollective] = OrderedDict()

    def prepare(
        self, kind: CollectiveKind, size_bytes: int, element_bytes: int = 1, root: int = 0
    ) -> PreparedCollective:
        """Plan and lower a collective, once. Every rank must ask for the same ones in the same order.

        `size_bytes` is counted as `interlock.collectives` counts it; `root` is a rank of the group.
        """
        key = kind, size_bytes, element_bytes, root
        found = self._prepared.get(key)
        if found is not None:
            self._prepared.move_to_end(key)
            return found
        start_s = time.perf_counter()
        self._agree(f"{key} {self._settings}")
        members = self.placement.rank_of
        group = None if members == tuple(range(self.placement.num_places)) else members
        wanted = Collective(kind, size_bytes, group, members[root])
        plan = self._choose(self.cluster, wanted, element_bytes)
        self.runner.compare(plan)
        if may_pace(self.cluster):
            self.runner.open_connections()
        lowered = self.runner.lower(plan, members[self.rank])
        made = self._prepared[key] = PreparedCollective(plan, lowered, time.perf_counter() - start_s)
        if len(self._prepared) > MAX_PLANS:
            self._prepared.popitem(last=False)
        return made

    def move(
        self,
        prepared: PreparedCollective,
        source: torch.Tensor,
        target: torch.Tensor,
        element: torch.dtype | None = None,
        operation: str = "sum",
    ) -> None:
        """Bring what `source` holds (flat uint8, on the runner's device) where it must be, and the result to `target`.

        `element` and `operation` ("sum", "max", "min") say how values join where they do.
        """
        combine = None if element is None else combining(element, operation)
        self.runner.run(prepared.lowered, source, target, combine)

    def _agree(self, words: str) -> None:
        mine = digest_of_words(words)
        told = self.runner.guard(lambda: self._calls.share([mine], self.runner.timeout_s), "comparing calls")[:, 0]
        if (told != told[0]).any():
            other = int(np.argmax(told != told[0]))
            raise Disagreement(
                f"rank {other} calls another collective, size, element size or root than rank 0, or plans with another "
                "cluster or algorithm; nothing was moved"
            )

    def close(self) -> None:
        """Stop threads and heartbeat; the group stays the caller's."""
        self.runner.close()
