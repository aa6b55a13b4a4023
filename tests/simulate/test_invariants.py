"""What must hold for every schedule: capacity, conservation, fairness, bounds, scaling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock._native import _core
from interlock.schedule import Schedule
from interlock.simulate import Result, simulate
from interlock.topology import Topology
from simulate.reference import fair_rates
from simulate.strategies import bare_schedule, crossbar, networks, schedules


def rates_over_time(result: Result) -> list[tuple[float, float, dict[int, float]]]:
    """(from, to, rate of each message under way) for every span between changes."""
    time_s, message, rate = _core.record_rates(*result.arrays.arguments, result.tolerance or 0.0)
    spans: list[tuple[float, float, dict[int, float]]] = []
    now: dict[int, float] = {}
    for k in range(len(time_s)):
        if rate[k] > 0:
            now[int(message[k])] = float(rate[k])
        else:
            now.pop(int(message[k]), None)
        until = time_s[k + 1] if k + 1 < len(time_s) else time_s[k]
        if until > time_s[k]:
            spans.append((float(time_s[k]), float(until), dict(now)))
    return spans


def channels(result: Result, message: int) -> list[int]:
    """Channels a message's bytes cross."""
    return result.arrays.channel_by_link[result.path[message]].tolist()


@given(st.data())
@settings(max_examples=150)
def test_no_channel_is_ever_above_capacity_and_all_bytes_are_moved(data: st.DataObject) -> None:
    topology = data.draw(networks())
    schedule = data.draw(schedules(topology))
    result = simulate(schedule, topology)
    capacity = result.arrays.arguments[0]
    overhead_s = result.arrays.arguments[5]
    moved = np.zeros(schedule.num_messages)
    for start_s, end_s, rates in rates_over_time(result):
        used = np.zeros(len(capacity))
        for message, rate in rates.items():
            moved[message] += rate * (end_s - start_s)
            # While a message holds its port for the overhead it uses the first channel only: count the least it uses.
            used[channels(result, message)[0]] += rate
        assert (used <= capacity * (1 + 1e-9)).all()
    port = np.array([capacity[channels(result, m)[0]] for m in range(schedule.num_messages)])
    np.testing.assert_allclose(moved, schedule.size_bytes + overhead_s * port, rtol=1e-9, atol=1e-9)


@given(st.data())
@settings(max_examples=150)
def test_rates_are_max_min_fair_at_every_moment(data: st.DataObject) -> None:
    topology = data.draw(networks(costs=False, congestion=False))
    schedule = data.draw(schedules(topology))
    result = simulate(schedule, topology)
    capacity = dict(enumerate(result.arrays.arguments[0].tolist()))
    for _, _, rates in rates_over_time(result):
        want = fair_rates({message: channels(result, message) for message in rates}, capacity)
        for message, rate in rates.items():
            assert abs(rate - want[message]) <= 1e-9 * want[message]
        used = dict.fromkeys(capacity, 0.0)
        for message, rate in rates.items():
            for channel in channels(result, message):
                used[channel] += rate
        assert all(used[channel] <= capacity[channel] * (1 + 1e-9) for channel in capacity)


@given(st.data())
@settings(max_examples=150)
def test_the_makespan_is_never_below_the_load_of_a_link_or_a_chain_of_waits(data: st.DataObject) -> None:
    topology = data.draw(networks())
    schedule = data.draw(schedules(topology))
    result = simulate(schedule, topology)
    capacity, channel = result.arrays.arguments[0], result.arrays.channel_by_link
    load = np.zeros(len(capacity))
    np.add.at(load, channel[result.path.values], np.repeat(schedule.size_bytes, result.path.counts))
    assert result.makespan_s >= (load / capacity).max() * (1 - 1e-9)
    least = np.zeros(schedule.num_messages)
    for m in range(schedule.num_messages):
        alone = schedule.size_bytes[m] / capacity[channels(result, m)].min()
        least[m] = alone + max((least[d] for d in schedule.deps[m]), default=0.0)
    assert (result.finish_s >= least * (1 - 1e-9)).all()
    assert (result.start_s <= result.sent_s).all() and (result.sent_s <= result.finish_s).all()


@given(st.data(), st.sampled_from([1.25, 3.0, 1e6]))
@settings(max_examples=100)
def test_bandwidth_scales_time_when_nothing_else_costs(data: st.DataObject, factor: float) -> None:
    topology = data.draw(networks(costs=False))
    schedule = data.draw(schedules(topology))
    faster = replace(topology, bandwidth_bytes_per_s=topology.bandwidth_bytes_per_s * factor)
    slow, fast = simulate(schedule, topology), simulate(schedule, faster)
    np.testing.assert_allclose(fast.finish_s * factor, slow.finish_s, rtol=1e-9)


@given(st.data())
@settings(max_examples=100)
def test_utilisation_adds_up_to_the_bytes_carried(data: st.DataObject) -> None:
    topology = data.draw(networks(costs=False))
    schedule = data.draw(schedules(topology))
    result = simulate(schedule, topology)
    used = result.utilisation(17)
    assert used.shape == (topology.num_links, 17)
    assert (used >= 0).all() and (used <= 1 + 1e-9).all()
    if result.makespan_s > 0:
        carried = np.zeros(result.arrays.num_channels)
        np.add.at(carried, result.arrays.channel_by_link, result.link_bytes)
        by_channel = used.mean(axis=1) * result.makespan_s * result.arrays.arguments[0][result.arrays.channel_by_link]
        np.testing.assert_allclose(by_channel, carried[result.arrays.channel_by_link], rtol=1e-9, atol=1e-9)


def burst(num_ranks: int, seed: int) -> tuple[Schedule, Topology]:
    """All pairs at once, sizes far apart."""
    rng = np.random.default_rng(seed)
    src, dst = np.nonzero(~np.eye(num_ranks, dtype=np.bool_))
    sizes = rng.lognormal(10, 1.3, len(src)).astype(np.int64)
    topology = crossbar(num_ranks, (1e3 * rng.integers(1, 5, 2 * num_ranks)).tolist())
    path = [[int(s), num_ranks + int(d)] for s, d in zip(src, dst, strict=True)]
    return bare_schedule(src.tolist(), dst.tolist(), sizes.tolist(), path), topology


@given(st.integers(0, 10_000), st.sampled_from([1e-4, 1e-3, 1e-2]))
@settings(max_examples=40)
def test_tolerant_times_stay_within_the_bound_they_report(seed: int, tolerance: float) -> None:
    schedule, topology = burst(16, seed)
    exact, tolerant = simulate(schedule, topology), simulate(schedule, topology, tolerance=tolerance)
    assert abs(tolerant.makespan_s - exact.makespan_s) <= tolerant.error_bound_s
    assert tolerant.idle_share <= 0.75 * tolerance * (1 + 1e-9)
    assert np.abs(tolerant.finish_s - exact.finish_s).max() <= tolerant.error_bound_s
    assert exact.error_bound_s == 0.0


def test_tolerance_says_what_lay_idle_and_none_at_all_is_exact() -> None:
    schedule, topology = burst(16, 1)
    assert simulate(schedule, topology, tolerance=1e-2).idle_share > 0.0
    exact, close = simulate(schedule, topology), simulate(schedule, topology, tolerance=0.0)
    assert np.array_equal(close.finish_s, exact.finish_s) and close.idle_share == exact.idle_share == 0.0


@given(st.data())
@settings(max_examples=150)
def test_tolerance_does_not_add_up_along_chains_of_waits(data: st.DataObject) -> None:
    topology = data.draw(networks())
    schedule = data.draw(schedules(topology))
    exact, tolerant = simulate(schedule, topology), simulate(schedule, topology, tolerance=1e-3)
    np.testing.assert_allclose(tolerant.makespan_s, exact.makespan_s, rtol=2e-3)
