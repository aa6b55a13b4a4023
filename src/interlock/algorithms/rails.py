"""RailS as published: each server alone sprays its pieces over its NICs, longest processing time first.

A server looks at its own outgoing traffic only. Pieces are sorted by size, largest first, and each goes to the NIC
with the least load so far. With `chunk` set, flows are first cut into chunks of that many bytes.

Pieces are sent as they were assigned, one message each. The paper is silent on their order and on how many are under
way; here a flow (two GPUs) has a connection on each rail, which sends one piece after the other. Pieces hop to the NIC
of a neighbour one after the other too, flows in turn, so that the hops at both ends of one overlap the wire of others.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.detours import baseline
from interlock.algorithms.relay import relay
from interlock.algorithms.two_tier import Bytes, local_batch
from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.schedule import Schedule
from interlock.units import Quantity, parse_bytes

__all__ = ["ALGORITHM", "longest_first", "rails"]

MAX_CHUNKS = 2_000_000


def rails(problem: Problem, *, seed: int = 0, chunk: Quantity | None = None) -> Schedule:
    """LPT spraying; `chunk` None sprays whole flows."""
    assert problem.cluster is not None
    width = np.int32(problem.cluster.gpus_per_server)
    local, far = local_batch(problem)
    if chunk is not None:
        far = cut(far, parse_bytes(chunk, "chunk"))
    rail = np.zeros(len(far), np.int32)
    server = far.src // width
    for own in np.unique(server):
        mine = np.flatnonzero(server == own)
        rail[mine] = longest_first(far.length[mine], int(width))
    carrier = server * width + rail
    turn = sending_order(far, problem.num_ranks)
    return relay(problem, local, far, carrier, flows=turn, in_turn=True)


def longest_first(lengths: NDArray[np.int64], num_rails: int) -> NDArray[np.int32]:
    """Rail of each piece: largest first, always to the least loaded rail; ties by index.

    >>> longest_first(np.array([5, 3, 3, 2]), 2).tolist()
    [0, 1, 1, 0]
    """
    rail_by_piece = np.zeros(len(lengths), np.int32)
    load = [(0, rail) for rail in range(num_rails)]
    for piece in np.argsort(-lengths, kind="stable").tolist():
        bytes_so_far, rail = load[0]
        rail_by_piece[piece] = rail
        heapq.heapreplace(load, (bytes_so_far + int(lengths[piece]), rail))
    return rail_by_piece


def sending_order(far: Bytes, num_ranks: int) -> NDArray[np.int64]:
    """The turn of each piece: by place in its flow; each rank's next neighbour first."""
    neighbour = (far.dst - far.src) % num_ranks
    order = np.lexsort((far.src, neighbour, far.offset))
    turn = np.empty(len(far), np.int64)
    turn[order] = np.arange(len(far))
    return turn


def cut(far: Bytes, chunk_bytes: int) -> Bytes:
    """Every row cut into chunks of at most `chunk_bytes`."""
    if chunk_bytes < 1:
        raise InvalidInput(f"chunk={chunk_bytes} must be at least one byte")
    counts = -(-far.length // chunk_bytes)
    if int(counts.sum()) > MAX_CHUNKS:
        raise InvalidInput(f"chunk={chunk_bytes} makes {int(counts.sum())} chunks; at most {MAX_CHUNKS} are allowed")
    row = np.repeat(np.arange(len(far)), counts)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = place * chunk_bytes
    length = np.minimum(far.length[row] - first, chunk_bytes)
    return Bytes(far.item[row], far.offset[row] + first, length, far.src[row], far.dst[row])


ALGORITHM = baseline("rails", "each server alone, largest first to the least loaded NIC (RailS)", rails)
