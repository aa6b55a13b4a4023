"""MoE dispatch and combine across servers: one copy of a token per server over the NICs, multicast inside.

The wire is planned by an All-to-Allv algorithm on de-duplicated demand. Where a token lands, the scale-up switch
multicasts it to the GPUs of its experts (or copies go one by one where the switch cannot). Combine is dispatch played
backwards: partials are added in the switch, then along the way. Both are schedules like any other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms import adaptive
from interlock.errors import InvalidInput
from interlock.planning import Plan, plan
from interlock.problem import Problem, combine_problem, demand_problem, dispatch_problem
from interlock.ragged import Ragged, before_in_group, run_starts
from interlock.schedule import Batch, Kind, Phase, Pieces, Schedule, assemble, backwards
from interlock.topology import Cluster
from interlock.traffic import Demand, Routing

__all__ = [
    "deduplicated_demand",
    "plan_combine",
    "plan_dispatch",
    "server_bound_s",
    "tree_paths",
]

Ints = NDArray[np.int64]
# Both of a lane, fitted at 4x8 and 8x8 with 256 to 4096 tokens per GPU.
LATE_FROM = 0.5  # tokens that another GPU brings to the carrier have this long to arrive
HEAT_SHIFT = 0.7  # how much earlier tokens for a GPU go whose port is as busy as the wire
# Sums under way at once, in multiples of what a scale-up port passes in one latency. Fitted at 4x8 and 8x8; a sum waits
# at one port where it lands and at several where it starts, so these need more to stay busy.
UNDER_WAY_DOWN, UNDER_WAY_UP = 2.0, 5.0
MAX_GPUS_PER_SERVER = 64  # a set of a server's GPUs is one 64-bit word
# Slices of a lane, over the root of (time on the wire / overhead of a message) divided by the servers to talk to. Finer
# ones start sooner, which combine needs, and cost more. Fitted at 4x8 and 8x8 with 128 to 1024 tokens per GPU.
DISPATCH_FINENESS, COMBINE_FINENESS = 0.62, 0.8
FINER_IF_HOT = 0.6  # more where a scale-up port is as busy as the wire: sums for it must be ready in time; fitted too
MOST_SLICES = 48


def tree_paths(one: Ragged, many: Ragged, num_ranks: int, *, toward_many: bool) -> Ragged:
    """Links of each message with several ranks on one side: rank r goes up by link r and down by link num_ranks + r."""
    is_tree = many.counts > 1
    counts = np.where(is_tree, many.counts + 1, 0)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    values = np.zeros(int(offsets[-1]), np.int32)
    values[offsets[:-1][is_tree]] = one.values[is_tree] + (0 if toward_many else num_ranks)
    row = many.row_of_value
    within = np.arange(len(many.values)) - many.offsets[row]
    chosen = is_tree[row]
    place = offsets[row] + 1 + within
    values[place[chosen]] = many.values[chosen] + (num_ranks if toward_many else 0)
    return Ragged(offsets.astype(np.int64), values)


def ordered_in_lanes(
    wire: Schedule, wire_of_copy: Ints, item: Ints, src: Ints, wanted: NDArray[np.uint64], cluster: Cluster
) -> Ints:
    """Exchange copies between the messages of their lane; returns the message of each copy.

    Copies wanted by the same GPUs go together, so that one multicast or sum serves them. Where a set of GPUs stands in
    a lane is scattered, lane by lane, since all lanes would otherwise press on the same ports at once. Copies that
    nobody but the GPU where they land wants go last: nothing follows them in dispatch and combine, which plays this
    backwards, sends them at once. Before them go those for GPUs whose ports have time.

    Parameters
    ----------
    wire_of_copy
        Row of `wire` that takes each copy in the plan.
    wanted
        GPUs of the server it goes to, as bits.
    """
    carrier, landing = (ends.values[wire_of_copy].astype(np.int64) for ends in (wire.src, wire.dst))
    lane = carrier * cluster.num_ranks + landing
    rest = wanted & ~(np.uint64(1) << (landing % cluster.gpus_per_server).astype(np.uint64))
    place = _scattered(rest, lane) * (1 - HEAT_SHIFT * _heat(rest, landing, cluster))
    place[carrier != src] = LATE_FROM
    place[rest == 0] = 1.0
    seats = np.lexsort((wire_of_copy, wire.slice[wire_of_copy], wire.stage[wire_of_copy], lane))
    made = np.empty_like(wire_of_copy)
    made[np.lexsort((item, rest, place, lane))] = wire_of_copy[seats]
    return made


def _scattered(rest: NDArray[np.uint64], lane: Ints) -> NDArray[np.float64]:
    """A number from 0 to 1 for each set of GPUs and lane, by multiplicative hashing."""
    mixed = (rest + np.uint64(0x1F123BB5) * lane.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(40)).astype(np.float64) / 2**24


def _heat(rest: NDArray[np.uint64], landing: Ints, cluster: Cluster) -> NDArray[np.float64]:
    """How busy the busiest scale-up port of each set of GPUs is, 1 if as busy as the busiest NIC or busier."""
    server = landing // cluster.gpus_per_server
    wants = ((rest[:, None] >> np.arange(cluster.gpus_per_server, dtype=np.uint64)) & np.uint64(1)).astype(np.float64)
    copies = np.zeros((cluster.servers, cluster.gpus_per_server))
    np.add.at(copies, server, wants)
    nic_s = np.bincount(landing, minlength=1).max(initial=1) / cluster.nic_bandwidth_bytes_per_s.max()
    busy = np.minimum(copies / cluster.scale_up_bandwidth_bytes_per_s / nic_s, 1.0)
    return np.asarray((wants * busy[server]).max(axis=1, initial=0.0), np.float64)


def played_backwards(schedule: Schedule, cluster: Cluster) -> Schedule:
    """The same messages backwards in time and direction, every copy a reduction."""
    last_first = np.arange(schedule.num_messages)[::-1]
    waits, for_ = _paced(schedule, cluster)
    row = np.concatenate([schedule.deps.row_of_value, for_])
    dep = np.concatenate([schedule.deps.values.astype(np.int64), waits])
    one, many = schedule.src.take(last_first), schedule.dst.take(last_first)
    made = backwards(schedule, row, dep, tree_paths(one, many, cluster.num_ranks, toward_many=False))
    return replace(made, kind=np.full(schedule.num_messages, Kind.REDUCE, np.uint8))


def _paced(schedule: Schedule, cluster: Cluster) -> tuple[Ints, Ints]:
    """Pairs (sum, message) that hold back, backwards, sums which are not yet needed.

    All at once they would share the ports, and those of the first slices would end as late as all others. So every
    port, where they start and where they land, takes them in the order in which the wire needs them, as many at a time
    as hide its latency. Sums that stay inside a server come last.
    """
    rows = _by_need(schedule, cluster)
    landing, adding = schedule.src.values[schedule.src.offsets[rows]], schedule.dst.take(rows)
    rate, size = cluster.scale_up_bandwidth_bytes_per_s, schedule.size_bytes[rows].astype(np.float64)
    in_latency = rate * cluster.scale_up_latency_s
    held, until = _in_turn(landing, size + rate * cluster.message_overhead_s, UNDER_WAY_DOWN * in_latency)
    row = adding.row_of_value
    held_up, until_up = _in_turn(adding.values, size[row], UNDER_WAY_UP * in_latency)
    held, until = np.concatenate([held, row[held_up]]), np.concatenate([until, row[until_up]])
    return rows[held], rows[until]


def _by_need(schedule: Schedule, cluster: Cluster) -> Ints:
    """All sums in the order in which they are needed backwards: by stage, by how much of their lane goes before, and
    among equals one destination server after the other, so that some lanes can start."""
    sums = np.flatnonzero((schedule.phase == Phase.REDISTRIBUTE) & (schedule.deps.counts == 1))
    near = np.flatnonzero(schedule.phase == Phase.LOCAL)
    wire = schedule.deps.values[schedule.deps.offsets[sums]].astype(np.int64)
    start, end = (cluster.server_of(ends.values[ends.offsets[wire]]) for ends in (schedule.dst, schedule.src))
    needed = np.concatenate([_sent_before(schedule)[wire], np.ones(len(near))])
    turn = np.concatenate([(end - start) % cluster.servers, np.zeros(len(near), np.int64)])
    rows = np.concatenate([sums, near])
    return rows[np.lexsort((-schedule.size_bytes[rows], turn, needed, -schedule.stage[rows]))]


def _in_turn(port: NDArray[np.int32], size_bytes: NDArray[np.float64], most_bytes: float) -> tuple[Ints, Ints]:
    """Pairs (later, earlier) of rows at one port, in their order, such that no more than so many bytes lie between."""
    order = np.argsort(port, kind="stable")
    group = port[order]
    end = np.cumsum(size_bytes[order])
    begin = end - size_bytes[order]
    earlier = np.searchsorted(end, begin - most_bytes, side="right") - 1
    waits = (earlier >= 0) & (group[earlier] == group)
    return order[waits], order[earlier[waits]]


def _sent_before(schedule: Schedule) -> NDArray[np.float64]:
    """For each wire message, which part of the bytes between its two ranks is sent before it when played backwards."""
    rows = np.flatnonzero(schedule.phase == Phase.SCALE_OUT)[::-1]
    src, dst = (ends.values[ends.offsets[rows]].astype(np.int64) for ends in (schedule.src, schedule.dst))
    lane = np.unique(src * 2**31 + dst, return_inverse=True)[1].reshape(-1)
    order = np.argsort(lane, kind="stable")
    size = schedule.size_bytes[rows[order]].astype(np.float64)
    of_lane = np.bincount(lane, weights=schedule.size_bytes[rows])
    before = np.cumsum(size) - size - (np.cumsum(of_lane) - of_lane)[lane[order]]
    part = np.ones(schedule.num_messages)
    part[rows[order]] = before / np.maximum(of_lane[lane[order]], 1.0)
    return part


def plan_dispatch(cluster: Cluster, routing: Routing, bytes_per_token: int, algorithm: str = "adaptive") -> Plan:
    """Every token to the ranks of its experts, over the wire once per server."""
    start = time.perf_counter()
    problem = dispatch_problem(cluster, routing, bytes_per_token)
    schedule = _Dispatch.of(cluster, problem, bytes_per_token, algorithm, returns=False).to_schedule()
    took = time.perf_counter() - start
    return Plan(problem, schedule, f"inswitch, {algorithm} on the wire", decide_s=took)


def plan_combine(cluster: Cluster, routing: Routing, bytes_per_token: int, algorithm: str = "adaptive") -> Plan:
    """The results back: a dispatch reversed, sums formed in the switches and on the way."""
    start = time.perf_counter()
    there = dispatch_problem(cluster, routing, bytes_per_token)
    forward = _Dispatch.of(cluster, there, bytes_per_token, algorithm, returns=True).to_schedule()
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


def _tiles(cluster: Cluster, demand: Demand) -> Ints:
    """Bytes from each server to each other one."""
    shape = (cluster.servers, cluster.gpus_per_server)
    return np.asarray(demand.bytes_matrix.reshape(*shape, *shape).sum(axis=(1, 3)))


def _wire_s(cluster: Cluster, demand: Demand) -> float:
    tiles = _tiles(cluster, demand)
    rate = cluster.nic_bandwidth_bytes_per_s.reshape(cluster.servers, cluster.gpus_per_server).sum(axis=1)
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
    def of(cls, cluster: Cluster, problem: Problem, bytes_per_token: int, algorithm: str, returns: bool) -> _Dispatch:
        copies = _Copies.of(cluster, problem)
        width = cluster.gpus_per_server
        away = copies.src // width != copies.server
        near, far = _take(copies, ~away), _take(copies, away)
        planned = _wire_plan(cluster, copies, bytes_per_token, algorithm, returns)
        carriers = _carriers(planned, far, cluster, bytes_per_token)
        wire_of_copy = ordered_in_lanes(planned.schedule, carriers, far.item, far.src, far.wanted, cluster)
        return cls(cluster, bytes_per_token, near, far, planned.schedule, wire_of_copy)

    def to_schedule(self) -> Schedule:
        """Hops to carriers, wire, multicasts, and local multicasts."""
        used, wire = np.unique(self.wire_of_copy, return_inverse=True)
        carrier = self.wire.src.values[used].astype(np.int64)
        landing = self.wire.dst.values[used].astype(np.int64)
        hops, hop_of_copy = self._hops(carrier[wire], wire)
        first_wire = len(hops)
        wire_batch = replace(
            self._batch(Phase.SCALE_OUT, carrier, landing, wire, self.far.item),
            deps=self._wire_deps(used, wire, hop_of_copy, first_wire),
            stage=self.wire.stage[used],
            slice=self.wire.slice[used],
            order=self.wire.order[used],
            exclusive=self.wire.exclusive[used],
        )
        stage = self.wire.stage[used][wire]
        near = self._not_served_by_hops(carrier[wire])
        far_multicasts = self._multicasts(self.far, landing[wire], first_wire + wire, stage)
        near_multicasts = self._multicasts(near, near.src, None, np.zeros(len(near.item), np.int32))
        return assemble([hops, wire_batch, far_multicasts, near_multicasts], self.wire.barriers.tolist())

    def _batch(self, phase: Phase, src: Ints, dst: Ints | Ragged, message: Ints, item: Ints) -> Batch:
        """Messages whose `items` each name the one that carries them; those with several ends take their tree."""
        by_item = np.argsort(item, kind="stable")
        carried = Ragged.grouped(message[by_item], item[by_item], len(src))
        lengths = np.full(len(carried.values), self.size_bytes, np.int64)
        pieces = Pieces(carried.offsets, carried.values, np.zeros_like(lengths), lengths)
        ends = dst if isinstance(dst, Ragged) else Ragged.single(dst.astype(np.int32))
        path = tree_paths(Ragged.single(src.astype(np.int32)), ends, self.cluster.num_ranks, toward_many=True)
        return Batch(src.astype(np.int32), ends, pieces, phase, path=path)

    def _hops(self, carrier: Ints, wire: Ints) -> tuple[Batch, Ints]:
        """Each token once to each carrier that is not its own GPU; and the message of each copy, or -1."""
        moves = carrier != self.far.src
        message = np.full(len(wire), -1, np.int64)
        # A token that two servers want may leave by one carrier: it hops there once, with the earlier wire message.
        key = self.far.item[moves] * self.cluster.num_ranks + carrier[moves]
        order = np.lexsort((wire[moves], key))
        is_first = run_starts(key[order])
        first_row = order[is_first]
        of_key = np.cumsum(is_first) - 1
        rows = np.flatnonzero(moves)[first_row]
        group = np.stack([self.far.src[rows], carrier[rows], wire[rows]], axis=1)
        distinct, place = np.unique(group, axis=0, return_inverse=True)
        found = np.empty(int(moves.sum()), np.int64)
        found[order] = place.reshape(-1)[of_key]
        message[moves] = found
        return self._batch(
            Phase.BALANCE, distinct[:, 0], distinct[:, 1], place.reshape(-1), self.far.item[rows]
        ), message

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

    def _multicasts(self, copies: _Copies, at: Ints, after: Ints | None, stage: NDArray[np.int32]) -> Batch:
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
        distinct, first, place = np.unique(group, axis=0, return_index=True, return_inverse=True)
        source = distinct[:, 0].astype(np.int64)
        row, gpu = np.nonzero((distinct[:, 1, None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1))
        ends = Ragged.grouped(row, source[row] // width * width + gpu, len(distinct))
        made = self._batch(Phase.LOCAL if after is None else Phase.REDISTRIBUTE, source, ends, place.reshape(-1), item)
        deps = None if after is None else Ragged.single(distinct[:, 2].astype(np.int32))
        return replace(made, deps=deps, stage=stages[first])


def _wire_plan(cluster: Cluster, copies: _Copies, size_bytes: int, algorithm: str, returns: bool) -> Plan:
    """The All-to-Allv between servers, sliced for MoE where the algorithm lets itself be told.

    What `returns` is sent by whom it is planned to go to: there each message costs the busiest receiver. Messages get
    no turns, as in any step: multicasts and sums want the same ports.
    """
    demand = copies.demand(cluster, size_bytes)
    wire_s = _wire_s(cluster, demand)
    if algorithm != "adaptive" or wire_s == 0:
        return plan(cluster, demand, algorithm)
    costs_nothing = cluster.message_overhead_s == 0
    slices = float(MOST_SLICES) if costs_nothing else _slices(cluster, copies, size_bytes, demand, wire_s, returns)
    planned = adaptive.prepare(cluster, slices=int(np.clip(round(slices), 1, MOST_SLICES)))(demand)
    return Plan(demand_problem(cluster, demand), planned, algorithm)


def _slices(cluster: Cluster, copies: _Copies, size_bytes: int, demand: Demand, wire_s: float, returns: bool) -> float:
    """How many slices of a lane start soon and cost little."""
    port_s = copies.per_gpu(cluster).max() * size_bytes / cluster.scale_up_bandwidth_bytes_per_s
    fineness = COMBINE_FINENESS / _crowd(cluster, demand) if returns else DISPATCH_FINENESS
    slices = fineness * np.sqrt(wire_s / cluster.message_overhead_s) / max(1, cluster.servers - 1)
    return float(slices * (1 + FINER_IF_HOT * min(1.0, port_s / wire_s) ** 2))


def _crowd(cluster: Cluster, demand: Demand) -> float:
    """Slices that the busiest server gets, over as many as it would get if all were like an average lane."""
    tiles = _tiles(cluster, demand)
    average = tiles.sum(axis=1) / np.maximum(1, np.count_nonzero(tiles, axis=1))
    lanes = tiles / np.maximum(1.0, average)[:, None]
    return float(lanes.sum(axis=0).max() / max(1, cluster.servers - 1))


def _carriers(planned: Plan, far: _Copies, cluster: Cluster, size_bytes: int) -> Ints:
    """The wire message that takes each far copy: the one that carries its first byte in the plan."""
    schedule, items = planned.schedule, planned.problem.items
    if len(far.item) == 0:
        return np.zeros(0, np.int64)
    src, entry = items.origin.astype(np.int64), items.destinations.to_ragged().values.astype(np.int64)
    item_of_pair = np.full((cluster.num_ranks, cluster.num_ranks), -1, np.int64)
    item_of_pair[src, entry] = np.arange(len(items))
    own = item_of_pair[far.src, far.entry(cluster)]
    offset = before_in_group(own) * size_bytes  # copies of one pair lie end to end in the order of their items
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
