"""What a page says of the problem and of two algorithms side by side is what was computed."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

import interlock as il
from interlock.report import side_by_side
from interlock.report.problem_facts import problem_facts
from interlock.report.side_by_side import port_loads, port_use
from interlock.report.timeline import message_timeline


def test_every_field_and_fault_of_the_cluster_is_told() -> None:
    faults = [il.dead_nic(0, 5), il.slow_nic(1, 2, "200 Gb/s"), il.missing_gpu(1, 7)]
    cluster = il.cluster("h200", servers=2, faults=faults, fan_in=2)
    facts = problem_facts(il.plan(cluster, il.traffic.uniform(cluster, "1 MB"), "rails-split").problem)

    assert "450 GB/s per GPU" in facts["inside a server"] and "1 x 50 GB/s per GPU" in facts["NICs"]
    assert "200 ns per message, 10 us per stage" in facts["overheads"]
    assert "tolerates 2 senders" in facts["between servers"]
    assert facts["broken"] == (
        "the NIC of server 0, GPU 5 is dead; the NIC of server 1, GPU 2 runs at 25 GB/s; server 1, GPU 7 is missing"
    )


def test_port_use_adds_up_to_what_the_port_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4)
    result = il.plan(cluster, il.traffic.zipf(cluster, bytes_per_gpu="64 MB"), "direct").simulate()
    loads = port_loads(result)
    for limit in (side_by_side.MAX_EXACT, 0):  # followed exactly, and spread over each message's time
        monkeypatch.setattr(side_by_side, "MAX_EXACT", limit)
        carried = port_use(result).mean(axis=1) * 50e9 * result.makespan_s
        np.testing.assert_allclose(carried, loads, rtol=0.02 if limit else 0.15)


def test_a_heat_map_takes_the_place_of_bars_and_adds_up_to_the_bytes() -> None:
    cluster = il.cluster("h200", servers=13)
    result = il.plan(cluster, il.traffic.zipf(cluster, bytes_per_gpu="8 MB"), "no-stage").simulate()
    heat: Any = message_timeline(result)["views"]["sending rank"]["heat"]  # type: ignore[index]
    cells = np.frombuffer(base64.b64decode(heat["cells"]["bdata"]), np.uint8).reshape(-1, 104, heat["bins"])
    groups = [group["name"] for group in message_timeline(result)["groups"]]  # type: ignore[attr-defined]
    sent = cells[groups.index("scale-out")].mean(axis=1) / 255 * 50e9 * result.makespan_s
    np.testing.assert_allclose(sent, port_loads(result), rtol=0.1)
    assert len(base64.b64decode(heat["critical"]["start"]["bdata"])) == 8 * len(result.critical_path())
    small = il.cluster("h200", servers=2)
    bars: Any = message_timeline(il.plan(small, il.traffic.uniform(small), "direct").simulate())
    assert bars["views"]["sending rank"]["heat"] is None


@pytest.mark.browser
def test_another_algorithm_may_be_chosen_and_the_reason_follows(opened: Any, comparison: il.Comparison) -> None:
    best = comparison.results[0].algorithm
    opened.page.select_option("#other", "spreadout")
    said = opened.value("document.getElementById('cause').textContent")
    ratio = comparison.times_faster(comparison.results[0], "spreadout")
    assert said.startswith(f"{best} is {ratio:.2f}x faster than spreadout because ")
    pixels = """(() => { const c = document.getElementById('sides'); const d = c.getContext('2d')
        .getImageData(0, 0, c.width, c.height).data; return new Set(new Uint32Array(d.buffer)).size; })()"""
    assert opened.value(pixels) > 20
