"""MoE dispatch and combine across servers: one copy of a token per server over the NICs, multicast inside.

The wire is planned by an All-to-Allv algorithm on de-duplicated demand. Where a token lands, the scale-up switch
multicasts it to the GPUs of its experts (or copies go one by one where the switch cannot). Combine is dispatch played
backwards: partials are added in the switch, then along the way. Both are schedules like any other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.moe.backwards import played_backwards
from interlock.moe.lane_order import ordered_in_lanes
from interlock.moe.message_table import MessageTable
from interlock.planning import Plan, plan
from interlock.problem import Problem, combine_problem, dispatch_problem
from interlock.ragged import Ragged
from interlock.schedule import Phase, Schedule
from interlock.topology import Cluster
from interlock.traffic import Demand, Routing

__all__ = ["deduplicated_demand", "plan_combine", "plan_dispatch", "server_bound_s"]

MAX_GPUS_PER_SERVER = 64  # a set of a server's GPUs is one 64-bit word
# Slices of a lane, over the root of (time on the wire / overhead of a message) divided by the servers to talk to. Finer
# ones start sooner, which combine needs, and cost more. Fitted at 4x8 and 8x8 with 128 to 1024 tokens per GPU.
DISPATCH_FINENESS, COMBINE_FINENESS = 0.62, 0.8
FINER_IF_HOT = 0.6  # more where a scale-up port is as busy as the wire: sums for it must be ready in time; fitted too
MOST_SLICES = 48

Ints = NDArray[np.int64]


def plan_dispatch(cluster: Cluster, routing: Routing, bytes_per_token: int, algorithm: str = "adaptive") -> Plan:
    """Every token to the ranks of its experts, over the wire once per server."""
    start = time.perf_counter()
    problem = dispatch_problem(cluster, routing, bytes_per_token)
    schedule = _Dispatch.of(cluster, problem, bytes_per_token, algorithm, DISPATCH_FINENESS).to_schedule()
    took = time.perf_counter() - start
    return Plan(problem, schedule, f"inswitch, {algorithm} on the wire", decide_s=took)


def plan_combine(cluster: Cluster, routing: Routing, bytes_per_token: int, algorithm: str = "adaptive") -> Plan:
    """The results back: a dispatch reversed, sums formed in the switches and on the way."""
    start = time.perf_counter()
    there = dispatch_problem(cluster, routing, bytes_per_token)
    forward = _Dispatch.of(cluster, there, bytes_per_token, algorithm, COMBINE_FINENESS).to_schedule()
    schedule = played_backwards(forward, cluster)
    problem = combine_problem(cluster, routing, bytes_per_token)
    took = time.perf_counter() - start
    return Plan(problem, schedule, f"inswitch, {algorithm} on the wire", decide_s=took)


def deduplicated_demand(cluster: Cluster, routing: Routing, bytes_per_token: int) -> Demand:
    """Bytes from each rank to each other server, one copy per token, addressed to one of the GPUs that want it."""
    made = _Copies.of(cluster, dispatch_problem(cluster, routing, bytes_per_token))
    return made.demand(cluster, bytes_per_token)


def server_bound_s(cluster: Cluster, routing: Routing, bytes_per_token: int) -> float:
    """The least time between servers with one copy per token and server: the busiest server's NICs."""
    return _wire_s(cluster, deduplicated_demand(cluster, routing, bytes_per_token))


def _wire_s(cluster: Cluster, demand: Demand) -> float:
    shape = (cluster.servers, cluster.gpus_per_server)
    tiles = demand.bytes_matrix.reshape(*shape, *shape).sum(axis=(1, 3))
    rate = cluster.nic_bandwidth_bytes_per_s.reshape(shape).sum(axis=1)
    return float(max((tiles.sum(axis=1) / rate).max(), (tiles.sum(axis=0) / rate).max()))


@dataclass(frozen=True, slots=True, eq=False)
class _Copies:
    """Each (item, server) pair: where it starts, which server it goes to and which of its GPUs want it."""

    item: Ints
    src: Ints  # rank
    server: Ints
    wanted: NDArray[np.uint64]  # bit g: GPU g of the server

    @classmethod
    def of(cls, cluster: Cluster, problem: Problem) -> _Copies:
        width = cluster.gpus_per_server
        if width > MAX_GPUS_PER_SERVER:
            raise InvalidInput(f"gpus_per_server={width} is above {MAX_GPUS_PER_SERVER}")
        rows = problem.items.destinations.to_ragged()
        item, rank = rows.row_of_value, rows.values.astype(np.int64)
        key = item * cluster.servers + rank // width
        distinct, place = np.unique(key, return_inverse=True)
        wanted = np.zeros(len(distinct), np.uint64)
        np.bitwise_or.at(wanted, place, np.uint64(1) << (rank % width).astype(np.uint64))
        item = distinct // cluster.servers
        return cls(item, problem.items.origin[item].astype(np.int64), distinct % cluster.servers, wanted)

    def entry(self, cluster: Cluster) -> Ints:
        """A rank that wants each copy, in turn: if it lands there, no more than a multicast to the others is left."""
        width = cluster.gpus_per_server
        turn = (np.arange(width) + self.item[:, None]) % width
        wants = (self.wanted[:, None] >> turn.astype(np.uint64)) & np.uint64(1)
        first = np.argmax(wants, axis=1)
        return np.asarray(self.server * width + turn[np.arange(len(turn)), first], np.int64)

    def per_gpu(self, cluster: Cluster) -> Ints:
        """How many copies each GPU wants, ``[num_servers, gpus_per_server]``."""
        bits = (self.wanted[:, None] >> np.arange(cluster.gpus_per_server, dtype=np.uint64)) & np.uint64(1)
        counts = np.zeros((cluster.servers, cluster.gpus_per_server), np.int64)
        np.add.at(counts, self.server, bits.astype(np.int64))
        return counts

    def demand(self, cluster: Cluster, bytes_per_token: int) -> Demand:
        """Only what leaves its server."""
        away = self.src // cluster.gpus_per_server != self.server
        entry = self.entry(cluster)
        counts = np.zeros((cluster.num_ranks, cluster.num_ranks), np.int64)
        np.add.at(counts, (self.src[away], entry[away]), 1)
        return Demand(counts * bytes_per_token, "one copy per token and server")


@dataclass(frozen=True, slots=True, eq=False)
class _Dispatch:
    """Copies with the wire message that carries each of them (none inside a server)."""

    cluster: Cluster
    size_bytes: int
    near: _Copies
    far: _Copies
    wire: Schedule  # of the de-duplicated demand; only its messages between servers are used
    wire_of_copy: Ints  # row of `wire` for each far copy

    @classmethod
    def of(cls, cluster: Cluster, problem: Problem, bytes_per_token: int, algorithm: str, fineness: float) -> _Dispatch:
        copies = _Copies.of(cluster, problem)
        width = cluster.gpus_per_server
        away = copies.src // width != copies.server
        near, far = _take(copies, ~away), _take(copies, away)
        planned = _wire_plan(cluster, copies, bytes_per_token, algorithm, fineness)
        carriers = _carriers(planned, far, cluster, bytes_per_token)
        wire_of_copy = ordered_in_lanes(planned.schedule, carriers, far.item, far.src, far.wanted, cluster)
        return cls(cluster, bytes_per_token, near, far, planned.schedule, wire_of_copy)

    def to_schedule(self) -> Schedule:
        """Hops to carriers, wire, multicasts, and local multicasts."""
        used, wire = np.unique(self.wire_of_copy, return_inverse=True)
        carrier = self.wire.src.values[used].astype(np.int64)
        landing = self.wire.dst.values[used].astype(np.int64)
        table = MessageTable(self.cluster)
        hop_of_copy = self._hops(table, carrier[wire], wire)
        first_wire = table.count
        deps = self._wire_deps(used, wire, hop_of_copy, first_wire)
        table.add(
            Phase.SCALE_OUT,
            carrier,
            np.uint64(1) << (landing % self.cluster.gpus_per_server).astype(np.uint64),
            landing // self.cluster.gpus_per_server,
            wire,
            self.far.item,
            deps,
            stage=self.wire.stage[used],
            slices=self.wire.slice[used],
            order=self.wire.order[used],
            exclusive=self.wire.exclusive[used],
        )
        stage = self.wire.stage[used][wire].astype(np.int64)
        self._multicasts(table, self.far, landing[wire], first_wire + wire, stage)
        near = self._not_served_by_hops(carrier[wire])
        self._multicasts(table, near, near.src, None, np.zeros(len(near.item), np.int64))
        return table.to_schedule(self.size_bytes, self.wire.barriers)

    def _hops(self, table: MessageTable, carrier: Ints, wire: Ints) -> Ints:
        """Move each token once to each carrier that is not its own GPU; returns the message of each copy, or -1."""
        moves = carrier != self.far.src
        message = np.full(len(wire), -1, np.int64)
        if not moves.any():
            return message
        # A token that two servers want may leave by one carrier: it hops there once, with the earlier wire message.
        key = self.far.item[moves] * self.cluster.num_ranks + carrier[moves]
        order = np.lexsort((wire[moves], key))
        key_sorted = key[order]
        is_first = np.concatenate([[True], key_sorted[1:] != key_sorted[:-1]])
        first_row = order[is_first]
        of_key = np.cumsum(is_first) - 1
        rows = np.flatnonzero(moves)[first_row]
        group = np.stack([self.far.src[rows], carrier[rows], wire[rows]], axis=1)
        distinct, place = np.unique(group, axis=0, return_inverse=True)
        width = self.cluster.gpus_per_server
        first = table.add(
            Phase.BALANCE,
            distinct[:, 0],
            np.uint64(1) << (distinct[:, 1] % width).astype(np.uint64),
            distinct[:, 1] // width,
            place.reshape(-1),
            self.far.item[rows],
            Ragged.empty(len(distinct)),
        )
        found = np.empty(int(moves.sum()), np.int64)
        found[order] = first + place.reshape(-1)[of_key]
        message[moves] = found
        return message

    def _not_served_by_hops(self, carrier: Ints) -> _Copies:
        """Local copies without the GPUs that get the token anyway because they carry it to another server."""
        wanted = self.near.wanted.copy()
        place = np.searchsorted(self.near.item, self.far.item)
        place = np.minimum(place, max(0, len(self.near.item) - 1))
        moves = carrier != self.far.src
        if len(wanted):
            moves &= self.near.item[place] == self.far.item
            bit = np.uint64(1) << (carrier % self.cluster.gpus_per_server).astype(np.uint64)
            np.bitwise_and.at(wanted, place[moves], ~bit[moves])
        return _Copies(self.near.item, self.near.src, self.near.server, wanted)

    def _wire_deps(self, used: Ints, wire: Ints, hop_of_copy: Ints, first_wire: int) -> Ragged:
        """Each wire message waits for its hops, and for the wire messages it waited for in the plan."""
        of = [wire[hop_of_copy >= 0]]
        on = [hop_of_copy[hop_of_copy >= 0]]
        place = np.full(self.wire.num_messages, -1, np.int64)
        place[used] = np.arange(len(used))
        row, dep = self.wire.deps.row_of_value, self.wire.deps.values.astype(np.int64)
        is_kept = (place[row] >= 0) & (place[dep] >= 0)
        of.append(place[row[is_kept]])
        on.append(first_wire + place[dep[is_kept]])
        return Ragged.from_pairs(np.concatenate(of), np.concatenate(on), len(used))

    def _multicasts(self, table: MessageTable, copies: _Copies, at: Ints, after: Ints | None, stage: Ints) -> None:
        """From where a token is to the GPUs of that server that want it."""
        width = self.cluster.gpus_per_server
        here = np.uint64(1) << (at % width).astype(np.uint64)
        rest = copies.wanted & ~here
        some = rest != 0
        group = np.stack(
            [
                at[some].astype(np.uint64),
                rest[some],
                np.zeros(int(some.sum()), np.uint64) if after is None else after[some].astype(np.uint64),
            ],
            axis=1,
        )
        item, stages = copies.item[some], stage[some]
        if not self.cluster.multicasts or self.cluster.scale_up != "switch":
            group, row = _one_by_one(group, width)
            item, stages = item[row], stages[row]
        if len(group) == 0:
            return
        distinct, first, place = np.unique(group, axis=0, return_index=True, return_inverse=True)
        source = distinct[:, 0].astype(np.int64)
        deps = Ragged.empty(len(distinct)) if after is None else Ragged.single(distinct[:, 2].astype(np.int32))
        phase = Phase.LOCAL if after is None else Phase.REDISTRIBUTE
        table.add(phase, source, distinct[:, 1], source // width, place.reshape(-1), item, deps, stage=stages[first])


def _wire_plan(cluster: Cluster, copies: _Copies, size_bytes: int, algorithm: str, fineness: float) -> Plan:
    """The All-to-Allv between servers, sliced for MoE where the algorithm lets itself be told."""
    demand = copies.demand(cluster, size_bytes)
    wire_s, overhead_s = _wire_s(cluster, demand), cluster.message_overhead_s
    if algorithm != "adaptive" or wire_s == 0:
        return plan(cluster, demand, algorithm)
    if overhead_s == 0:
        return plan(cluster, demand, algorithm, slices=MOST_SLICES)
    port_s = copies.per_gpu(cluster).max() * size_bytes / cluster.scale_up_bandwidth_bytes_per_s
    slices = fineness * np.sqrt(wire_s / overhead_s) / max(1, cluster.servers - 1)
    slices *= 1 + FINER_IF_HOT * min(1.0, port_s / wire_s) ** 2
    return plan(cluster, demand, algorithm, slices=int(np.clip(round(slices), 1, MOST_SLICES)))


def _carriers(planned: Plan, far: _Copies, cluster: Cluster, size_bytes: int) -> Ints:
    """The wire message that takes each far copy: the one that carries its first byte in the plan."""
    schedule, items = planned.schedule, planned.problem.items
    if len(far.item) == 0:
        return np.zeros(0, np.int64)
    src, entry = items.origin.astype(np.int64), items.destinations.to_ragged().values.astype(np.int64)
    item_of_pair = np.full((cluster.num_ranks, cluster.num_ranks), -1, np.int64)
    item_of_pair[src, entry] = np.arange(len(items))
    own = item_of_pair[far.src, far.entry(cluster)]
    # Copies of one pair lie end to end in the order of their items.
    order = np.lexsort((far.item, own))
    starts = np.concatenate([[True], own[order][1:] != own[order][:-1]])
    first = np.flatnonzero(starts)
    within = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
    offset = np.empty(len(order), np.int64)
    offset[order] = within * size_bytes
    is_wire = (schedule.phase == Phase.SCALE_OUT)[schedule.pieces.message]
    pieces = np.flatnonzero(is_wire)
    piece_item, piece_offset = schedule.pieces.item[pieces].astype(np.int64), schedule.pieces.offset[pieces]
    by_place = np.lexsort((piece_offset, piece_item))
    span = int(items.size_bytes.max()) + 1
    keys = piece_item[by_place] * span + piece_offset[by_place]
    found = np.searchsorted(keys, own * span + offset, side="right") - 1
    return np.asarray(schedule.pieces.message[pieces[by_place[found]]], np.int64)


def _one_by_one(group: NDArray[np.uint64], width: int) -> tuple[NDArray[np.uint64], Ints]:
    """Each wanted GPU as a group of its own, and the row it came from."""
    bits = (group[:, 1][:, None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
    row, gpu = np.nonzero(bits)
    alone = group[row].copy()
    alone[:, 1] = np.uint64(1) << gpu.astype(np.uint64)
    return alone, row


def _take(copies: _Copies, rows: NDArray[np.bool_]) -> _Copies:
    return _Copies(copies.item[rows], copies.src[rows], copies.server[rows], copies.wanted[rows])
