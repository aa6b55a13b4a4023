"""Steps over gloo on loopback: every task's bytes, in every way; bad calls are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch")

from interlock.lab.ranks import Ranks
from runtime import step_jobs

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("algorithm", ["serial", "concurrent", "joint"])
def test_every_task_of_a_step_ends_with_its_bytes(group_of: Callable[[int], Ranks], algorithm: str) -> None:
    assert group_of(4).call(step_jobs.wrong_tasks, algorithm) == [[]] * 4


def test_bad_calls_are_refused_in_words(group_of: Callable[[int], Ranks]) -> None:
    for told in group_of(4).call(step_jobs.refusals):
        assert "has not begun" in told[0] and "bytes at rank" in told[1]
        assert "no task 'nobody'" in told[2] and "is a move" in told[3]
