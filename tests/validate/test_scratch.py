"""Scratch: what waits at ranks that neither contribute nor need it, stage by stage."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from interlock.schedule import scratch_spans
from interlock.topology import fully_connected
from validate.cases import COLLECTIVE, PLAIN
from validate.mutants import change_stage, split_piece
from validate.rows import REDUCE, Case


def relay_chain(*stages: int) -> Case:
    """Rank 0's ten bytes go to rank 3 by way of 1 and 2, with a hop in each stage given."""
    case = Case("relay chain", fully_connected(4, bandwidth="1 GB/s"), [10], [[0]], [[3]])
    hop = case.send(0, 1, case.whole(0), stage=stages[0])
    hop = case.send(1, 2, case.whole(0), deps=[hop], stage=stages[1])
    case.send(2, 3, case.whole(0), deps=[hop], stage=stages[2])
    return case


def test_bytes_wait_from_the_stage_that_brings_them_to_the_one_that_takes_them() -> None:
    case = relay_chain(1, 4, 4)
    spans = scratch_spans(case.schedule, case.problem)
    rows = zip(
        spans.rank, spans.item, spans.first_byte, spans.end_byte, spans.first_stage, spans.last_stage, strict=True
    )
    assert sorted(tuple(map(int, row)) for row in rows) == [(1, 0, 0, 10, 1, 4), (2, 0, 0, 10, 4, 4)]
    assert spans.high_water_bytes.tolist() == [0, 10, 10, 0]


def test_stages_both_included_so_meeting_spans_add_up() -> None:
    case = relay_chain(0, 2, 3)
    case.sizes, case.contributors, case.destinations = [10, 7], [[0], [2]], [[3], [3]]
    second = case.send(2, 1, case.whole(1), stage=2)
    case.send(1, 3, case.whole(1), deps=[second], stage=3)
    assert case.check().scratch_bytes.tolist() == [0, 17, 10, 0]
    case.rows[3].stage = 3  # after item 0 has left
    assert case.check().scratch_bytes.tolist() == [0, 10, 10, 0]


def test_partial_sum_at_a_rank_that_adds_nothing_waits_once() -> None:
    case = Case("sum at a relay", fully_connected(4, bandwidth="1 GB/s"), [6], [[0, 1]], [[3]])
    into = [case.send(0, 2, case.whole(0), kind=REDUCE), case.send(1, 2, case.whole(0), kind=REDUCE, stage=1)]
    case.send(2, 3, case.whole(0), kind=REDUCE, deps=into, stage=2)
    assert case.check().valid
    assert case.check().scratch_bytes.tolist() == [0, 0, 6, 0]


def byte_by_byte(case: Case) -> list[int]:
    """The rule as it is written, one byte at a time."""
    waiting: dict[tuple[int, int], int] = defaultdict(int)
    for item, size in enumerate(case.sizes):
        for byte in range(size):
            carriers = [row for row in case.rows if any(i == item and o <= byte < o + n for i, o, n in row.pieces)]
            for rank in range(case.topology.num_ranks):
                stages = [row.stage for row in carriers if rank in row.dst]
                if not stages or rank in case.contributors[item] or rank in case.destinations[item]:
                    continue
                stages += [row.stage for row in carriers if rank in row.src]
                for stage in range(min(stages), max(stages) + 1):
                    waiting[rank, stage] += 1
    ranks = range(case.topology.num_ranks)
    return [max((count for (r, _), count in waiting.items() if r == rank), default=0) for rank in ranks]


@pytest.mark.parametrize("build", [*PLAIN, *COLLECTIVE], ids=lambda build: build().name)
def test_high_water_is_what_counting_bytes_gives(build) -> None:
    random = Random(0)
    for _ in range(10):
        case = build()
        for _ in range(3):
            case = split_piece(change_stage(case, random), random) or case
        assert scratch_spans(case.schedule, case.problem).high_water_bytes.tolist() == byte_by_byte(case)
        if case.check().valid:
            assert case.check().scratch_bytes.tolist() == byte_by_byte(case)
