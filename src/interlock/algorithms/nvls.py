"""Sums and multicast inside the switch of one server (NVLink SHARP): a rank for each share, slice after slice.

Reduce-Scatter: all others send a share up at once and the switch sends the sum down to its owner. All-Gather: the owner
sends up once and the switch sends copies down to all. All-Reduce does one after the other, and while a slice is copied
the next is summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from interlock.algorithms.channels import MOST_MESSAGES, members_by_server, paced, scale_up_link
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.rounds import Ids, cut_each, group_members, owned_parts, schedule_rounds
from interlock.collectives import CollectiveKind
from interlock.cost.predict import Link, best_blocks
from interlock.errors import check_whole
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule import Chunks, Routes, Schedule, empty_schedule

__all__ = ["ALGORITHM", "SwitchMoves", "nvls", "refuses_switch"]

KINDS = (CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_REDUCE)


@dataclass(slots=True, eq=False)
class SwitchMoves:
    """Moves between ranks, and between a rank and all others of its server through the switch."""

    problem: Problem
    routes: list[tuple[list[int], list[int], list[int]]] = field(default_factory=list)  # sources, ends, links
    rows: list[tuple[Ids, ...]] = field(default_factory=list)  # round, chain, route, part, adds

    def add(self, parts: Ids, rounds: Ids, chain: int, src: Sequence[int], dst: Sequence[int], *, adds: bool) -> None:
        """Parts from some ranks to others, each in its round; inside a server many to one or one to many."""
        if len(src) == 0 or len(dst) == 0:
            return
        up_of, down_of = list(src), [self.problem.num_ranks + rank for rank in dst]
        if len(src) == len(dst) == 1:
            links = self.problem.topology.routes(np.array(src, np.int32), np.array(dst, np.int32))[0].tolist()
        else:
            links = up_of + down_of
        self.routes.append((list(src), list(dst), links))
        columns = np.broadcast_arrays(rounds, chain, len(self.routes) - 1, parts, adds)
        self.rows.append(tuple(np.asarray(column, np.int64).ravel() for column in columns))

    def schedule(self, parts: Chunks, *, orders_nics: bool = True) -> Schedule:
        """Parts that go the same way in the same round travel in one message."""
        round_, chain, route, part, adds = (np.concatenate(column) for column in zip(*self.rows, strict=True))
        routes = Routes(*(Ragged.from_lists(list(column)) for column in zip(*self.routes, strict=True)))
        made = schedule_rounds(parts, routes, round_, chain, route, part, adds)
        return paced(self.problem, *made, orders_nics=orders_nics)


def nvls(problem: Problem, *, seed: int = 0, slices: int | None = None) -> Schedule:
    """Through the switch. `slices` of each share; None: one, and for an All-Reduce by the alpha-beta model."""
    assert problem.collective is not None
    members = group_members(problem)
    if len(problem.items) == 0 or len(members) == 1:
        return empty_schedule()
    adds, copies = problem.collective.reduces, problem.collective.spreads
    if slices is None:
        slices = _num_slices(problem, len(members)) if adds and copies else 1
    shares, owner = owned_parts(problem)
    parts, share, number = cut_each(shares, check_whole(slices, "slices", 1))
    moves = SwitchMoves(problem)
    for place, rank in enumerate(members.tolist()):
        mine = np.flatnonzero(owner[share] == place)
        others = [other for other in members.tolist() if other != rank]
        if len(mine) and adds:
            moves.add(mine, number[mine], place, others, [rank], adds=True)
        if len(mine) and copies:
            moves.add(mine, number[mine] + adds, place, [rank], others, adds=False)
    return moves.schedule(parts)


def _num_slices(problem: Problem, count: int) -> int:
    """Two hops, where every port pays for a message of each share."""
    link = scale_up_link(problem)
    shared = Link((count + 1) * link.overhead_s, link.latency_s, link.bandwidth_bytes_per_s)
    wanted = best_blocks(2, int(problem.items.size_bytes.sum()), shared)
    return min(wanted, max(1, MOST_MESSAGES // (2 * count)))


def refuses_switch(problem: Problem, *, adds: bool, copies: bool) -> str | None:
    """A reason where servers have no switch that can do it."""
    cluster = problem.cluster
    if cluster is None:
        return "it needs a cluster, whose servers have a switch"
    if cluster.scale_up != "switch" or (adds and not cluster.reduces) or (copies and not cluster.multicasts):
        able = " and ".join(word for word, wanted in (("reduce", adds), ("multicast", copies)) if wanted)
        return f"the servers of {cluster.name} have no switch that can {able}"
    return None


def refuses(problem: Problem) -> str | None:
    """None for ranks of one server whose switch is able."""
    assert problem.collective is not None
    if len(group_members(problem)) == 1:
        return None
    reason = refuses_switch(problem, adds=problem.collective.reduces, copies=problem.collective.spreads)
    if reason is None and len(members_by_server(problem)) > 1:
        reason = "it stays inside one server; nvls-tree joins several"
    return reason


ALGORITHM = Algorithm("nvls", "sums and multicast in one server's switch (NVLS)", refuses, nvls, collectives=KINDS)
