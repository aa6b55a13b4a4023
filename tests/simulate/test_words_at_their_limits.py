"""Explanations just within and just beyond what is worth a word, on results made up for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import interlock as il
from interlock.ragged import Ragged
from interlock.schedule import Phase
from interlock.simulate import explain, simulate
from interlock.simulate.explain import Load
from interlock.simulate.result import CriticalMessage, Wait
from simulate.strategies import bare_schedule, crossbar


def against(monkeypatch: pytest.MonkeyPatch, needs: tuple[float, float], shares: tuple[float, float]) -> str:
    """Of two results, the faster first, whose busiest links need so long and are at work for such shares."""
    loads = iter([Load("A", 10, needs[0], shares[0]), Load("B", 20, needs[1], shares[1])])
    monkeypatch.setattr(explain, "busiest", lambda result: next(loads))
    monkeypatch.setattr(explain, "_padding_sentence", lambda result, name: "")
    results: list[Any] = [SimpleNamespace(makespan_s=need / share) for need, share in zip(needs, shares, strict=True)]
    return explain.explain_against(results[0], results[1], "a", "b")


@pytest.mark.parametrize(
    ("needs", "shares", "told"),
    [
        ((1.0, 1.004), (1.0, 1.0), "a and b take the same time."),
        ((1.0, 1.005), (1.0, 1.0), "a is 1.00x faster than b because of many small differences."),
        ((1.0, 2.0), (1.0, 1.0), "its busiest link (A) has 10 B to carry instead of 20 B (B): 2.00x less time."),
        ((1.0, 1.0), (1.0, 0.5), "because its busiest link (A) is at work 100 % of the time, not 50 %."),
        ((1.0, 2.0), (1.0, 0.5), "less time and that link is at work 100 % of the time, not 50 %."),
        ((1.0, 0.995), (1.0, 0.5), "not 50 %."),
        ((1.0, 0.994), (1.0, 0.5), "not 50 %, although its busiest link has 1.01x as long to carry."),
        ((1.0, 2.0), (0.995, 1.0), "2.00x less time."),
        ((1.0, 2.0), (0.9, 1.0), "less time, although that is at work 90 % of the time instead of 100 %."),
    ],
)
def test_factors_are_told_from_half_a_percent_on(
    monkeypatch: pytest.MonkeyPatch, needs: tuple[float, float], shares: tuple[float, float], told: str
) -> None:
    assert against(monkeypatch, needs, shares).endswith(told)


@pytest.mark.parametrize("seconds", [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_nothing_is_said_of_what_takes_no_time(seconds: tuple[float, float]) -> None:
    results: list[Any] = [SimpleNamespace(makespan_s=each) for each in seconds]
    assert explain.explain_against(results[0], results[1], "a", "b") == ""


@pytest.mark.parametrize(("carried", "told"), [(996, ""), (994, "1 %"), (990, "1 %"), (500, "50 %"), (1000, "")])
def test_padding_is_told_from_half_a_percent_on(carried: int, told: str) -> None:
    pieces = SimpleNamespace(length=np.array([carried - 1, 1]))
    result: Any = SimpleNamespace(schedule=SimpleNamespace(size_bytes=np.array([400, 600]), pieces=pieces))
    whole = f"{told} of what is sent is padding."
    assert explain._padding(result) == ([whole] if told else [])
    assert explain._padding_sentence(result, "b") == (f" {told} of what b sends is padding." if told else "")


def test_nothing_sent_is_no_padding() -> None:
    pieces = SimpleNamespace(length=np.zeros(0))
    result: Any = SimpleNamespace(schedule=SimpleNamespace(size_bytes=np.zeros(0), pieces=pieces))
    assert explain._padding_share(result) == 0.0


def made_up(steps: list[CriticalMessage], total_s: float, overhead_s: float = 0.0, computed: float = 0.0) -> Any:
    """A result with this critical path; message 0 is balance, the others scale-out in stages 1, 2, ..."""
    count = 4
    tasks = SimpleNamespace(seconds=np.array([0.0, 0.0, computed, 0.0])) if computed else None
    schedule = SimpleNamespace(
        num_messages=count,
        tasks=tasks,
        phase=np.array([Phase.BALANCE] + [Phase.SCALE_OUT] * 3, np.uint8),
        stage=np.arange(count),
    )
    return SimpleNamespace(
        schedule=schedule,
        makespan_s=total_s,
        critical_path=lambda: tuple(steps),
        path=Ragged.from_lists([[0], [0], [0], []]),
        topology=SimpleNamespace(message_overhead_s=np.array([overhead_s])),
    )


def step(message: int, free: float, start: float, sent: float, end: float) -> CriticalMessage:
    return CriticalMessage(message, Wait.NOTHING, free, start, sent, end)


def test_the_phase_that_fills_most_of_the_path_is_named_with_its_stages() -> None:
    path = [step(0, 0, 0, 4, 4), step(1, 4, 4, 7, 7), step(2, 7, 7, 10, 10)]
    assert explain._critical_phases(made_up(path, 10.0)) == [
        "60 % of the critical path (3 messages) is scale-out stages 1-2."
    ]
    assert explain._critical_phases(made_up(path[:1], 4.0)) == [
        "100 % of the critical path (1 message) is balance stage 0."
    ]
    assert explain._critical_phases(made_up([], 0.0)) == []


def test_computation_on_the_path_is_no_message() -> None:
    path = [step(1, 0, 0, 3, 3), step(2, 3, 3, 3, 10)]
    assert explain._critical_phases(made_up(path, 10.0, computed=7.0)) == [
        "70 % of the critical path (1 message) is computation."
    ]


@pytest.mark.parametrize(
    ("start", "sent", "overhead", "told"),
    [
        (0.99, 100.0, 0.0, []),
        (1.0, 100.0, 0.0, ["Of it, opening stages 1 %."]),
        (0.0, 99.01, 0.0, []),
        (0.0, 99.0, 0.0, ["Of it, latency 1 %."]),
        (0.0, 100.0, 0.99, []),
        (0.0, 100.0, 1.0, ["Of it, message overhead 1 %."]),
        (5.0, 90.0, 2.0, ["Of it, opening stages 5 %, latency 10 %, message overhead 2 %."]),
    ],
)
def test_costs_are_told_from_one_percent_on(start: float, sent: float, overhead: float, told: list[str]) -> None:
    path = [step(1, 0.0, start, sent, 100.0)]
    assert explain._critical_phases(made_up(path, 100.0, overhead))[1:] == told


def test_messages_without_links_have_no_overhead() -> None:
    path = [step(1, 0, 0, 4, 4), step(3, 4, 4, 10, 10)]
    assert explain._overhead_s(made_up(path, 10.0, 2.0)) == 2.0


@pytest.mark.parametrize(("most", "limit", "told"), [(2, 2, False), (3, 2, True), (3, None, False)])
def test_senders_are_told_beyond_what_the_fabric_bears(most: int, limit: int | None, told: bool) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=1)
    topology = SimpleNamespace(
        fabric=SimpleNamespace(fan_in=limit), router=cluster.topology.router, num_ranks=2, num_links=8
    )
    peak = np.zeros(8, np.int64)
    peak[7] = most
    found = explain._fan_in(SimpleNamespace(topology=topology, peak_fan_in=peak))  # type: ignore[arg-type]
    words = f"Up to {most} senders meet at the NIC of rank 1, where the fabric tolerates {limit}."
    assert found == ([words] if told else [])


def test_a_schedule_that_carries_nothing_says_so() -> None:
    topology = crossbar(2, [10.0] * 4, latency_s=1.0)
    empty = simulate(bare_schedule([], [], []), topology)
    assert empty.explanation() == "Nothing is sent." and empty.critical_path() == ()
    silent = simulate(bare_schedule([0], [1], [0]), topology)
    assert silent.explanation().startswith("No link carries any bytes.")


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ([1000, 1000], "carries as much as the others"),
        ([2009, 1991], "carries as much as the others"),
        ([201, 199], "carries 1.00x its share"),  # 1.005 to the last bit
        ([1000, 980], "carries 1.01x its share"),
    ],
)
def test_a_share_is_told_from_half_a_percent_on(sizes: list[int], told: str) -> None:
    """Two ranks send each other bytes: the mean of all four links is that of the two sizes."""
    result = simulate(bare_schedule([0, 1], [1, 0], sizes), crossbar(2, [1.0] * 4))
    assert told in result.explanation()
    assert "needs 100 % of the" in result.explanation()


def test_a_result_shows_itself_in_a_notebook() -> None:
    result = simulate(bare_schedule([0], [1], [100]), crossbar(2, [10.0] * 4))
    page = result._repr_html_()
    assert "Simulation" in page and "100 % of the critical path" in page
    assert repr(result).endswith("simulated, 1 messages, exact)")


def test_use_of_links_is_counted_in_at_least_one_bin() -> None:
    result = simulate(bare_schedule([0], [1], [100]), crossbar(2, [10.0] * 4))
    assert result.utilisation(1) == pytest.approx(np.array([[1.0], [0.0], [0.0], [1.0]]))
    with pytest.raises(ValueError, match="num_bins=0 must be at least 1"):
        result.utilisation(0)
