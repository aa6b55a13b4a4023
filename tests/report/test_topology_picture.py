"""The picture of a topology is well-formed, shows every node and link, and marks the cut."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

import interlock as il
from interlock.report.topology_picture import CUT_COLOUR, DEAD_COLOUR, node_places, topology_svg
from interlock.topology.summary import tightest_cut

SVG = "{http://www.w3.org/2000/svg}"
WORDS = "torus:4x4 mesh:3x5 torus:3x3x3 torus:2x2x2x2 ring:9 dgx1 dragonfly:4x5 clos:3x4x2 h200:2x4 rail:3x4 switch:4x3"
WORDS += " rfs:4x3x2 mi300x:2"


@pytest.mark.parametrize("words", WORDS.split())
def test_every_node_and_link_is_drawn_apart(words: str) -> None:
    topology = il.topology.parse_topology(words)
    root = ET.fromstring(topology_svg(topology, tightest_cut(topology)))
    linked = np.union1d(topology.link_src, topology.link_dst)
    pairs = {tuple(sorted(ends)) for ends in zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True)}
    speeds = len(set(topology.bandwidth_bytes_per_s.tolist()))

    assert len(root.findall(f"{SVG}circle")) == topology.num_ranks
    assert len(root.findall(f"{SVG}rect")) == 1 + len(linked) - topology.num_ranks
    assert len(root.findall(f"{SVG}path")) == len(pairs) + speeds + 1
    places = node_places(topology)[linked]
    apart = np.abs(places[:, None] - places[None]).sum(axis=2) + np.eye(len(linked))
    assert apart.min() > 0.5


def test_the_cut_is_marked() -> None:
    topology = il.topology.torus(4, 4, bandwidth=1e9)
    plain, marked = topology_svg(topology), topology_svg(topology, tightest_cut(topology))

    assert CUT_COLOUR not in plain
    assert marked.count(f'stroke="{CUT_COLOUR}"') == 8 + 1  # eight pairs of nodes, and the legend


def test_dead_links_and_odd_names_do_no_harm() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2, name="<script>&", faults=[il.missing_gpu(0, 1)])
    picture = topology_svg(cluster.topology)

    assert "<script>" not in picture and "&lt;script&gt;&amp;" in picture
    assert f'stroke="{DEAD_COLOUR}"' in picture


def test_too_many_links_are_refused() -> None:
    with pytest.raises(il.InvalidInput, match="too many to draw"):
        topology_svg(il.topology.mesh(100, 100, bandwidth=1e9))
