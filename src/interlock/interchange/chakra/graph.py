"""A schedule as one graph of sends and receives per rank.

Every message becomes a send at its source and a receive at its destination (several where it is multicast or summed
in a switch). Dependencies become edges between nodes of one rank: on the receive that brought data, on sends that must
have left, and, after a barrier, on a join of everything before it at that rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.interchange.shared.sequence import Sequence
from interlock.ragged import Ragged, before_in_group, ranges, run_starts
from interlock.schedule import Kind, Schedule

__all__ = ["JOIN", "RECEIVE", "REDUCE", "SEND", "SendReceiveGraph", "build_graph"]

SEND, RECEIVE, REDUCE, JOIN = 0, 1, 2, 3

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SendReceiveGraph:
    """Nodes of all ranks, rank by rank in executable order; ids count from 0 at each rank.

    `leg` names rows of the leg columns (-1 at joins): a leg is one sender and one receiver of a message.
    """

    first_of_rank: Ints  # [num_ranks + 1]
    type: NDArray[np.uint8]
    leg: Ints
    data_deps: Ragged  # node ids within the rank
    ctrl_deps: Ragged
    leg_message: Ints
    leg_src: Ints
    leg_dst: Ints
    leg_tag: Ints  # occurrence among the legs of the same pair of ranks
    num_dropped: int  # dependencies between messages that meet at no rank


def build_graph(schedule: Schedule, sequence: Sequence, num_ranks: int) -> SendReceiveGraph:
    """The graph of a schedule."""
    legs = _Legs(schedule, sequence)
    nodes = _Nodes(schedule, sequence, legs, num_ranks)
    edges = _Edges(nodes)
    dropped = _message_edges(schedule, sequence, legs, nodes, edges)
    _reduce_edges(nodes, edges)
    _join_edges(nodes, edges)
    data, ctrl = edges.to_rows()
    return SendReceiveGraph(
        nodes.first_of_rank, nodes.type, nodes.leg, data, ctrl, legs.message, legs.src, legs.dst, legs.tag, dropped
    )


class _Legs:
    """Sender-receiver pairs of all messages, in executable order."""

    def __init__(self, schedule: Schedule, sequence: Sequence) -> None:
        src, dst = schedule.src.take(sequence.order), schedule.dst.take(sequence.order)
        self.place, self.src, self.dst = _all_pairs(src, dst)
        self.message = sequence.order[self.place]
        self.tag = before_in_group(self.src * (int(self.dst.max(initial=0)) + 1) + self.dst)
        self.epoch = sequence.epoch[self.message].astype(np.int64)
        self.reduces = schedule.kind[self.message] == Kind.REDUCE
        self.of_message = Ragged.grouped(self.message, np.arange(len(self.message)), schedule.num_messages)


class _Nodes:
    """Sends, receives, additions and joins, sorted by rank and place."""

    def __init__(self, schedule: Schedule, sequence: Sequence, legs: _Legs, num_ranks: int) -> None:
        count = len(legs.message)
        every = np.arange(count)
        added = np.flatnonzero(legs.reduces)
        rank = np.concatenate([legs.src, legs.dst, legs.dst[added]])
        leg = np.concatenate([every, every, added])
        kind = np.concatenate([np.full(count, SEND), np.full(count, RECEIVE), np.full(len(added), REDUCE)])
        place = 4 * legs.place[leg] + kind
        epoch = legs.epoch[leg]
        if count and legs.epoch.max() > legs.epoch.min():
            joins = _joins(rank, place, epoch)
            rank, place, epoch = (np.concatenate([a, b]) for a, b in zip((rank, place, epoch), joins, strict=True))
            leg = np.concatenate([leg, np.full(len(joins[0]), -1)])
            kind = np.concatenate([kind, np.full(len(joins[0]), JOIN)])
        order = np.lexsort((leg, place, rank))
        self.rank, self.leg, self.epoch = rank[order], leg[order], epoch[order]
        self.type = kind[order].astype(np.uint8)
        self.first_of_rank = np.searchsorted(self.rank, np.arange(num_ranks + 1)).astype(np.int64)
        self.number = np.arange(len(order)) - self.first_of_rank[self.rank]
        self.sends = self._by_leg(SEND, count)
        self.receives = self._by_leg(RECEIVE, count)
        self.done = self.receives.copy()
        reduces = np.flatnonzero(self.type == REDUCE)
        self.done[self.leg[reduces]] = reduces

    def _by_leg(self, kind: int, count: int) -> Ints:
        rows = np.flatnonzero(self.type == kind)
        by_leg = np.zeros(count, np.int64)
        by_leg[self.leg[rows]] = rows
        return by_leg


def _joins(rank: Ints, place: Ints, epoch: Ints) -> tuple[Ints, Ints, Ints]:
    """One join per rank and epoch but its first, placed before the rank's first node of that epoch."""
    order = np.lexsort((place, epoch, rank))
    firsts = order[run_starts(rank[order], epoch[order])]
    chosen = firsts[~run_starts(rank[firsts])]
    return rank[chosen], place[chosen] // 4 * 4 - 1, epoch[chosen]


class _Edges:
    """Edges between nodes of one rank; each pair once, data rather than control."""

    def __init__(self, nodes: _Nodes) -> None:
        self.nodes = nodes
        self.parts: list[tuple[Ints, Ints, bool]] = []

    def add(self, later: Ints, earlier: Ints, *, is_data: bool) -> None:
        self.parts.append((later, earlier, is_data))

    def to_rows(self) -> tuple[Ragged, Ragged]:
        nodes = self.nodes
        total = len(nodes.rank)
        later = np.concatenate([part[0] for part in self.parts] or [np.zeros(0, np.int64)])
        earlier = np.concatenate([part[1] for part in self.parts] or [np.zeros(0, np.int64)])
        control = np.concatenate([np.full(len(p[0]), not p[2]) for p in self.parts] or [np.zeros(0, np.bool_)])
        order = np.lexsort((control, earlier, later))
        later, earlier, control = later[order], earlier[order], control[order]
        fresh = run_starts(later, earlier)
        rows = []
        for wanted in (False, True):
            chosen = fresh & (control == wanted)
            counts = np.bincount(later[chosen], minlength=total)
            rows.append(Ragged.from_counts(counts, nodes.number[earlier[chosen]].astype(np.int32)))
        return rows[0], rows[1]


def _message_edges(schedule: Schedule, sequence: Sequence, legs: _Legs, nodes: _Nodes, edges: _Edges) -> int:
    """Dependencies where the two messages meet at a rank; returns how many do not."""
    later, earlier = _leg_pairs(schedule.deps.row_of_value, schedule.deps.values.astype(np.int64), legs)
    src_l, dst_l, src_e, dst_e = legs.src[later], legs.dst[later], legs.src[earlier], legs.dst[earlier]
    feeds = dst_e == src_l
    frees = ~feeds & (src_e == dst_l)
    merges = ~feeds & ~frees & (dst_e == dst_l)
    follows = ~feeds & ~frees & ~merges & (src_e == src_l)
    edges.add(nodes.sends[later[feeds]], nodes.done[earlier[feeds]], is_data=True)
    edges.add(nodes.receives[later[frees]], nodes.sends[earlier[frees]], is_data=False)
    edges.add(nodes.receives[later[merges]], nodes.done[earlier[merges]], is_data=False)
    edges.add(nodes.sends[later[follows]], nodes.sends[earlier[follows]], is_data=False)
    after, before = _leg_pairs(sequence.paced_after, sequence.paced_before, legs)
    same = legs.src[after] == legs.src[before]
    edges.add(nodes.sends[after[same]], nodes.sends[before[same]], is_data=False)
    return int(len(later) - feeds.sum() - frees.sum() - merges.sum() - follows.sum())


def _leg_pairs(later: Ints, earlier: Ints, legs: _Legs) -> tuple[Ints, Ints]:
    """All pairs of legs of pairs of messages."""
    _, first, second = _all_pairs(legs.of_message.take(later), legs.of_message.take(earlier))
    return first, second


def _all_pairs(first: Ragged, second: Ragged) -> tuple[Ints, Ints, Ints]:
    """Every value of a row of the first with every value of the same row of the second, and which row that is."""
    counts = first.counts * second.counts
    row = np.repeat(np.arange(len(counts)), counts)
    within, width = ranges(0, counts), second.counts[row]
    return (
        row,
        first.values[first.offsets[row] + within // width].astype(np.int64),
        second.values[second.offsets[row] + within % width].astype(np.int64),
    )


def _reduce_edges(nodes: _Nodes, edges: _Edges) -> None:
    """An addition follows the receive that brought its operand."""
    reduces = np.flatnonzero(nodes.type == REDUCE)
    edges.add(reduces, nodes.receives[nodes.leg[reduces]], is_data=True)


def _join_edges(nodes: _Nodes, edges: _Edges) -> None:
    """Joins wait for all of their rank since the join before; sends wait for the last join."""
    joins = np.flatnonzero(nodes.type == JOIN)
    if not len(joins):
        return
    last = np.full(len(nodes.rank), -1, np.int64)
    last[joins] = joins
    last = np.maximum.accumulate(last)
    last[(last >= 0) & (nodes.rank[np.maximum(last, 0)] != nodes.rank)] = -1
    held = np.flatnonzero((nodes.type == SEND) & (last >= 0))
    edges.add(held, last[held], is_data=True)
    upcoming = np.full(len(nodes.rank), -1, np.int64)
    upcoming[joins] = joins
    following = np.append(upcoming[1:], -1)
    following = np.where(following >= 0, following, np.iinfo(np.int64).max)
    following = np.minimum.accumulate(following[::-1])[::-1]
    here = np.flatnonzero(following < len(nodes.rank))
    here = here[nodes.rank[following[here]] == nodes.rank[here]]
    edges.add(following[here], here, is_data=True)
