"""Topologies as the command line writes them."""

from __future__ import annotations

import numpy as np
import pytest

import interlock as il
from interlock.topology import Topology, parse_topology

T = il.topology
SPEEDS = {"bandwidth": 2e9, "latency": 1e-6, "message_overhead": 5e-7}


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("ring:6", T.ring(6, **SPEEDS)),
        ("torus:4x4x4", T.torus(4, 4, 4, **SPEEDS)),
        ("mesh:2x3", T.mesh(2, 3, **SPEEDS)),
        ("fully-connected:5", T.fully_connected(5, **SPEEDS)),
        ("hypercube:4", T.hypercube(4, **SPEEDS)),
        ("switch:8", T.switch(8, **SPEEDS)),
        ("switch:4x8", T.switch(4, 8, **SPEEDS)),
        ("rfs:2x3x4", T.rfs(2, 3, 4, **SPEEDS)),
        ("dragonfly:4x5", T.dragonfly(4, 5, **SPEEDS)),
        ("clos:2x4x2", T.clos(2, 4, 2, **SPEEDS)),
        ("rail:2x4", T.rail(2, 4, **SPEEDS)),
        ("dgx1", T.dgx1(**SPEEDS)),
        (" ring:4*full:3*switch:2 ", T.rfs(4, 3, 2, **SPEEDS)),
        ("line:2*line:3", T.mesh(2, 3, **SPEEDS)),
    ],
)
def test_words_make_the_shape_they_name(words: str, same: Topology) -> None:
    assert_equal(parse_topology(words, **SPEEDS), same)


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("h200:2x4", il.cluster("h200", servers=2, gpus_per_server=4).topology),
        ("gb200-nvl72:1", il.cluster("gb200-nvl72", servers=1).topology),
    ],
)
def test_presets_bring_their_own_speeds(words: str, same: Topology) -> None:
    assert_equal(parse_topology(words), same)
    with pytest.raises(il.InvalidInput, match="has no effect: topology"):
        parse_topology(words, bandwidth="1 GB/s")


def assert_equal(made: Topology, same: Topology) -> None:
    for column in ("node_kinds", "link_src", "link_dst", "bandwidth_bytes_per_s", "latency_s", "message_overhead_s"):
        assert np.array_equal(getattr(made, column), getattr(same, column))


def test_dimensions_may_have_their_own_speeds() -> None:
    made = parse_topology("torus:4x4", bandwidth="200 GB/s, 50 GB/s", latency="0 us,1 us")

    assert set(made.bandwidth_bytes_per_s) == {200e9, 50e9} and set(made.latency_s) == {0.0, 1e-6}


def test_every_name_that_is_listed_is_understood() -> None:
    for name in T.shape_names():
        sizes = ["4", "2x2", "2x2x2", None]
        made = []
        for size in sizes:
            try:
                made.append(parse_topology(name if size is None else f"{name}:{size}"))
            except il.InvalidInput as error:
                assert "takes" in str(error)
        assert made
