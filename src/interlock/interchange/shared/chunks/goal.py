"""What a program of chunk moves is meant to achieve: which chunks start where, and which must end where.

The goal is found by the collective's name, from the user, or from what the program does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from interlock.collectives import Collective, CollectiveKind, collective
from interlock.errors import InvalidInput
from interlock.interchange.contract import Intent
from interlock.interchange.shared.chunks.memory import Key
from interlock.problem import Items, Problem, RankSets, demand_problem
from interlock.ragged import Ragged
from interlock.topology import Cluster, Topology
from interlock.traffic import Demand

__all__ = ["ChunkBuffers", "Goal", "TargetNetwork", "choose_goal", "items_by_pair", "matrix_goal", "network_of"]

SUM = -1  # origin of a chunk that is a sum


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """Where chunks start and end, and which bytes of which item each one is.

    `wanted[rank][k]` is the chunk that output[k] must hold in the end, or None. `piece_of` maps a chunk to
    (item, offset, length), or None where it is padding.
    """

    problem: Problem
    key_of_input: Callable[[int, int], Key]  # (rank, input index)
    wanted: list[list[Key | None]]
    contributors: Callable[[Key], int]  # bit mask
    piece_of: Callable[[Key], tuple[int, int, int] | None]
    is_sum: bool = False


def items_by_pair(problem: Problem) -> dict[tuple[int, int], int]:
    """The item of each pair of ranks, of an All-to-Allv."""
    pairs = zip(problem.items.origin.tolist(), problem.items.destinations.to_ragged().values.tolist(), strict=True)
    return {pair: item for item, pair in enumerate(pairs)}


class TargetNetwork(NamedTuple):
    """Where a file would run: a graph, and the cluster that it is made from, if it is."""

    topology: Topology
    cluster: Cluster | None


def network_of(intent: Intent, num_ranks: int, file: str) -> TargetNetwork:
    """The network the user names; a file without one gets a switch with every ability."""
    cluster = intent.cluster
    if cluster is None and intent.topology is None:
        cluster = Cluster(name="any", servers=1, gpus_per_server=num_ranks, multicasts=True, reduces=True)
    topology = intent.topology if cluster is None else cluster.topology
    assert topology is not None
    if topology.num_ranks != num_ranks:
        raise InvalidInput(f"{file} has {num_ranks} GPUs but {topology.name} has {topology.num_ranks}")
    return TargetNetwork(topology, cluster)


def collective_goal(
    kind: CollectiveKind, inputs: list[int], outputs: list[int], chunk_bytes: int, network: TargetNetwork, root: int = 0
) -> Goal:
    """The goal of a collective over all ranks, whose buffers have the given numbers of chunks."""
    ranks = len(inputs)
    small, large = _share(kind, inputs, outputs)
    is_sum = kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER, CollectiveKind.REDUCE)
    wanted = _wanted(kind, ranks, small, large, root)
    keys = sorted({key for outputs_of_rank in wanted for key in outputs_of_rank if key is not None})
    destinations = _ends(keys, wanted)
    kept = [k for k, key in enumerate(keys) if is_sum or destinations[k].tolist() != [key[0]]]
    chosen = np.array(kept, np.int64)
    contributors = (
        RankSets.same(np.arange(ranks, dtype=np.int32), len(kept))
        if is_sum
        else RankSets.one(np.array([keys[k][0] for k in kept], np.int32))
    )
    items = Items(np.full(len(kept), chunk_bytes, np.int64), contributors, RankSets.of(destinations.take(chosen)))
    item_of_key = {keys[k]: item for item, k in enumerate(kept)}
    named = Collective(kind, large * chunk_bytes, None, root)
    all_ranks = (1 << ranks) - 1
    return Goal(
        Problem(network.topology, items, cluster=network.cluster, collective=named),
        key_of_input=lambda rank, k: (SUM if is_sum else rank, k),
        wanted=wanted,
        contributors=lambda key: all_ranks if key[0] == SUM else 1 << key[0],
        piece_of=lambda key: (item_of_key[key], 0, chunk_bytes) if key in item_of_key else None,
        is_sum=is_sum,
    )


def _share(kind: CollectiveKind, inputs: list[int], outputs: list[int]) -> tuple[int, int]:
    """Chunks of one rank's share and of the whole buffer."""
    ranks = len(inputs)
    whole_in = kind not in (CollectiveKind.ALL_GATHER, CollectiveKind.GATHER)
    whole_out = kind not in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.SCATTER)
    large = max(inputs if whole_in else outputs)
    if kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        return large, large
    if large % ranks or large == 0:
        raise InvalidInput(f"{kind} over {ranks} GPUs needs buffers of a multiple of {ranks} chunks, not {large}")
    share = large // ranks
    for rank in range(ranks):
        if (not whole_in and inputs[rank] not in (share, 0)) or (not whole_out and outputs[rank] not in (share, 0)):
            raise InvalidInput(f"gpu {rank}: {kind} with {large} chunks in all needs {share} in one rank's share")
    return share, large


def _wanted(kind: CollectiveKind, ranks: int, small: int, large: int, root: int) -> list[list[Key | None]]:
    nothing: list[Key | None] = []
    if kind is CollectiveKind.ALL_REDUCE:
        return [[(SUM, k) for k in range(large)] for _ in range(ranks)]
    if kind is CollectiveKind.REDUCE:
        return [[(SUM, k) for k in range(large)] if rank == root else nothing for rank in range(ranks)]
    if kind is CollectiveKind.REDUCE_SCATTER:
        return [[(SUM, rank * small + k) for k in range(small)] for rank in range(ranks)]
    if kind is CollectiveKind.BROADCAST:
        return [[(root, k) for k in range(large)] for _ in range(ranks)]
    if kind is CollectiveKind.SCATTER:
        return [[(root, rank * small + k) for k in range(small)] for rank in range(ranks)]
    if kind is CollectiveKind.ALL_TO_ALL:
        return [[(k // small, rank * small + k % small) for k in range(large)] for rank in range(ranks)]
    gathered: list[Key | None] = [(k // small, k % small) for k in range(large)]
    return [gathered if kind is CollectiveKind.ALL_GATHER or rank == root else nothing for rank in range(ranks)]


def _ends(keys: list[Key], wanted: list[list[Key | None]]) -> Ragged:
    ranks_of_key: dict[Key, list[int]] = {key: [] for key in keys}
    for rank, outputs in enumerate(wanted):
        for key in outputs:
            if key is not None and (not ranks_of_key[key] or ranks_of_key[key][-1] != rank):
                ranks_of_key[key].append(rank)
    return Ragged.from_lists(ranks_of_key[key] for key in keys)


def matrix_goal(
    chunks: NDArray[np.int64], demand: Demand, chunk_bytes: int, outputs: list[int], network: TargetNetwork
) -> Goal:
    """The goal of an All-to-Allv whose buffers hold the blocks of a chunk matrix one after the other.

    Rank i's input lists its blocks by destination, rank j's output by source; a block's first chunks carry the demand,
    the rest is padding.
    """
    ranks = len(chunks)
    input_at = np.cumsum(chunks, axis=1) - chunks
    problem = demand_problem(network.cluster or network.topology, demand)
    items, item_of_pair = problem.items, items_by_pair(problem)
    bounds = [np.append(input_at[i], chunks[i].sum()).tolist() for i in range(ranks)]
    wanted: list[list[Key | None]] = []
    for j in range(ranks):
        column: list[Key | None] = []
        for i in range(ranks):
            column += [(i, k) for k in range(bounds[i][j], bounds[i][j] + int(chunks[i, j]))]
        wanted.append(column + [None] * (outputs[j] - len(column)))

    def piece_of(key: Key) -> tuple[int, int, int] | None:
        origin, index = key
        target = bisect_right(bounds[origin], index) - 1
        item = item_of_pair.get((origin, target))
        if item is None:
            return None
        offset = (index - bounds[origin][target]) * chunk_bytes
        length = min(chunk_bytes, int(items.size_bytes[item]) - offset)
        return (item, offset, length) if length > 0 else None

    return Goal(problem, lambda rank, k: (rank, k), wanted, lambda key: 1 << key[0], piece_of)


@dataclass(frozen=True, slots=True)
class ChunkBuffers:
    """What a file says of its buffers: chunks per rank, the collective's name (ours, or "all-to-allv", "custom")."""

    file: str
    inputs: list[int]
    outputs: list[int]
    collective: str
    chunk_bytes: int | None  # where the file says it


def choose_goal(
    buffers: ChunkBuffers, intent: Intent, delivered: NDArray[np.int64] | None
) -> tuple[Goal, int, list[str]]:
    """The goal, the chunk size, and notes on what was inferred.

    `delivered` is the chunk matrix that the program moves, where it only copies and delivers every input chunk to one
    rank: then it may be an All-to-Allv in chunk-matrix form.
    """
    network = network_of(intent, len(buffers.inputs), buffers.file)
    named = _named(buffers, intent)
    notes: list[str] = []
    if intent.demand is not None:
        return _demand_goal(buffers, intent, delivered, intent.demand)
    chunk_bytes = intent.chunk_bytes or buffers.chunk_bytes
    if chunk_bytes is None:
        chunk_bytes = 1
        notes.append("the file does not say how large a chunk is; each counts as one byte (say --chunk-bytes)")
    if delivered is not None and named in (None, CollectiveKind.ALL_REDUCE) and intent.collective is None:
        notes.append(
            "nothing is added and every chunk goes to one rank: read as an All-to-Allv in chunk-matrix form; "
            "say --demand to compare it with yours"
        )
        demand = Demand(delivered * chunk_bytes, "chunk matrix of the file")
        return matrix_goal(delivered, demand, chunk_bytes, buffers.outputs, network), chunk_bytes, notes
    if named is None:
        raise InvalidInput(
            f"{buffers.file}: collective {buffers.collective!r} does not say what must arrive where; say it with "
            "--demand or --collective"
        )
    goal = collective_goal(named, buffers.inputs, buffers.outputs, chunk_bytes, network, intent.root)
    return goal, chunk_bytes, notes


def _named(buffers: ChunkBuffers, intent: Intent) -> CollectiveKind | None:
    if intent.collective is not None:
        return collective(intent.collective, 0).kind
    try:
        return CollectiveKind(buffers.collective)
    except ValueError:
        return None


def _demand_goal(
    buffers: ChunkBuffers, intent: Intent, delivered: NDArray[np.int64] | None, demand: Demand
) -> tuple[Goal, int, list[str]]:
    ranks, notes = len(buffers.inputs), []
    if demand.num_ranks != ranks:
        raise InvalidInput(f"{buffers.file} has {ranks} GPUs but the demand has {demand.num_ranks} ranks")
    matrix = delivered
    chunk_bytes = intent.chunk_bytes or buffers.chunk_bytes
    if chunk_bytes is None:
        if delivered is None:
            raise InvalidInput(f"{buffers.file} does not say how large a chunk is; say it with --chunk-bytes")
        chunk_bytes = infer_chunk_bytes(demand, delivered)
        if chunk_bytes is None:
            raise InvalidInput(
                f"{buffers.file}: no chunk size makes the demand into the chunks that the file moves; if it pads, say "
                "--chunk-bytes"
            )
        notes.append(f"chunks of {chunk_bytes} bytes turn the demand into the file's chunk matrix")
    if matrix is None:
        matrix = -(-demand.bytes_matrix // chunk_bytes)
    network = network_of(intent, ranks, buffers.file)
    return matrix_goal(matrix, demand, chunk_bytes, buffers.outputs, network), chunk_bytes, notes


def infer_chunk_bytes(demand: Demand, chunks: NDArray[np.int64]) -> int | None:
    """The least chunk size that turns every pair's bytes into the file's number of chunks; None if there is none.

    >>> from interlock.traffic import matrix
    >>> infer_chunk_bytes(matrix([[0, 100], [50, 0]]), np.array([[1, 2], [1, 1]]))
    50
    """
    wanted = demand.bytes_matrix.copy()
    moved = chunks.copy()
    np.fill_diagonal(wanted, 0)
    np.fill_diagonal(moved, 0)
    if ((wanted > 0) != (moved > 0)).any():
        return None
    some = wanted > 0
    if not some.any():
        return 1
    low = int((-(-wanted[some] // moved[some])).max())
    several = some & (moved > 1)
    high = int((-(-wanted[several] // (moved[several] - 1)) - 1).min()) if several.any() else low
    return low if low <= high else None
