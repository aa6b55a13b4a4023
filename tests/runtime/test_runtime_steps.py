"""Steps over gloo on loopback: every task's bytes, in every way; bad calls are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch")

from interlock.lab.ranks import RankProcesses, Seat
from runtime import step_jobs

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("algorithm", ["serial", "concurrent", "joint"])
def test_every_task_of_a_step_ends_with_its_bytes(group_of: Callable[[int], RankProcesses], algorithm: str) -> None:
    assert group_of(4).call(step_jobs.wrong_tasks, algorithm) == [[]] * 4


def test_bad_calls_are_refused_in_words(group_of: Callable[[int], RankProcesses]) -> None:
    for told in group_of(4).call(step_jobs.refusals):
        assert "has not begun" in told[0] and "bytes at rank" in told[1]
        assert "no task 'nobody'" in told[2] and "is a move" in told[3]


@pytest.mark.parametrize("dies_at", ["begin", "computation"])
def test_a_rank_that_dies_in_a_step_is_named_by_all_others_in_time(dies_at: str) -> None:
    victim, timeout_s = 2, 20.0
    survivors = [0, 1, 3]
    with RankProcesses([Seat()] * 4, timeout_s=timeout_s) as ranks:
        ranks.post(step_jobs.until_a_rank_dies, victim, dies_at, timeout_s)
        told = [outcome.value for outcome in ranks.collect(2 * timeout_s + 60, survivors)]
    assert [named for named, _ in told] == [(victim,)] * 3
    assert all(took_s <= 2 * timeout_s for _, took_s in told)
