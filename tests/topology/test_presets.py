"""Presets: the figures of the documents, and what may be changed."""

from __future__ import annotations

from pathlib import Path

import pytest

import interlock as il
from interlock.topology import preset_names

GB, GBIT = 1e9, 1e9 / 8

# name: GPUs per server, scale-up GB/s, NIC Gb/s
FIGURES = {
    "a100": (8, 300, 200),
    "h800": (8, 200, 400),
    "h100": (8, 450, 400),
    "h200": (8, 450, 400),
    "h200-800g": (8, 450, 800),
    "b200": (8, 900, 400),
    "b300": (8, 900, 800),
    "gh200-nvl32": (32, 450, 400),
    "gb200-nvl72": (72, 900, 400),
    "gb300-nvl72": (72, 900, 800),
    "mi300x": (8, 448, 400),
    "mi300x-100g": (8, 448, 100),
}


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_a_preset_has_its_published_figures(name: str) -> None:
    gpus, scale_up, nic = FIGURES[name]
    cluster = il.cluster(name, servers=2)

    assert cluster.gpus_per_server == gpus and cluster.num_ranks == 2 * gpus
    assert cluster.scale_up_bandwidth_bytes_per_s == scale_up * GB
    assert (cluster.nic_bandwidth_bytes_per_s == nic * GBIT).all()
    assert cluster.scale_up == ("mesh" if name.startswith("mi300x") else "switch")
    assert cluster.multicasts == cluster.reduces == (name not in ("a100", "mi300x", "mi300x-100g"))


def test_every_preset_is_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "presets.md").read_text()

    assert sorted(FIGURES) == preset_names()
    for name in preset_names():
        assert f"| `{name}` |" in text


def test_keywords_change_any_field() -> None:
    cluster = il.cluster(
        "h200", servers=3, gpus_per_server=4, scale_up="mesh", scale_up_bandwidth="300 GB/s", scale_up_latency="2 us",
        scale_out="rail", scale_out_bandwidth="200 Gb/s", nics_per_gpu=2, scale_out_latency="5 us", oversubscription=2,
        message_overhead="1 us", stage_overhead="20 us", fan_in=1, multicasts=False, reduces=False, name="mine",
        faults=[il.dead_nic(0, 1)],
    )  # fmt: skip

    assert (cluster.name, cluster.servers, cluster.gpus_per_server, cluster.scale_up) == ("mine", 3, 4, "mesh")
    assert cluster.nic_bandwidth_bytes_per_s[:2].tolist() == [50 * GB, 25 * GB]
    assert (cluster.scale_up_latency_s, cluster.scale_out_latency_s) == (2e-6, 5e-6)
    assert (cluster.message_overhead_s, cluster.stage_overhead_s) == (1e-6, 20e-6)
    assert cluster.fabric.fan_in == 1 and cluster.fabric.loss_per_sender > 0


def test_the_command_line_gives_words() -> None:
    cluster = il.cluster("h200", gpus_per_server="4", fan_in="none", multicasts="false", oversubscription="2.5")

    assert (cluster.gpus_per_server, cluster.fabric.fan_in, cluster.multicasts) == (4, None, False)
    assert cluster.oversubscription == 2.5


def test_a_limit_on_senders_can_be_lifted() -> None:
    assert il.cluster("mi300x-100g").fabric.fan_in is not None
    assert il.cluster("mi300x-100g", fan_in=None).fabric.fan_in is None
