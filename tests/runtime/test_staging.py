"""Bytes that are staged, and calls that are watched: nothing is read too early, left behind, or waited for in vain."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

import torch

import interlock as il
from interlock.lab.ranks import RankProcesses
from interlock.runtime import watch as watch_module
from interlock.runtime.heartbeat import Verdict
from interlock.runtime.peers import MoveFailed
from interlock.runtime.pending import Worker
from interlock.runtime.staging import LEAST_BYTES, Landed
from interlock.runtime.watch import Watch
from runtime import jobs

pytestmark = pytest.mark.torch


def test_staged_bytes_are_asked_for_before_they_leave_and_told_of_once(
    group_of: Callable[[int], RankProcesses],
) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 400_000, (4, 4)) * rng.integers(0, 2, (4, 4))
    for told in group_of(4).call(jobs.move_staged, cluster, matrix):
        assert told == dict.fromkeys(("adaptive", "pxn", "fast", "native"), (True, True))


@given(st.lists(st.integers(1, 200_000), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_whatever_lands_is_copied_once_and_small_runs_are_joined(sizes: list[int], random: object) -> None:
    ends = np.cumsum(sizes)
    runs = list(zip((ends - sizes).tolist(), sizes, strict=True))
    random.shuffle(runs)  # type: ignore[attr-defined]
    copied: list[tuple[int, int]] = []
    landed = Landed(lambda begin, length: copied.append((begin, length)), flush_bytes=500_000)
    for begin, length in runs:
        landed.add(begin, length)
    assert all(length >= LEAST_BYTES for _, length in copied), "small runs wait for their neighbours"
    landed.finish()
    covered = np.zeros(int(ends[-1]), np.int8)
    for begin, length in copied:
        covered[begin : begin + length] += 1
    assert (covered == 1).all()


class _Hearts:
    """A heartbeat that knows of a death from some time on."""

    def __init__(self, dead: tuple[int, ...]) -> None:
        self.dead = dead

    def find_dead(self) -> tuple[int, ...]:
        return self.dead

    def find_guilty(self, waiting_on: tuple[int, ...]) -> Verdict:
        return Verdict(tuple(waiting_on) or (0,), "died" if waiting_on else "kept others waiting")


def _watched(dead: tuple[int, ...], timeout_s: float, monkeypatch: pytest.MonkeyPatch) -> tuple[Watch, list[str]]:
    monkeypatch.setattr(watch_module, "PATIENCE_S", 0.05)
    monkeypatch.setattr(watch_module, "INTERVAL_S", 0.01)
    calls: list[str] = []
    return Watch(_Hearts(dead), timeout_s, lambda: calls.append("given up")), calls  # type: ignore[arg-type]


def _within(seconds: float, is_so: Callable[[], bool]) -> bool:
    end_s = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end_s:
        time.sleep(0.01)
    return is_so()


def test_a_death_during_a_call_is_found_and_everything_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, calls = _watched((2,), 60.0, monkeypatch)
    watch.enter()
    assert _within(10.0, lambda: bool(calls))
    assert watch.verdict == Verdict((2,), "died")


def test_a_call_that_takes_too_long_is_ended_though_nobody_died(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, calls = _watched((), 0.2, monkeypatch)
    watch.enter()
    assert _within(10.0, lambda: bool(calls))
    assert watch.verdict == Verdict((0,), "kept others waiting")


def test_nobody_looks_while_nothing_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, calls = _watched((2,), 0.1, monkeypatch)
    watch.enter()
    watch.leave()
    time.sleep(0.3)
    assert watch.verdict is None and not calls
    watch.close()


def test_what_is_left_on_a_device_counts_until_its_event(monkeypatch: pytest.MonkeyPatch) -> None:
    class Event:
        is_over = False

        def query(self) -> bool:
            return self.is_over

    watch, calls = _watched((), 60.0, monkeypatch)
    done, hangs = Event(), Event()
    done.is_over = True
    watch.leave(done)  # type: ignore[arg-type]
    watch._heartbeat.dead = (1,)  # type: ignore[attr-defined]
    time.sleep(0.2)
    assert not calls
    watch.leave(hangs)  # type: ignore[arg-type]
    assert _within(10.0, lambda: bool(calls))


def test_background_calls_run_in_order_and_raise_where_they_are_waited_for() -> None:
    worker, done = Worker("test"), []
    first = worker.submit([torch.zeros(1)], lambda: done.append(1))
    second = worker.submit([None], lambda: 1 / 0)
    assert first.wait() and done == [1] and first.is_completed()
    with pytest.raises(ZeroDivisionError):
        second.wait()
    assert second.is_completed()
    worker.close()


def test_whoever_asks_for_a_device_that_waits_for_the_dead_is_told_before_anything_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Event:
        asked = 0

        def query(self) -> bool:
            self.asked += 1
            return False

    watch, calls = _watched((2,), 60.0, monkeypatch)
    watch.enter()
    hangs = Event()
    with pytest.raises(MoveFailed, match="waits for a peer"):
        watch.settle(hangs)  # type: ignore[arg-type]
    assert hangs.asked > 1 and not calls  # aborting may hold the driver: the host leaves first
    watch.leave()
    assert _within(10.0, lambda: bool(calls))
