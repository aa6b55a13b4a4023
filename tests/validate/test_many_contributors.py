"""Sums of more contributors than exact sets hold: counts must not wrap where fingerprints do."""

from __future__ import annotations

import numpy as np
import pytest

import interlock as il
from interlock.problem import Items, Problem, RankSets
from interlock.ragged import Ragged
from interlock.schedule import Pieces, Schedule
from interlock.validate import check

DOUBLINGS = 64  # of one contribution: 2**64 of it are nothing in 64 bits


def everyone_to_rank_0(contributors: int, doublings: int) -> tuple[Schedule, Problem]:
    """All add to rank 0; beside that, layers of two ranks double rank 1's contribution and add it at last, if any."""
    layers = doublings + 1 if doublings else 0
    ranks = contributors + 2 * layers
    everyone, hub = list(range(ranks)), [ranks] * ranks
    star = il.topology.from_edges(everyone + hub, hub + everyone, "1 GB/s", num_ranks=ranks)
    adding = RankSets.of(Ragged.from_lists([list(range(contributors))]))
    problem = Problem(star, Items(np.array([8], np.int64), adding, RankSets.one(np.array([0], np.int32))))
    rows: list[tuple[int, int, list[int]]] = [(rank, 0, []) for rank in range(1, contributors)]
    before = [1]
    arrived: dict[int, list[int]] = {1: []}
    for layer in range(layers):
        now = [contributors + 2 * layer, contributors + 2 * layer + 1]
        for rank in now:
            arrived[rank] = []
            for source in before:
                arrived[rank].append(len(rows))
                rows.append((source, rank, arrived[source]))
        before = now
    if layers:
        rows.append((before[0], 0, arrived[before[0]]))
    count = len(rows)
    pieces = Pieces(np.arange(count + 1), np.zeros(count, np.int32), np.zeros(count, np.int64), np.full(count, 8))
    schedule = Schedule(
        src=Ragged.single(np.array([row[0] for row in rows], np.int32)),
        dst=Ragged.single(np.array([row[1] for row in rows], np.int32)),
        kind=np.ones(count, np.uint8),
        phase=np.full(count, 4, np.uint8),
        stage=np.zeros(count, np.int32),
        slice=np.zeros(count, np.int32),
        size_bytes=np.full(count, 8, np.int64),
        path=Ragged.empty(count),
        exclusive=np.zeros(count, np.bool_),
        order=np.zeros(count, np.int64),
        deps=Ragged.from_lists([row[2] for row in rows]),
        pieces=pieces,
    )
    return schedule, problem


@pytest.mark.parametrize("contributors", [1024, 1025])
@pytest.mark.parametrize(("doublings", "is_valid"), [(0, True), (1, False), (2, False), (DOUBLINGS, False)])
def test_a_contribution_counts_once_however_often_it_is_added(
    contributors: int, doublings: int, is_valid: bool
) -> None:
    report = check(*everyone_to_rank_0(contributors, doublings))
    assert report.method == ("exact sets" if contributors <= 1024 else "fingerprints")
    assert report.valid == is_valid
