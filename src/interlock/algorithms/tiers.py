"""Ours: collectives of clusters, tier by tier, in slices that hide each other.

Inside a server bytes meet at *carriers*, GPUs with a NIC, each of which holds the share that its NIC can move; between
servers carriers exchange their shares; inside again they hand them on. Copies run from an origin to its server's
carriers, along a tree of servers, and from the carriers there to all that want them; sums are the same read backwards;
an All-Reduce is both, through a server that owns the part. Every share is cut into slices, short ones at both ends, so
that the scale-up network, the NICs and the scale-up network again work on different slices at the same time.

One server and one rail are decided: which part of a line of bytes each carrier holds (`tier_shares`), how a part travels
between servers (a star, or rounds of a few), and how many slices there are. Slow, dead and absent NICs, unequal servers,
rails and process groups are shares of that line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.registry import Algorithm
from interlock.algorithms.rounds import group_members, refuses_kinds
from interlock.algorithms.tier_messages import Moves, Parts, Pass, by_single, schedule_parts
from interlock.algorithms.tier_shares import Carriers, carriers_of, cut_lines
from interlock.collectives import CollectiveKind
from interlock.problem import Problem
from interlock.schedule import Kind, Schedule, empty_schedule
from interlock.topology import Cluster

__all__ = ["ALGORITHM", "Way", "tiers"]

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

SPREADING = (CollectiveKind.ALL_GATHER, CollectiveKind.BROADCAST, CollectiveKind.SCATTER)
COLLECTING = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.REDUCE, CollectiveKind.GATHER)
TO_ONE = (CollectiveKind.SCATTER, CollectiveKind.GATHER)
KINDS = (*SPREADING, *COLLECTING, CollectiveKind.ALL_REDUCE)


@dataclass(frozen=True, slots=True)
class Way:
    """What is left to choose once shares follow the NICs."""

    weights: tuple[float, ...] = (1.0,)  # of slices
    radices: tuple[int, ...] = ()  # servers per round; nothing: all at once
    in_switch: bool = True  # multicast and sums in the scale-up switch, where it can
    relays: bool = True  # a Broadcast goes through a server per part, which passes it on


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A problem seen as servers with members and carriers."""

    problem: Problem
    cluster: Cluster
    kind: CollectiveKind
    members: NDArray[np.bool_]  # of all ranks
    servers: Ids  # that hold members, ascending
    root: int  # rank; of rooted collectives
    carriers: Carriers

    @classmethod
    def of(cls, problem: Problem) -> Scene:
        """The scene of a collective on a cluster."""
        assert problem.cluster is not None and problem.collective is not None
        group = group_members(problem).astype(np.int64)
        members = np.zeros(problem.num_ranks, np.bool_)
        members[group] = True
        servers = np.unique(group // problem.cluster.gpus_per_server)
        carriers = carriers_of(problem.cluster, servers, group)
        kind = problem.collective.kind
        return cls(problem, problem.cluster, kind, members, servers, problem.collective.root, carriers)

    def place_of(self, ranks: NDArray[np.integer]) -> Ids:
        """The place in `servers` of each rank's server."""
        return np.searchsorted(self.servers, ranks // self.cluster.gpus_per_server)


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Parts, where each begins (or ends, read backwards), and the tree of servers it takes."""

    parts: Parts
    origin: Ids  # rank
    home: Ids  # place of its server
    carrier: Ids  # [num_parts, num_servers], rank
    tree: Ids  # number of its tree


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Tree b brings a part to server t from server ``parent[b, t]`` (-1: not at all) in a round, in a turn of it."""

    parent: Ids
    round: Ids
    turn: Ids


def tiers(problem: Problem, *, seed: int = 0, way: Way | None = None) -> Schedule:
    """Shares, trees of servers, slices."""
    scene = Scene.of(problem)
    if len(problem.items) == 0 or int(scene.members.sum()) == 1:
        return empty_schedule()
    return follow(scene, way or Way())


def follow(scene: Scene, way: Way) -> Schedule:
    """The schedule of one way."""
    trees = _trees(scene, way)
    placed = _place(scene, way)
    outward = [_hand(scene, placed), *_between_servers(scene, placed, trees), _inside(scene, placed, trees, way)]
    adds = Kind.REDUCE if scene.problem.items.are_reduced else Kind.COPY
    inward = [Pass(adds, True, moves) for moves in reversed(outward)]
    copies = [Pass(Kind.COPY, False, moves) for moves in outward]
    phases = inward if scene.kind in COLLECTING else copies
    if scene.kind is CollectiveKind.ALL_REDUCE:
        phases = [*inward, *copies]
    phases = [each for each in phases if any(len(moves.part) for moves in each.moves)]
    return schedule_parts(scene.problem, placed.parts, phases, scene.members)


def _place(scene: Scene, way: Way) -> Placed:
    """Cut the line of each origin's server (of all bytes, where they have one origin or none) by carrier, slice, and
    where there is a choice by the server that the part goes through."""
    items, count = scene.problem.items, len(scene.servers)
    slices = np.concatenate([[0.0], np.cumsum(way.weights) / np.sum(way.weights)])
    weights = _owner_weights(scene, way)
    owners = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
    within = (slices[:-1, None] + np.diff(slices)[:, None] * owners[None, :-1]).ravel()
    cuts = scene.carriers.cuts
    edges = np.append((cuts[:-1, None] + np.diff(cuts)[:, None] * within).ravel(), 1.0)
    origin = _origins(scene)
    line = np.zeros(len(items), np.int64) if origin is None else scene.place_of(_line_ends(scene, origin))
    if scene.kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        line = np.zeros(len(items), np.int64)
    cells = cut_lines(items.size_bytes, line, edges)
    interval, rest = np.divmod(cells.cell, len(within))
    number, owner = np.divmod(rest, len(weights))
    carrier = scene.carriers.rank[interval]
    parts = Parts(cells.item, cells.offset, cells.length, number)
    if origin is None:
        return Placed(parts, carrier[np.arange(len(owner)), owner], owner, carrier, owner)
    home = scene.place_of(origin[cells.item])
    tree = owner if len(weights) > 1 else home
    if scene.kind in TO_ONE:
        tree = cells.line
    return Placed(parts, origin[cells.item], home, carrier, tree)


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


def _owner_weights(scene: Scene, way: Way) -> Floats:
    """How much of every slice each server is responsible for. An All-Reduce keeps the NICs of server t busy for
    (1 + (N - 2) w) / rate: weights that make that alike. A Broadcast is passed on by all servers but its root's."""
    count = len(scene.servers)
    if scene.kind is CollectiveKind.ALL_REDUCE:
        rate = _server_rates(scene)
        weights = np.full(count, 1.0)
        if count > 2:
            weights = np.maximum((2 * count - 2) * rate / rate.sum() - 1, 0.0) / (count - 2)
        return weights
    if scene.kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE) and way.relays and count > 2:
        weights = np.ones(count)
        weights[scene.place_of(np.array([scene.root]))] = 0.0
        return weights
    return np.ones(1)


def _server_rates(scene: Scene) -> Floats:
    """NICs of each server together."""
    rate = scene.cluster.nic_bandwidth_bytes_per_s.reshape(scene.cluster.servers, -1)[scene.servers]
    if scene.cluster.scale_out == "rail":
        rate = np.broadcast_to(rate.min(axis=0), rate.shape)
    return np.asarray(rate.sum(axis=1))


def _trees(scene: Scene, way: Way) -> Trees:
    """From each server to all others: a star, or digit by digit of the servers' numbers."""
    count = len(scene.servers)
    place = np.arange(count)
    if scene.kind in TO_ONE or scene.kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        home = int(scene.place_of(np.array([scene.root]))[0])
        own = place[:, None] == place[None, :]
        if scene.kind in TO_ONE:
            return Trees(np.where(own & (place != home), home, -1), np.zeros((count, count), np.int64), own * place)
        parent = np.where(own, home, place[:, None]) if way.relays and count > 2 else np.full((count, count), home)
        parent[:, home] = -1
        last = ~own if way.relays and count > 2 else np.zeros_like(own)
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


def _hand(scene: Scene, placed: Placed) -> list[Moves]:
    """From the origin to the carrier of its server; what a Scatter leaves in the root's server goes straight there."""
    carrier = placed.carrier[np.arange(len(placed.home)), placed.home]
    if scene.kind in TO_ONE:
        stays = placed.tree == placed.home
        end = _other_ends(scene, placed)
        carrier = np.where(stays, end, carrier)
    part = np.flatnonzero(carrier != placed.origin)
    near, far = placed.origin[part], carrier[part]
    return [Moves(part, near, far, (far - near) % scene.cluster.gpus_per_server)]


def _other_ends(scene: Scene, placed: Placed) -> Ids:
    return _line_ends(scene, placed.origin)[placed.parts.item]


def _between_servers(scene: Scene, placed: Placed, trees: Trees) -> list[list[Moves]]:
    """Carrier to carrier along the tree, round by round."""
    made = []
    for round_ in range(int(trees.round.max(initial=0)) + 1):
        served = (trees.parent >= 0) & (trees.round == round_)
        part, server = np.nonzero(served[placed.tree])
        tree = placed.tree[part]
        near = placed.carrier[part, trees.parent[tree, server]]
        made.append([Moves(part, near, placed.carrier[part, server], trees.turn[tree, server])])
    return made


def _inside(scene: Scene, placed: Placed, trees: Trees, way: Way) -> list[Moves]:
    """From the carrier in each server to all members there, in the switch where that can."""
    width = scene.cluster.gpus_per_server
    if scene.kind in TO_ONE:
        end = _other_ends(scene, placed)
        carrier = placed.carrier[np.arange(len(end)), placed.tree]
        part = np.flatnonzero((carrier != end) & (placed.tree != placed.home))
        return [Moves(part, carrier[part], end[part], (end[part] - carrier[part]) % width)]
    count = len(scene.servers)
    part = np.repeat(np.arange(len(placed.home)), count)
    server = np.tile(np.arange(count), len(placed.home))
    near = placed.carrier.ravel()
    origin = placed.origin[part]
    spared = np.where((server == placed.home[part]) & (origin != near), origin, -1)
    in_server = np.bincount(np.flatnonzero(scene.members) // width, minlength=scene.cluster.servers)[scene.servers]
    ends = in_server[server] - scene.members[near] - ((spared >= 0) & scene.members[spared])
    able = _switch_is_able(scene) and way.in_switch
    fans, singles = np.flatnonzero((ends > 1) & able), np.flatnonzero((ends > 0) & ~((ends > 1) & able))
    turn = near % width
    made = [Moves(part[fans], near[fans], spared[fans], turn[fans], is_fan=True)]
    rest = Moves(part[singles], near[singles], spared[singles], turn[singles])
    return [*made, by_single(rest, scene.members, width)]


def _switch_is_able(scene: Scene) -> bool:
    cluster = scene.cluster
    multicasts = cluster.multicasts or scene.kind in COLLECTING
    reduces = cluster.reduces or scene.kind in SPREADING
    return cluster.scale_up == "switch" and multicasts and reduces


def supports(problem: Problem) -> str | None:
    """Collectives on a cluster whose servers reach each other."""
    if problem.cluster is None:
        return "it plans collectives on two-tier clusters"
    reason = refuses_kinds(problem, KINDS)
    if reason is not None:
        return reason
    servers = np.unique(group_members(problem) // problem.cluster.gpus_per_server)
    if len(servers) > 1:
        rate = problem.cluster.nic_bandwidth_bytes_per_s.reshape(problem.cluster.servers, -1)[servers]
        if (rate.sum(axis=1) <= 0).any():
            return f"server {servers[rate.sum(axis=1) <= 0][0]} has no NIC"
        if problem.cluster.scale_out == "rail" and not rate.min(axis=0).any():
            return "no rail joins all servers"
    return None


ALGORITHM = Algorithm("tiers", "inside servers, by rail between them, inside again, in slices (ours)", supports, tiers)
