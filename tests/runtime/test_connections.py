"""Connections of our own: what becomes of them where ranks are quick to close them, or die."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch")

from interlock.lab.ranks import RankProcesses, Seat
from runtime import connection_jobs

pytestmark = pytest.mark.torch


def test_a_rank_may_close_them_while_another_still_connects(group_of: Callable[[int], RankProcesses]) -> None:
    group_of(4).call(connection_jobs.open_and_close, 100)


def test_nobody_waits_for_a_rank_that_died_longer_than_it_said() -> None:
    victim, timeout_s = 0, 5.0
    with RankProcesses([Seat()] * 4, timeout_s=timeout_s) as ranks:
        ranks.post(connection_jobs.open_beside_a_death, victim)
        told = ranks.collect(60, [1, 2, 3])
    assert all(outcome.error is None for outcome in told), told
    assert max(outcome.value for outcome in told) < 2 * timeout_s
