"""Hierarchical (BlueConnect): a ring inside every line of one dimension, then of the next, on ever smaller shares.

On a cluster the dimensions are the GPUs of a server and the servers; elsewhere those of a grid whose lines are rings.
Reduce-Scatter goes through them forth, All-Gather back, All-Reduce forth and back.
"""

from __future__ import annotations

import numpy as np

from interlock.algorithms.neighbours import MAX_NODES, adjacency, grid_dims
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.ring import is_duplex, split_in_two
from interlock.algorithms.rounds import (
    Ids,
    Moves,
    group_members,
    owned_parts,
    refuses_kinds,
    schedule_moves,
    unroutable,
)
from interlock.collectives import CollectiveKind
from interlock.problem import Problem
from interlock.schedule import Schedule, empty_schedule

__all__ = ["ALGORITHM", "hierarchical"]

KINDS = (CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_REDUCE)


def hierarchical(problem: Problem, *, seed: int = 0, both_ways: bool | None = None) -> Schedule:
    """Rings by dimension, the fastest first. `both_ways` None: where forth and back share no link."""
    assert problem.collective is not None
    if len(problem.items) == 0 or problem.num_ranks == 1:
        return empty_schedule()
    dims = _dims(problem)
    assert dims is not None
    parts, owner = owned_parts(problem)
    way = np.ones(len(parts), np.int64)
    if both_ways if both_ways is not None else _is_duplex(problem, dims):
        parts, owner, forth = split_in_two(parts, owner)
        way = np.where(forth, 1, -1)
    kind = problem.collective.kind
    moves: list[Moves] = []
    start = 0
    axes = range(len(dims) - 1, -1, -1)
    if kind is not CollectiveKind.ALL_GATHER:
        for axis in axes:
            moves.append(_ring_in_lines(dims, axis, owner, way, reduces=True).later(start))
            start += dims[axis] - 1
    if kind is not CollectiveKind.REDUCE_SCATTER:
        for axis in reversed(axes):
            moves.append(_ring_in_lines(dims, axis, owner, way, reduces=False).later(start))
            start += dims[axis] - 1
    return schedule_moves(problem, parts, Moves.join(moves))


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
    """Dimensions, slowest first: servers and GPUs, or the finest grid of rings with more than one dimension."""
    if problem.cluster is not None:
        return problem.cluster.servers, problem.cluster.gpus_per_server
    found = grid_dims(adjacency(problem.topology), wraps=True)
    return found[0] if found and len(found[0]) > 1 else None


def _is_duplex(problem: Problem, dims: tuple[int, ...]) -> bool:
    ids = np.arange(problem.num_ranks).reshape(dims)
    lines = [np.moveaxis(ids, axis, -1).reshape(-1, size)[0] for axis, size in enumerate(dims)]
    return all(is_duplex(problem, line.astype(np.int32)) for line in lines if len(line) > 1)


def supports(problem: Problem) -> str | None:
    """All ranks of a cluster, or of a grid of rings."""
    reason = refuses_kinds(problem, KINDS)
    if reason is not None:
        return reason
    if len(group_members(problem)) < problem.num_ranks or not np.array_equal(
        group_members(problem), np.arange(problem.num_ranks)
    ):
        return "it plans for all ranks, not for a group"
    if problem.topology.num_nodes > MAX_NODES:
        return f"it looks for dimensions in graphs of at most {MAX_NODES} nodes"
    if problem.num_ranks == 1:
        return None
    dims = _dims(problem)
    if dims is None:
        return "it needs a cluster, or a grid of two or more dimensions whose lines are rings"
    ids = np.arange(problem.num_ranks).reshape(dims)
    ahead = [np.roll(ids, -1, axis).ravel() for axis, size in enumerate(dims) if size > 1]
    return unroutable(problem, np.tile(ids.ravel(), len(ahead)), np.concatenate(ahead))


ALGORITHM = Algorithm("hierarchical", "rings dimension by dimension (BlueConnect)", supports, hierarchical)
