"""Bounds that count latency against the exact optimum in slots: no schedule is below, and some meet them."""

from __future__ import annotations

import math

import pytest

import interlock as il
from cost.slots import Chunk, fits, least_slots, ways
from interlock.collectives import collective
from interlock.cost import lower_bound
from interlock.problem import collective_problem

CHUNK_BYTES, SLOT_S = 1_000, 1e-6


def bound_slots(kind: str, gpus: int, chunks: int, nic_latency: int, hop_latency: int) -> float:
    """The bound on two servers whose NICs and ports move a chunk per slot."""
    cluster = il.cluster(
        "h200",
        servers=2,
        gpus_per_server=gpus,
        scale_up_bandwidth="1 GB/s",
        scale_out_bandwidth="1 GB/s",
        scale_up_latency=f"{hop_latency} us",
        scale_out_latency=f"{nic_latency} us",
        message_overhead="0 us",
        stage_overhead="0 us",
        multicasts=False,
        reduces=False,
    )
    problem = collective_problem(cluster.topology, collective(kind, chunks * CHUNK_BYTES), 1, cluster)
    return lower_bound(problem).seconds / SLOT_S


def chunks_of(kind: str, ranks: int, chunks: int) -> list[Chunk]:
    everyone = tuple(range(ranks))
    if kind == "all-gather":
        return [Chunk((number % ranks,), everyone) for number in range(chunks)]
    if kind == "reduce-scatter":
        return [Chunk(everyone, (number % ranks,)) for number in range(chunks)]
    if kind == "broadcast":
        return [Chunk((0,), everyone)] * chunks
    return [Chunk(everyone, everyone)] * chunks


CASES = [
    (kind, gpus, chunks, nic, hop)
    for kind, gpus, chunks in (
        ("all-gather", 2, 4),
        ("all-gather", 2, 8),
        ("all-gather", 3, 6),
        ("broadcast", 2, 2),
        ("broadcast", 3, 3),
        ("reduce-scatter", 2, 4),
        ("all-reduce", 2, 1),
        ("all-reduce", 2, 2),
    )
    for nic, hop in ((1, 1), (2, 1), (3, 2), (4, 4))
]
CASES.append(("all-gather", 2, 16, 4, 4))  # best with some chunks that cross once and some that cross twice


@pytest.mark.parametrize(("kind", "gpus", "chunks", "nic", "hop"), CASES)
def test_no_schedule_takes_fewer_slots_than_the_bound(kind: str, gpus: int, chunks: int, nic: int, hop: int) -> None:
    bound = bound_slots(kind, gpus, chunks, nic, hop)
    fewer = math.ceil(bound - 1e-9) - 1
    assert not fits(chunks_of(kind, 2 * gpus, chunks), list(ways(2, gpus, nic, hop)), fewer), bound


@pytest.mark.parametrize(
    ("kind", "gpus", "chunks", "nic", "hop"),
    [("all-gather", 2, 4, 4, 4), ("reduce-scatter", 2, 4, 4, 4)],
)
def test_some_schedules_meet_the_bound(kind: str, gpus: int, chunks: int, nic: int, hop: int) -> None:
    """Where a hop takes longer than to cross once more."""
    bound = bound_slots(kind, gpus, chunks, nic, hop)
    assert least_slots(chunks_of(kind, 2 * gpus, chunks), list(ways(2, gpus, nic, hop)), 1) == pytest.approx(bound)


def test_the_program_knows_sums_and_latency() -> None:
    """By hand: two ranks on two servers exchange contributions in a slot and a latency; a third slot is one more."""
    pair = [Chunk((0, 1), (0, 1))]
    assert least_slots(pair, list(ways(2, 1, 2, 0)), 1) == 3
    assert least_slots([Chunk((0, 1), (0,))] * 2, list(ways(2, 1, 2, 0)), 1) == 4
    assert least_slots([Chunk((0,), (1, 2, 3))], list(ways(2, 2, 3, 1)), 1) == 5
