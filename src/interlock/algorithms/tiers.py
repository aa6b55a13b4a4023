"""Ours: collectives of clusters, tier by tier, in slices that hide each other.

Inside a server bytes meet at *carriers*, GPUs with a NIC, each of which holds the share that its NIC can move; between
servers carriers exchange their shares; inside again they hand them on. Copies run from an origin to its server's
carriers, along a tree of servers, and from the carriers there to all that want them; sums are the same read backwards;
an All-Reduce is both, through a server that owns the part. Every share is cut into slices, short ones at both ends, so
that the scale-up network, the NICs and the scale-up network again work on different slices at the same time.

One server and one rail are decided: which part of a line of bytes each carrier holds (`tier_shares`), how a part goes
from server to server (a star, or rounds of a few), and how many slices there are. Slow, dead and absent NICs, unequal
servers, rails and process groups are shares of that line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.registry import Algorithm
from interlock.algorithms.rounds import group_members
from interlock.algorithms.tier_messages import Pass, TierMoves, by_single, schedule_parts
from interlock.algorithms.tier_shares import ALIGNMENT_BYTES, Carriers, Shares, carriers_of, cut_lines
from interlock.collectives import CollectiveKind
from interlock.cost.predict import Tier, ramp, slices_s
from interlock.problem import Problem
from interlock.ragged import ranges
from interlock.schedule import Chunks, Kind, Schedule, empty_schedule
from interlock.topology import Cluster

__all__ = ["ALGORITHM", "TierWay", "tiers"]

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

SPREADING = (CollectiveKind.ALL_GATHER, CollectiveKind.BROADCAST, CollectiveKind.SCATTER)
COLLECTING = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.REDUCE, CollectiveKind.GATHER)
TO_ONE = (CollectiveKind.SCATTER, CollectiveKind.GATHER)
KINDS = (*SPREADING, *COLLECTING, CollectiveKind.ALL_REDUCE)

SLICES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)
MOST_MESSAGES = 1_000  # of a rank
MOST_ROWS = 6_500_000  # pairs of part and message: some seconds
MOST_WAITS = 8_000_000  # pairs of messages of which one waits for the other, before repetitions are struck out
MOST_TO_TIME = 60_000  # messages of all schedules that are timed: some 0.2 s
MOST_TIMED = 24
MAYBE = 1.3  # how far the ledger may be off, at most, between two ways of a problem
WORTH_MESSAGES = 1.005  # fewer messages are worth as much time
ALIKE = 1.02  # and what it does not tell apart


@dataclass(frozen=True, slots=True)
class TierWay:
    """What is left to choose once shares follow the NICs."""

    weights: tuple[float, ...] = (1.0,)  # of slices
    radices: tuple[int, ...] = ()  # servers per round; nothing: all at once
    relays: bool = True  # a Broadcast goes through a server per part, which passes it on
    in_turns: bool = True  # NICs serve messages alone where each sends one and receives one at every turn
    under_way: int = 1  # slices that a sender with nothing to wait for has under way


@dataclass(frozen=True, eq=False)
class Scene:
    """A problem seen as servers with members and carriers; what all its ways share is counted once."""

    problem: Problem
    cluster: Cluster
    kind: CollectiveKind
    members: NDArray[np.bool_]  # of all ranks
    servers: Ids  # that hold members, ascending
    root: int  # rank; of rooted collectives
    carriers: Carriers
    _ledgers: dict[TierWay, list[Tier]] = field(default_factory=dict)  # by way, whatever its slices

    @classmethod
    def of(cls, problem: Problem, carries: NDArray[np.bool_] | None = None, *, across_rails: bool = False) -> Scene:
        """The scene of a collective on a cluster, where ranks that `carries` names (None: all) may be carriers;
        `across_rails`: the first of each server make a rail, then the second, whatever their numbers."""
        assert problem.cluster is not None and problem.collective is not None
        group = group_members(problem).astype(np.int64)
        members = np.zeros(problem.num_ranks, np.bool_)
        members[group] = True
        servers = np.unique(group // problem.cluster.gpus_per_server)
        kind = problem.collective.kind
        rate = _carrier_rates(problem.cluster, servers, members if len(servers) == 1 else carries)
        ranks = servers[:, None] * problem.cluster.gpus_per_server + np.arange(problem.cluster.gpus_per_server)
        if carries is not None and across_rails:
            is_root = problem.collective.is_rooted & (ranks == problem.collective.root)
            order = np.argsort(~carries[ranks] * 2 - is_root, axis=1, kind="stable")
            rate, ranks = np.take_along_axis(rate, order, axis=1), np.take_along_axis(ranks, order, axis=1)
        carriers = carriers_of(rate, ranks, has_owners=kind is CollectiveKind.ALL_REDUCE)
        return cls(problem, problem.cluster, kind, members, servers, problem.collective.root, carriers)

    @cached_property
    def total_bytes(self) -> float:
        """Of all items."""
        return float(self.problem.items.size_bytes.sum())

    @cached_property
    def most_members(self) -> int:
        """Members in the server that has most of them."""
        return int(np.bincount(self.place_of(np.flatnonzero(self.members))).max())

    @cached_property
    def carrying_rate(self) -> float:
        """NICs of the carriers of a server together, as far as leaves let them through, where that is least."""
        cluster = self.cluster
        port = cluster.nic_bandwidth_bytes_per_s
        if cluster.scale_out == "rail":
            port = np.tile(port.reshape(cluster.servers, -1)[self.servers].min(axis=0), cluster.servers)
        over = cluster.oversubscription if cluster.scale_out == "flat" else 1.0
        used = np.zeros(self.problem.num_ranks, np.bool_)
        used[self.carriers.rank] = True
        rates = np.where(used, port, 0.0).reshape(cluster.servers, -1)[self.servers].sum(axis=1)
        return float(np.minimum(rates, port.reshape(cluster.servers, -1)[self.servers].sum(axis=1) / over).min())

    @cached_property
    def relays_wake(self) -> bool:
        """Whether ranks that have nothing to send at first send later: they open their stage then."""
        return self.is_rooted or not bool(self.members[self.carriers.rank].all())

    @cached_property
    def exchanges_one_to_one(self) -> bool:
        """Whether at every turn each NIC sends one message and receives one, all of them as long, over nothing else;
        of a Broadcast or Reduce where parts are passed on."""
        rate = self.cluster.nic_bandwidth_bytes_per_s[self.carriers.rank]
        alike = not self.carriers.has_stand_ins and np.ptp(self.carriers.by_slice([1.0]).weight) < 1e-9
        has_leaves = self.cluster.scale_out != "rail" and self.cluster.oversubscription > 1.0
        return bool(alike and np.ptp(rate) == 0.0 and not has_leaves and self.kind not in TO_ONE)

    def passes_on(self, way: TierWay) -> bool:
        """Whether a Broadcast or Reduce goes through a server per part."""
        return self.is_rooted and self.kind not in TO_ONE and way.relays and len(self.servers) > 2

    def partners_share_nics(self) -> bool:
        """Whether the fabric counts senders and bears all other servers': ranks then send at rates that do not change,
        which fit what all partners exchange at once, not rounds of a few."""
        fan_in = self.cluster.fabric.fan_in
        return fan_in is not None and len(self.servers) - 1 <= fan_in

    @property
    def is_rooted(self) -> bool:
        """Whether one rank plays a special part."""
        assert self.problem.collective is not None
        return self.problem.collective.is_rooted

    def ledger(self, way: TierWay) -> list[Tier]:
        """The tiers that slices pass, whatever their number."""
        key = replace(way, weights=(), in_turns=True)
        if key not in self._ledgers:
            self._ledgers[key] = _tiers_of(self, key)
        return self._ledgers[key]

    def place_of(self, ranks: NDArray[np.integer]) -> Ids:
        """The place in `servers` of each rank's server."""
        return np.searchsorted(self.servers, ranks // self.cluster.gpus_per_server)


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Parts, where each begins (or ends, read backwards), and the tree of servers it takes."""

    parts: Chunks
    slice: Ids
    origin: Ids  # rank
    home: Ids  # place of its server
    carrier: Ids  # [num_parts, num_servers], rank
    tree: Ids  # number of its tree
    spreader: Ids  # rank that hands it on at home


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Tree b brings a part to server t from server ``parent[b, t]`` (-1: not at all) in a round, in a turn of it."""

    parent: Ids
    round: Ids
    turn: Ids


def tiers(
    problem: Problem, *, seed: int = 0, way: TierWay | None = None, time_of: Callable[[Schedule], float] | None = None
) -> Schedule:
    """Shares, trees of servers, slices: the best by the ledger, or by `time_of` where it tells a schedule's seconds."""
    if len(problem.items) == 0 or len(group_members(problem)) == 1:
        return empty_schedule()
    if way is not None:
        return follow(Scene.of(problem), way)
    options = [Option(scene, each, ledger_s(scene, each)) for scene in _scenes(problem) for each in _ways(scene)]
    options.sort(key=lambda option: option.seconds)
    alike = [option for option in options if option.seconds <= ALIKE * options[0].seconds]
    best = min(alike, key=lambda option: _messages(option.scene, option.way)).build()
    if time_of is None:
        return best
    # The likeliest while they are few messages; where they are many, what the ledger says is near enough.
    if options[0].scene.is_rooted or not options[0].scene.exchanges_one_to_one:  # many slices or few is what matters
        options = _one_of_each(options)
    made, messages = [best], best.num_messages
    for option in options[:MOST_TIMED]:
        if messages + best.num_messages > MOST_TO_TIME or option.seconds > MAYBE * options[0].seconds:
            break
        made.append(option.build())
        messages += made[-1].num_messages
    if len(made) == 1:
        return best
    took_s = [time_of(each) for each in made]
    near = [each for each, seconds in zip(made, took_s, strict=True) if seconds <= WORTH_MESSAGES * min(took_s)]
    return min(near, key=lambda each: each.num_messages)


@dataclass(frozen=True, slots=True)
class Option:
    """A way in a scene, and what the ledger says of it."""

    scene: Scene
    way: TierWay
    seconds: float

    def build(self) -> Schedule:
        """Its schedule."""
        return follow(self.scene, self.way)


def _one_of_each(options: list[Option]) -> list[Option]:
    """The first of every number of slices, set of carriers and way between servers."""
    first: dict[tuple[object, ...], Option] = {}
    for option in options:
        way = option.way
        key = (len(way.weights), len(option.scene.carriers.rank), way.relays, way.in_turns)
        first.setdefault(key, option)
    return list(first.values())


def _scenes(problem: Problem) -> list[Scene]:
    """Carriers are all GPUs with a NIC; where messages of stand-ins take longer than their NICs save, those on rails
    without a dead NIC; where waking others does, members alone, on their rails or across them, or one per server."""
    assert problem.cluster is not None and problem.collective is not None
    group = group_members(problem).astype(np.int64)
    width = problem.cluster.gpus_per_server
    everyone = np.ones(problem.num_ranks, np.bool_)
    members = np.isin(np.arange(problem.num_ranks), group)
    lead = problem.collective.root if problem.collective.is_rooted else int(group[0])
    alone = np.arange(problem.num_ranks) % width == lead % width
    servers = np.unique(group // width)
    made: list[Scene] = []
    has_nic = problem.cluster.nic_bandwidth_bytes_per_s.reshape(-1, width)[servers].min(axis=0) > 0
    whole = np.tile(has_nic, problem.cluster.servers)
    tried = [(everyone, False)]
    if len(servers) > 1:
        tried += [(whole, False), (members, False), (alone, False)]
        tried += [(members, True)] if problem.cluster.scale_out != "rail" else []
    for carries, across_rails in tried:
        if _unserved(problem.cluster, servers, carries) is None:
            scene = Scene.of(problem, carries, across_rails=across_rails)
            is_known = any(np.array_equal(scene.carriers.rank, other.carriers.rank) for other in made)
            if len(scene.carriers.rails) and not is_known:
                made.append(scene)
    return made


def _carrier_rates(cluster: Cluster, servers: Ids, carries: NDArray[np.bool_] | None) -> Floats:
    """NIC rates of the GPUs that may carry ``[servers, GPUs]``; in a single server all alike. On rails that are not
    joined a share stays on its rail, so that the slowest NIC counts."""
    shape = (cluster.servers, cluster.gpus_per_server)
    rate = cluster.nic_bandwidth_bytes_per_s if len(servers) > 1 else np.ones(cluster.num_ranks)
    rate = np.where(True if carries is None else carries, rate, 0.0).reshape(shape)[servers]
    if cluster.scale_out == "rail":
        rate = np.broadcast_to(rate.min(axis=0), rate.shape)
    return np.asarray(rate, np.float64)


def _unserved(cluster: Cluster, servers: Ids, carries: NDArray[np.bool_] | None = None) -> str | None:
    """Why some server cannot be reached."""
    if len(servers) == 1:
        return None
    total = _carrier_rates(cluster, servers, carries).sum(axis=1)
    if total.min() > 0:
        return None
    if cluster.scale_out == "rail":
        return "no rail joins all servers"
    return f"server {servers[total <= 0][0]} has no NIC"


def _ways(scene: Scene) -> list[TierWay]:
    """All that the limits on messages and on what they wait for allow; the plainest always."""
    count = len(scene.servers)
    rounds = [(count,)] if scene.is_rooted or scene.partners_share_nics() else [(count,), *_in_rounds(count)]
    # Alone messages go sooner where there are many, together where there are few.
    turns = (True, False) if scene.exchanges_one_to_one else (False,)
    passing = [(True, in_turns) for in_turns in turns] if scene.passes_on(TierWay()) else []
    relays = [*passing, (False, not scene.is_rooted)]
    waits_for_none = scene.kind is not CollectiveKind.ALL_GATHER
    ways = [
        TierWay(weights, radices, passes_on, in_turns, under_way)
        for weights in map(ramp, SLICES)
        for under_way in ((1, 2) if len(weights) > 1 and waits_for_none else (1,))
        for radices in rounds
        for passes_on, in_turns in relays
    ]
    return [way for way in ways if way.weights == (1.0,) or _is_affordable(scene, way)]


def _in_rounds(count: int) -> list[tuple[int, ...]]:
    """The most even factors of a number of servers, two or three of them."""
    found = []
    pairs = [(low, count // low) for low in range(2, int(count**0.5) + 1) if count % low == 0]
    if pairs:
        found.append(pairs[-1])
    cubes = [
        (a, *rest)
        for a in range(2, round(count ** (1 / 3)) + 1)
        if count % a == 0
        for rest in _in_rounds(count // a)[:1]
    ]
    return [*found, *cubes[-1:]]


def _is_affordable(scene: Scene, way: TierWay) -> bool:
    radices = way.radices or (len(scene.servers),)
    waits = scene.carriers.rank.size * len(way.weights) * max(radices) ** 2 * len(radices)
    intervals, count = scene.carriers.rank.shape
    owners = 1 if scene.is_rooted else count
    tiers_of = scene.ledger(way)
    inside = next((tier.messages for tier in tiers_of if tier.ports != "nic"), 1)
    messages = len(way.weights) * sum(tier.messages for tier in tiers_of)
    rows = intervals * len(way.weights) * owners * count * (1 + inside)
    rows *= 2 if scene.kind is CollectiveKind.ALL_REDUCE else 1
    return messages <= MOST_MESSAGES and waits <= MOST_WAITS and rows <= MOST_ROWS


def _messages(scene: Scene, way: TierWay) -> int:
    """Of one rank."""
    return len(way.weights) * sum(tier.messages for tier in scene.ledger(way))


def ledger_s(scene: Scene, way: TierWay) -> float:
    """Predicted seconds of a way."""
    return slices_s(scene.ledger(way), way.weights)


def _tiers_of(scene: Scene, way: TierWay) -> list[Tier]:
    """Tiers of the busiest server: in, between, out; a collective of one direction has no in, or no out."""
    cluster, kind = scene.cluster, scene.kind
    count = len(scene.servers)
    total, in_server = scene.total_bytes, scene.most_members
    peers = max(in_server - 1, 1)
    port_rate = cluster.slowest_scale_up_bytes_per_s
    if cluster.scale_up == "mesh":
        port_rate *= peers / max(1, cluster.gpus_per_server - 1)
    fans = _switch_is_able(scene) and peers > 1
    # In the switch a port carries a whole sum one way, and hardly anything the other; one-to-one nearly all both ways.
    inside_s = total * (1.0 if fans else peers / in_server) / port_rate
    overhead_s = cluster.message_overhead_s
    inside = Tier("", inside_s, 1 if fans else peers, overhead_s, cluster.scale_up_latency_s)
    rate = scene.carrying_rate if count > 1 else np.inf
    radices = way.radices or (count,)
    between = []
    if count > 1 and kind in TO_ONE:
        between = [Tier("nic", total * (count - 1) / count / rate, count - 1, overhead_s, cluster.scale_out_latency_s)]
    elif count > 1 and scene.is_rooted:
        once_s = total / rate if way.relays else total * (count - 1) / rate
        between = [Tier("nic", once_s / (1 + way.relays), count - 1, overhead_s, cluster.scale_out_latency_s)]
        between *= 1 + way.relays
    elif count > 1:
        held = 1
        for radix in radices:
            busy_s = total * held * (radix - 1) / count / rate
            held *= radix
            between.append(Tier("nic", busy_s, radix - 1, overhead_s, cluster.scale_out_latency_s))
    wake_s = cluster.stage_overhead_s if scene.relays_wake else 0.0
    inward = replace(inside, ports="up" if fans else "ports", under_way=way.under_way)
    if scene.is_rooted and not fans:  # all leaves the root's port once, and little of it is what its peers hand on
        inward = replace(inward, ports="root", busy_s=total / port_rate)
    tiers_in = [replace(inward, latency_s=inward.latency_s + wake_s)]
    tiers_out = [replace(inside, ports="down" if fans else "ports")]
    if scene.is_rooted and kind not in TO_ONE:
        between = [replace(tier, latency_s=tier.latency_s + wake_s) for tier in between]
    elif wake_s:  # what carriers that are no members hold must come to them, or leave them
        between = [*between, *tiers_out] if kind is CollectiveKind.REDUCE_SCATTER else between
        between = [*tiers_in, *between] if kind is CollectiveKind.ALL_GATHER else between
    if kind in TO_ONE:
        return [*tiers_in, *between] if kind is CollectiveKind.SCATTER else [*between, *tiers_out]
    if kind is CollectiveKind.ALL_REDUCE:
        return [*tiers_in, *reversed(between), *between, *tiers_out]
    if scene.is_rooted:
        return [*tiers_in, *between, *tiers_out]
    return [*tiers_in, *reversed(between)] if kind in COLLECTING else [*between, *tiers_out]


def follow(scene: Scene, way: TierWay) -> Schedule:
    """The schedule of one way."""
    trees = _trees(scene, way)
    placed = _place(scene, way)
    at_home, away = _inside(scene, placed, way)
    between = _between_servers(scene, placed, trees)
    between[0] += at_home
    outward = [_hand(scene, placed), *between, away]
    adds = Kind.REDUCE if scene.problem.items.are_reduced else Kind.COPY
    inward = [Pass(adds, True, moves) for moves in reversed(outward)]
    copies = [Pass(Kind.COPY, False, moves) for moves in outward]
    phases = inward if scene.kind in COLLECTING else copies
    if scene.kind is CollectiveKind.ALL_REDUCE:
        phases = [*inward, *copies]
    phases = [each for each in phases if any(len(moves) for moves in each.moves)]
    return schedule_parts(
        scene.problem,
        placed.parts,
        phases,
        scene.members,
        one_to_one=way.in_turns and scene.exchanges_one_to_one and (not scene.is_rooted or scene.passes_on(way)),
        by_turn=way.in_turns and scene.passes_on(way),
        under_way=way.under_way,
        radix=max(way.radices, default=len(scene.servers)),
    )


def _place(scene: Scene, way: TierWay) -> Placed:
    """Cut the line of each origin's server (of all bytes, where they have one origin or none) by carrier, slice, and
    where there is a choice by the server that the part goes through."""
    items = scene.problem.items
    shares = scene.carriers.by_slice(way.weights)
    weights = _owner_weights(scene, way, shares)  # [intervals, slices, owners]
    length = weights * shares.length[:, :, None]
    edges = np.concatenate([[0.0], np.cumsum(length)])
    edges[-1] = 1.0
    origin = _origins(scene)
    line = np.zeros(len(items), np.int64) if origin is None else scene.place_of(_line_ends(scene, origin))
    if scene.kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        line = np.zeros(len(items), np.int64)
    cells = cut_lines(items.size_bytes, line, edges)
    interval, number, owner = np.unravel_index(cells.cell, length.shape)
    carrier = shares.rank[interval, number]
    if origin is None:
        begins = carrier[np.arange(len(owner)), owner]
        return Placed(cells.chunks, number, begins, owner, carrier, owner, begins)
    home = scene.place_of(origin[cells.chunks.item])
    tree = owner if weights.shape[2] > 1 else home
    if scene.kind in TO_ONE:
        tree = cells.line
    spreader = carrier[np.arange(len(home)), home]
    placed = Placed(cells.chunks, number, origin[cells.chunks.item], home, carrier, tree, spreader)
    is_of_one = scene.kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE)
    return _spread_by_peers(scene, placed) if is_of_one and not _switch_is_able(scene) else placed


def _spread_by_peers(scene: Scene, placed: Placed) -> Placed:
    """What the root carries itself its peers hand on at home, a piece each: its port has enough to do with what they
    carry."""
    width = scene.cluster.gpus_per_server
    first = scene.root // width * width
    peers = first + np.flatnonzero(scene.members[first : first + width])
    peers = peers[peers != scene.root]
    if len(peers) < 2:
        return placed
    pieces = np.where(placed.spreader == scene.root, len(peers), 1)
    part = np.repeat(np.arange(len(pieces)), pieces)
    place = ranges(0, pieces)
    length, count = placed.parts.length[part], pieces[part]
    begin, end = (length * step // count // ALIGNMENT_BYTES * ALIGNMENT_BYTES for step in (place, place + 1))
    end = np.where(place + 1 == count, length, end)
    spreader = np.where(count > 1, peers[place % len(peers)], placed.spreader[part])
    kept = end > begin
    part = part[kept]
    parts = Chunks(placed.parts.item[part], placed.parts.offset[part] + begin[kept], (end - begin)[kept])
    columns = (placed.slice[part], placed.origin[part], placed.home[part], placed.carrier[part], placed.tree[part])
    return Placed(parts, *columns, spreader[kept])


def _origins(scene: Scene) -> Ids | None:
    """Rank that each item comes from, or goes to where it is read backwards; None where that is ours to choose."""
    if scene.kind is CollectiveKind.ALL_REDUCE:
        return None
    items = scene.problem.items
    if scene.kind in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.REDUCE, CollectiveKind.GATHER):
        return items.destinations.to_ragged().values.astype(np.int64)
    return items.origin.astype(np.int64)


def _line_ends(scene: Scene, origin: Ids) -> Ids:
    """The rank whose server's line an item lies on: its own, or the other end of a Scatter or Gather."""
    if scene.kind is CollectiveKind.SCATTER:
        return scene.problem.items.destinations.to_ragged().values.astype(np.int64)
    if scene.kind is CollectiveKind.GATHER:
        return scene.problem.items.origin.astype(np.int64)
    return origin


def _owner_weights(scene: Scene, way: TierWay, shares: Shares) -> Floats:
    """How much of each interval's slices every server is responsible for ``[intervals, slices, servers]``: of an
    All-Reduce by its rates; a Broadcast is passed on by all servers but its root's. One column where there is no
    choice."""
    if scene.kind is CollectiveKind.ALL_REDUCE:
        return shares.weight
    if not scene.passes_on(way):
        return np.ones((*shares.weight.shape[:2], 1))
    weights = np.full(shares.weight.shape, 1.0 / (len(scene.servers) - 1))
    weights[:, :, scene.place_of(np.array([scene.root]))] = 0.0
    return weights


def _trees(scene: Scene, way: TierWay) -> Trees:
    """From each server to all others: a star, or digit by digit of the servers' numbers."""
    count = len(scene.servers)
    place = np.arange(count)
    if scene.kind in TO_ONE or scene.kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        home = int(scene.place_of(np.array([scene.root]))[0])
        own = place[:, None] == place[None, :]
        if scene.kind in TO_ONE:
            return Trees(np.where(own & (place != home), home, -1), np.zeros((count, count), np.int64), own * place)
        parent = np.where(own, home, place[:, None]) if scene.passes_on(way) else np.full((count, count), home)
        parent[:, home] = -1
        last = ~own & scene.passes_on(way)
        # At every turn each server sends to one and receives from one, the root's among them.
        return Trees(parent, last.astype(np.int64), (place[None, :] - parent) % count)
    radices = way.radices or (count,)
    assert int(np.prod(radices)) == count
    parent = np.full((count, count), -1)
    number, turn = np.zeros((count, count), np.int64), np.zeros((count, count), np.int64)
    stride = count
    for round_, radix in enumerate(radices):
        stride //= radix
        mine, theirs = place[:, None] // stride % radix, place[None, :] // stride % radix
        differs = mine != theirs
        parent = np.where(differs, place[None, :] + (mine - theirs) * stride, parent)
        number, turn = np.where(differs, round_, number), np.where(differs, (theirs - mine) % radix, turn)
    return Trees(parent, number, turn)


def _hand(scene: Scene, placed: Placed) -> list[TierMoves]:
    """From the origin to who carries it, or hands it on, in its server; what a Scatter leaves in the root's server goes
    straight there."""
    to = placed.spreader
    if scene.kind in TO_ONE:
        stays = placed.tree == placed.home
        to = np.where(stays, _other_ends(scene, placed), to)
    part = np.flatnonzero(to != placed.origin)
    near, far = placed.origin[part], to[part]
    return [TierMoves(part, near, far, (far - near) % scene.cluster.gpus_per_server, placed.slice[part])]


def _other_ends(scene: Scene, placed: Placed) -> Ids:
    return _line_ends(scene, placed.origin)[placed.parts.item]


def _between_servers(scene: Scene, placed: Placed, trees: Trees) -> list[list[TierMoves]]:
    """Carrier to carrier along the tree, round by round."""
    made = []
    for round_ in range(int(trees.round.max(initial=0)) + 1):
        served = (trees.parent >= 0) & (trees.round == round_)
        part, server = np.nonzero(served[placed.tree])
        tree = placed.tree[part]
        near = placed.carrier[part, trees.parent[tree, server]]
        far = placed.carrier[part, server]
        # Stand-ins come last in a turn: their messages are short, and the long ones all fit one-to-one before them.
        across = (far - near) % scene.cluster.gpus_per_server != 0
        turn = 2 * trees.turn[tree, server] + across
        made.append([TierMoves(part, near, far, turn, placed.slice[part])])
    return made


def _inside(scene: Scene, placed: Placed, way: TierWay) -> tuple[list[TierMoves], list[TierMoves]]:
    """From the carrier in each server to all members there: at home as soon as it may be, in other servers after the
    last round. What stays at home of an All-Gather or Reduce-Scatter fills the time when NICs have nothing to give, or
    to take: it is one slice, the first or the last."""
    width, count = scene.cluster.gpus_per_server, len(scene.servers)
    if scene.kind in TO_ONE:
        end = _other_ends(scene, placed)
        carrier = placed.carrier[np.arange(len(end)), placed.tree]
        part = np.flatnonzero((carrier != end) & (placed.tree != placed.home))
        near, far = carrier[part], end[part]
        return [], [TierMoves(part, near, far, (far - near) % width, placed.slice[part])]
    part = np.repeat(np.arange(len(placed.home)), count)
    server = np.tile(np.arange(count), len(placed.home))
    origin, is_home = placed.origin[part], server == placed.home[part]
    near = np.where(is_home, placed.spreader[part], placed.carrier.ravel())
    number = placed.slice[part]
    if count > 1 and scene.kind is CollectiveKind.ALL_GATHER:
        number = np.where(is_home, 0, number)
    if count > 1 and scene.kind is CollectiveKind.REDUCE_SCATTER:
        number = np.where(is_home, len(way.weights), number)
    spared = np.where(is_home & (origin != near), origin, -1)
    in_server = np.bincount(np.flatnonzero(scene.members) // width, minlength=scene.cluster.servers)[scene.servers]
    ends = in_server[server] - scene.members[near] - ((spared >= 0) & scene.members[spared])
    fans = (ends > 1) & _switch_is_able(scene)
    made = []
    for chosen in (is_home, ~is_home):
        fan, single = np.flatnonzero(chosen & fans), np.flatnonzero(chosen & ~fans & (ends > 0))
        turn = near % width
        several = TierMoves(part[fan], near[fan], spared[fan], turn[fan], number[fan], is_fan=True)
        rest = TierMoves(part[single], near[single], spared[single], turn[single], number[single])
        made.append([several, by_single(rest, scene.members, width)])
    return made[0], made[1]


def _switch_is_able(scene: Scene) -> bool:
    cluster = scene.cluster
    multicasts = cluster.multicasts or scene.kind in COLLECTING
    reduces = cluster.reduces or scene.kind in SPREADING
    return cluster.scale_up == "switch" and multicasts and reduces


def refuses(problem: Problem) -> str | None:
    """None on a cluster whose servers reach each other."""
    if problem.cluster is None:
        return "it needs a two-tier cluster"
    return _unserved(problem.cluster, np.unique(group_members(problem) // problem.cluster.gpus_per_server))


ALGORITHM = Algorithm(
    "tiers",
    "inside servers, by rail between them, inside again, in slices (ours)",
    refuses,
    tiers,
    times=True,
    collectives=KINDS,
)
