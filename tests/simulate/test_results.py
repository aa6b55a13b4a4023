"""What a result tells: critical path, explanation, loads, fan-in, timelines."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlock as il
from interlock.errors import InvalidInput
from interlock.simulate import Wait, simulate
from interlock.simulate.explain import busiest, explain_against
from simulate.strategies import bare_schedule, crossbar, networks, schedules

FREE = {"scale_out_latency": "0 us", "scale_up_latency": "0 us", "message_overhead": "0 us", "stage_overhead": "0 us"}


@given(st.data())
@settings(max_examples=100)
def test_the_critical_path_covers_the_makespan_without_gaps(data: st.DataObject) -> None:
    topology = data.draw(networks())
    result = simulate(data.draw(schedules(topology)), topology)
    steps = result.critical_path()
    assert steps[0].free_s == 0.0 and steps[0].reason is Wait.NOTHING
    assert steps[-1].end_s == result.makespan_s
    for step, following in itertools.pairwise(steps):
        assert step.end_s == following.free_s
        assert result.waited_for[following.message] == step.message
    for step in steps:
        assert step.free_s <= step.start_s * (1 + 1e-12) and step.start_s <= step.end_s


def test_each_kind_of_wait_is_told_apart() -> None:
    topology = crossbar(4, [10.0] * 8)
    after = bare_schedule([0, 1], [1, 2], [10, 10], deps=[[], [0]])
    assert simulate(after, topology).critical_path()[1].reason is Wait.DEPENDENCY
    in_order = bare_schedule([0, 0], [1, 2], [10, 10], order=[0, 1])
    assert simulate(in_order, topology).critical_path()[1].reason is Wait.LINK_ORDER
    behind = bare_schedule([0, 1], [1, 2], [10, 10], stage=[0, 1], barriers=(1,))
    assert simulate(behind, topology).critical_path()[1].reason is Wait.BARRIER
    assert "stands behind a barrier" in str(simulate(behind, topology).critical_path()[1])


def test_the_explanation_names_the_busiest_nic_and_its_surplus() -> None:
    """Rank 2 receives 6 of 9 units over NICs that receive 9 / 4 on average: 2.67 times its share."""
    cluster = il.cluster("h200", servers=4, gpus_per_server=1, **FREE)
    matrix = np.zeros((4, 4), np.int64)
    matrix[0, 2] = matrix[1, 2] = 3_000_000
    matrix[2, 0] = matrix[3, 1] = matrix[0, 3] = 1_000_000
    text = il.plan(cluster, il.traffic.matrix(matrix), algorithm="direct").simulate().explanation()
    assert "NIC of rank 2 receives 2.67x its share" in text
    assert "100 % of the critical path (1 message) is scale-out stage 0" in text


def test_the_explanation_names_stages_fixed_costs_and_incast() -> None:
    fabric = il.topology.Fabric("test", fan_in=2, loss_per_sender=0.1)
    cluster = il.cluster("h200", servers=4, gpus_per_server=1, fabric=fabric, stage_overhead="1 ms")
    traffic = il.traffic.uniform(cluster, bytes_per_gpu="4 MB")
    staged = il.plan(cluster, traffic, algorithm="spreadout").simulate().explanation()
    assert "scale-out stages 1-3" in staged and "opening stages" in staged
    assert "senders" not in staged
    burst = il.plan(cluster, traffic, algorithm="direct").simulate(tolerance=1e-3).explanation()
    assert "Up to 3 senders meet at the NIC of rank 0, where the fabric tolerates 2." in burst
    assert "tolerant mode" in burst


def test_tasks_are_told_where_the_step_is_known_and_only_there() -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=2)
    step = il.step(cluster, "two")
    step.compute("later", "5 us", after=step.compute("first", "3 us"))
    plan = il.plan(step)
    assert {name: times.finish_s for name, times in plan.simulate().tasks.items()} == pytest.approx(
        {"first": 3e-6, "later": 8e-6}
    )
    assert simulate(plan.schedule, cluster).tasks == {}  # the rows alone name no task
    assert simulate(bare_schedule([0], [1], [1]), cluster).tasks == {}


def test_an_empty_schedule_takes_no_time_and_says_so() -> None:
    result = simulate(bare_schedule([], [], []), crossbar(2, [10.0] * 4))
    assert result.makespan_s == 0.0
    assert result.critical_path() == ()
    assert result.explanation() == "Nothing is sent."
    assert json.loads(result.to_chrome_trace())["traceEvents"][0]["ph"] == "M"
    assert result.utilisation(3).tolist() == [[0.0] * 3] * 4


def test_link_bytes_and_peak_fan_in_are_those_of_the_burst() -> None:
    cluster = il.cluster("h200", servers=3, gpus_per_server=2, **FREE)
    matrix = np.arange(36).reshape(6, 6) * 1000
    result = il.plan(cluster, il.traffic.matrix(matrix), algorithm="direct").simulate()
    ranks = cluster.num_ranks
    server = np.arange(ranks) // 2
    far = np.where(server[:, None] != server[None, :], matrix, 0)
    assert result.link_bytes[2 * ranks : 3 * ranks].tolist() == far.sum(axis=1).tolist()
    assert result.link_bytes[3 * ranks :].tolist() == far.sum(axis=0).tolist()
    assert result.peak_fan_in[3 * ranks :].tolist() == (far > 0).sum(axis=0).tolist()
    assert result.peak_fan_in[: 3 * ranks].sum() == 0


def test_the_chrome_trace_has_one_event_per_message_and_no_overlap_on_a_track() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    result = il.plan(cluster, il.traffic.random(cluster, seed=1), algorithm="pxn").simulate()
    events = [event for event in json.loads(result.to_chrome_trace())["traceEvents"] if event["ph"] == "X"]
    assert sorted(event["args"]["message"] for event in events) == list(range(len(result.start_s)))
    busy_until: dict[tuple[int, int], float] = {}
    for event in events:
        track = event["pid"], event["tid"]
        assert event["ts"] >= busy_until.get(track, 0.0) - 1e-5
        busy_until[track] = event["ts"] + event["dur"]


def test_two_results_are_set_against_each_other_by_load_and_use() -> None:
    cluster = il.cluster("h200", servers=4)
    traffic = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="64 MB", seed=0)
    ours, direct, padded = (il.plan(cluster, traffic, name).simulate() for name in ("adaptive", "direct", "padded"))
    words = explain_against(ours, direct, "adaptive", "direct")
    ratio = direct.makespan_s / ours.makespan_s
    assert words.startswith(f"adaptive is {ratio:.2f}x faster than direct because its busiest link (NIC of rank ")
    load = busiest(direct).needs_s / busiest(ours).needs_s
    assert f"{load:.2f}x less time" in words
    assert ratio == pytest.approx(load * busiest(ours).busy_share / busiest(direct).busy_share)
    assert "of what padded sends is padding." in explain_against(ours, padded, "adaptive", "padded")
    assert "as much as the others" in padded.explanation() and "of what is sent is padding." in padded.explanation()
    assert explain_against(ours, ours, "adaptive", "adaptive") == "adaptive and adaptive take the same time."


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"tolerance": -1e-3}, "tolerance=-0.001"),
        ({"tolerance": 0.5}, "must be between 0 and 0.1"),
        ({"tolerance": float("nan")}, "tolerance=nan"),
        ({"forwarding": "teleport"}, "forwarding='teleport'"),
    ],
)
def test_bad_options_are_refused_with_their_value(options: dict[str, object], rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        simulate(bare_schedule([0], [1], [1]), crossbar(2, [10.0] * 4), **options)  # type: ignore[arg-type]


def test_a_circle_of_waits_is_refused() -> None:
    circle = bare_schedule([0, 1], [1, 0], [1, 1], deps=[[1], [0]])
    with pytest.raises(InvalidInput, match="wait for each other"):
        simulate(circle, crossbar(2, [10.0] * 4))


def test_a_multicast_without_links_is_refused() -> None:
    from dataclasses import replace

    from interlock.ragged import Ragged

    cast = replace(bare_schedule([0], [1], [1]), dst=Ragged.from_lists([[1, 2]]))
    with pytest.raises(InvalidInput, match="must name its links"):
        simulate(cast, crossbar(3, [10.0] * 6))


@pytest.mark.parametrize("forwarding", ["cut-through", "store-and-forward"])
def test_a_message_names_the_message_that_it_waited_for(forwarding: str) -> None:
    schedule = bare_schedule([0, 1, 2, 3], [1, 2, 3, 0], [10] * 4, deps=[[], [0], [1], []])
    assert simulate(schedule, crossbar(4, [10.0] * 8), forwarding=forwarding).waited_for.tolist() == [-1, 0, 1, -1]


def test_an_exact_result_leaves_nothing_idle_and_may_be_shown_in_one_bin() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    plan = il.plan(cluster, il.traffic.uniform(cluster, "1 MB"), algorithm="direct")
    assert plan.simulate().idle_share == 0.0
    assert plan.simulate().utilisation(1).shape == (cluster.topology.num_links, 1)
    with pytest.raises(il.InvalidInput, match="num_bins=0 must be at least 1"):
        plan.simulate().utilisation(0)
