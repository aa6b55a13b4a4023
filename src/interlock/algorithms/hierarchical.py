"""Hierarchical (BlueConnect): a ring inside every line of one dimension, then of the next, on ever smaller shares.

On a cluster the dimensions are the GPUs of a server and the servers; elsewhere those of a grid whose lines are rings.
Reduce-Scatter goes through them forth, All-Gather back, All-Reduce forth and back. On a cluster bytes are cut into
slices, so that one is inside the servers while another is between them (see `interlock.algorithms.channels`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.channels import (
    MOST_MESSAGES,
    keeps_to_rails,
    members_by_server,
    nic_link,
    scale_up_link,
    schedule_channels,
    walk,
)
from interlock.algorithms.neighbours import MAX_NODES, adjacency, grid_dims
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.ring import is_duplex, split_in_two
from interlock.algorithms.rounds import (
    Ids,
    Moves,
    cut_each,
    group_members,
    owned_parts,
    schedule_moves,
    unroutable,
)
from interlock.collectives import CollectiveKind
from interlock.errors import check_whole
from interlock.problem import Problem
from interlock.schedule import Chunks, Schedule, empty_schedule

__all__ = ["ALGORITHM", "hierarchical"]

KINDS = (CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_REDUCE)


def hierarchical(
    problem: Problem, *, seed: int = 0, both_ways: bool | None = None, slices: int | None = None
) -> Schedule:
    """Rings by dimension, the fastest first. `both_ways` of a grid; None: where forth and back share no link. `slices`
    of a cluster; None chooses by the alpha-beta model."""
    assert problem.collective is not None
    if len(problem.items) == 0 or len(group_members(problem)) == 1:
        return empty_schedule()
    if problem.cluster is not None:
        return _on_cluster(problem, _places_by_server(problem), slices)
    dims = _dims(problem)
    assert dims is not None
    parts, owner = owned_parts(problem)
    way = np.ones(len(parts), np.int64)
    if both_ways if both_ways is not None else _is_duplex(problem, dims):
        parts, owner, forth = split_in_two(parts, owner)
        way = np.where(forth, 1, -1)
    axes = range(len(dims) - 1, -1, -1)
    legs = [(axis, True) for axis in axes] if problem.collective.reduces else []
    legs += [(axis, False) for axis in reversed(axes)] if problem.collective.spreads else []
    moves: list[Moves] = []
    start = 0
    for axis, adds in legs:
        moves.append(_ring_in_lines(dims, axis, owner, way, reduces=adds).later(start))
        start += dims[axis] - 1
    return schedule_moves(problem, parts, Moves.join(moves))


def _on_cluster(problem: Problem, ranks: Ids, slices: int | None) -> Schedule:
    """Along a walk through each server and a ring through all of them; `ranks` [servers, width].

    Four legs follow each other: sums inside, sums between, copies between, copies inside. A slice is a quarter of a leg
    behind the one before it, so that NICs have another slice to turn to while one is on its way. The share of a GPU
    whose place has a dead NIC on some server crosses in equal parts at all places that have none.
    """
    assert problem.collective is not None
    servers, width = ranks.shape
    adds, copies = problem.collective.reduces, problem.collective.spreads
    gates = np.flatnonzero(_is_gate(problem, ranks))
    if slices is None:
        slices = _num_slices(problem, ranks[:, gates], width, adds + copies)
    shares, owner = owned_parts(problem)
    home, place = (column[owner] for column in _places(problem, ranks))
    parts, share, number, gate = _cut_by_gates(shares, place, gates, check_whole(slices, "slices", 1))
    # Sums that all receive may as well end at the gate; others begin or end a hop beside it.
    home, place = home[share], gate if adds and copies else place[share]
    is_beside = place != gate
    part, leg_rounds = np.arange(len(parts)), max(servers, width) - 1
    start = number * max(1, leg_rounds // 4) + (is_beside & (not adds))
    walks = _walks(width, home, place, gate, servers)  # [parts, width, servers]
    near, far = (np.take_along_axis(ranks.T[None], hops, 1) for hops in (walks[:, :-1], walks[:, 1:]))
    is_home = home[:, None, None] == np.arange(servers)
    hop = np.arange(width - 1)[None, :, None]
    is_last = is_beside[:, None, None] & is_home & (hop == 0)  # between the gate and the owner beside it
    step = np.arange(servers - 1)
    around = [ranks[(home[:, None] + step + ahead) % servers, gate[:, None]] for ahead in (0, 1, 2)]
    moves = []

    def on_leg(legs: Ids | int, steps: Ids) -> Ids:
        return np.asarray(start.reshape(-1, *[1] * (steps.ndim - 1)) + legs * leg_rounds + steps)

    if adds:
        # Where sums end here, those for this server itself can be taken while the others cross.
        late = np.where(is_home, 0 if copies else 1, 0)
        turn = np.where(is_last, on_leg(2, np.zeros_like(hop)), on_leg(late, width - 2 - hop))
        moves.append(Moves.of(part[:, None, None], far, near, turn, reduces=True))
        moves.append(Moves.of(part[:, None], around[1], around[2], on_leg(1, step[None]), reduces=True))
    if copies:
        first = 2 if adds else 0
        moves.append(Moves.of(part[:, None], around[0], around[1], on_leg(first, step[None]), reduces=False))
        late = np.where(is_home & (not adds), 0, first + 1)
        turn = on_leg(late, hop) - is_last
        moves.append(Moves.of(part[:, None, None], near, far, turn, reduces=False))
    joined = Moves.join(moves)
    return schedule_channels(problem, parts, joined, np.zeros(len(joined.part), np.int64))


def _places_by_server(problem: Problem) -> Ids:
    """Ranks ``[servers, width]``; where rings may leave their rails, those without a NIC stand at the same places."""
    assert problem.cluster is not None
    ranks = np.array(members_by_server(problem))
    is_dead = problem.cluster.nic_bandwidth_bytes_per_s[ranks] <= 0
    if not keeps_to_rails(problem.cluster):
        closed = np.argsort(-is_dead.sum(axis=0), kind="stable")[: is_dead.sum(axis=1).max()]
        for row, dead in zip(ranks, is_dead, strict=True):
            out, into = np.setdiff1d(np.flatnonzero(dead), closed), closed[~dead[closed]]
            row[out], row[into[: len(out)]] = row[into[: len(out)]], row[out]
    return ranks


def _is_gate(problem: Problem, ranks: Ids) -> NDArray[np.bool_]:
    """Places where a ring through all servers can pass."""
    servers, width = ranks.shape
    if servers == 1:
        return np.ones(width, np.bool_)
    return np.array([unroutable(problem, line, np.roll(line, -1)) is None for line in ranks.T])


def _cut_by_gates(owned: Chunks, place: Ids, gates: Ids, slices: int) -> tuple[Chunks, Ids, Ids, Ids]:
    """Shares cut into slices, those of places that are no gates into a slice for every gate.

    Also the share of each part, the number of its slice, and its gate.
    """
    has_gate = np.isin(place, gates)
    parts, share, number = cut_each(owned.take(np.flatnonzero(has_gate)), slices)
    share = np.flatnonzero(has_gate)[share]
    spread, of, turn = cut_each(owned.take(np.flatnonzero(~has_gate)), slices * len(gates))
    of = np.flatnonzero(~has_gate)[of]
    return (
        Chunks.join([parts, spread]),
        np.concatenate([share, of]),
        np.concatenate([number, turn // len(gates)]),
        np.concatenate([place[share], gates[turn % len(gates)]]),
    )


def _walks(width: int, home: Ids, place: Ids, gate: Ids, servers: int) -> Ids:
    """Places of each server in the order of every part's walk from its gate, ``[parts, width, servers]``; at home
    from its owner, of whom the gate is next."""
    from_gate = np.array([walk(range(width), first) for first in range(width)])
    walks = np.repeat(from_gate[gate][:, :, None], servers, axis=2)
    beside = np.flatnonzero(place != gate)
    others = walks[beside, :, home[beside]]
    others = others[others != place[beside, None]].reshape(len(beside), width - 1)
    walks[beside, :, home[beside]] = np.concatenate([place[beside, None], others], axis=1)
    return walks


def _places(problem: Problem, ranks: Ids) -> tuple[Ids, Ids]:
    """Server and place in it, by place in the group."""
    members = group_members(problem)
    found = np.argsort(ranks, axis=None)[np.searchsorted(np.sort(ranks, axis=None), members)]
    return found // ranks.shape[1], found % ranks.shape[1]


def _num_slices(problem: Problem, gates: Ids, width: int, passes: int) -> int:
    """The number that makes filling all legs and then serving the busier tier shortest; `gates` [servers, gates]."""
    assert problem.cluster is not None
    servers, near = len(gates), scale_up_link(problem)
    far = nic_link(problem, [gates.tolist()]) if servers > 1 else near
    size = int(problem.items.size_bytes.sum())
    hops_at_port = 1 if problem.cluster.scale_up == "mesh" else width - 1
    most = max(1, MOST_MESSAGES // (passes * servers * width * (servers + width)))

    def took_s(slices: int) -> float:
        inside, between = size / width / slices, size / width / servers / slices
        filling = (width - 1) * near.arrival_s(inside) + (servers - 1) * far.arrival_s(between)
        serving = max(
            hops_at_port * max(near.turn_s, near.busy_s(inside)), (servers - 1) * max(far.turn_s, far.busy_s(between))
        )
        return passes * (filling + (slices - 1) * serving)

    return min((count for count in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if count <= most), key=took_s)


def _ring_in_lines(dims: tuple[int, ...], axis: int, owner: Ids, way: Ids, *, reduces: bool) -> Moves:
    """Every part around the lines along `axis` that agree with its owner in the dimensions after it."""
    size, stride = dims[axis], int(np.prod(dims[axis + 1 :], dtype=np.int64))
    outer = int(np.prod(dims[:axis], dtype=np.int64))
    block = np.arange(outer)[None, :, None] * (size * stride) + (owner % stride)[:, None, None]
    step = np.arange(size - 1)[None, None, :]
    place, turn = (owner // stride % size)[:, None, None], way[:, None, None]
    first = place + (turn if reduces else 0)
    src = block + (first + turn * step) % size * stride
    dst = block + (first + turn * (step + 1)) % size * stride
    return Moves.of(np.arange(len(owner))[:, None, None], src, dst, step, reduces=reduces)


def _dims(problem: Problem) -> tuple[int, ...] | None:
    """Dimensions, slowest first, of the finest grid of rings with more than one dimension."""
    found = grid_dims(adjacency(problem.topology), wraps=True)
    return found[0] if found and len(found[0]) > 1 else None


def _is_duplex(problem: Problem, dims: tuple[int, ...]) -> bool:
    ids = np.arange(problem.num_ranks).reshape(dims)
    lines = [np.moveaxis(ids, axis, -1).reshape(-1, size)[0] for axis, size in enumerate(dims)]
    return all(is_duplex(problem, line.astype(np.int32)) for line in lines if len(line) > 1)


def refuses(problem: Problem) -> str | None:
    """None for equally many ranks of every server of a cluster, or all ranks of a grid of rings."""
    if len(group_members(problem)) == 1:
        return None
    if problem.cluster is not None:
        return _refuses_servers(problem)
    if not np.array_equal(group_members(problem), np.arange(problem.num_ranks)):
        return "it plans for all ranks of a grid, not for a group"
    if problem.topology.num_nodes > MAX_NODES:
        return f"it looks for dimensions in graphs of at most {MAX_NODES} nodes"
    dims = _dims(problem)
    if dims is None:
        return "it needs a cluster, or a grid of two or more dimensions whose lines are rings"
    return _unroutable_lines(problem, np.arange(problem.num_ranks).reshape(dims))


def _refuses_servers(problem: Problem) -> str | None:
    rows = members_by_server(problem)
    if len({len(ranks) for ranks in rows}) > 1:
        counts = ", ".join(str(len(ranks)) for ranks in rows)
        return f"it needs equally many ranks of every server, not {counts}"
    ranks = _places_by_server(problem)
    if not _is_gate(problem, ranks).any():
        return _unroutable_lines(problem, ranks)
    return unroutable(problem, ranks.ravel(), np.roll(ranks, -1, 1).ravel()) if ranks.shape[1] > 1 else None


def _unroutable_lines(problem: Problem, ids: Ids) -> str | None:
    ahead = [np.roll(ids, -1, axis).ravel() for axis, size in enumerate(ids.shape) if size > 1]
    return unroutable(problem, np.tile(ids.ravel(), len(ahead)), np.concatenate(ahead))


ALGORITHM = Algorithm(
    "hierarchical", "rings dimension by dimension (BlueConnect)", refuses, hierarchical, collectives=KINDS
)
