"""Groups of rank processes on loopback, started once and shared by all tests of a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from interlock.lab.ranks import RankProcesses, Seat


@pytest.fixture(scope="session")
def group_of() -> Iterator[Callable[[int], RankProcesses]]:
    """Give the number of ranks, get the group."""
    pytest.importorskip("torch")
    made: dict[int, RankProcesses] = {}

    def start(num_ranks: int) -> RankProcesses:
        if num_ranks not in made:
            made[num_ranks] = RankProcesses([Seat()] * num_ranks, timeout_s=60.0)
        return made[num_ranks]

    yield start
    for ranks in made.values():
        ranks.close()
