"""Messages cut at the nodes of their paths, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from interlock.ragged import Ragged
from interlock.simulate import simulate
from interlock.simulate.simulator import one_message_per_link
from interlock.topology import ring
from simulate.strategies import bare_schedule


def test_hops_wait_for_the_hop_before_and_a_message_without_links_stays_whole() -> None:
    """0 to 2 over 1, then something at 2 that crosses no link, then 2 to 0 over 3; each waits for the one before."""
    graph = ring(4, bandwidth="1 GB/s")
    link = {pair: k for k, pair in enumerate(zip(graph.link_src.tolist(), graph.link_dst.tolist(), strict=True))}
    path = Ragged.from_lists([[link[0, 1], link[1, 2]], [], [link[2, 3], link[3, 0]]])
    rows = replace(bare_schedule([0, 2, 2], [2, 3, 0], [5, 7, 9]), deps=Ragged.from_lists([[], [0], [1]]))
    hops = one_message_per_link(rows, path, graph)
    assert hops.message.tolist() == [0, 0, 1, 2, 2] and hops.first.tolist() == [0, 2, 3]
    cut = hops.schedule
    assert [each.tolist() for each in cut.path] == [[link[0, 1]], [link[1, 2]], [], [link[2, 3]], [link[3, 0]]]
    assert [each.tolist() for each in cut.deps] == [[], [0], [0, 1], [2], [3]]
    assert cut.size_bytes.tolist() == [5, 5, 7, 9, 9]
    assert np.array_equal(cut.pieces.offsets, np.zeros(cut.num_messages + 1))  # which bytes is not asked here


def test_a_message_over_one_link_takes_as_long_stored_as_cut_through() -> None:
    graph = ring(4, bandwidth="1 GB/s", latency="1 us", message_overhead="2 us")
    schedule = bare_schedule([0, 1, 0], [1, 2, 3], [5000, 7000, 9000], deps=[[], [0], []])
    times = [simulate(schedule, graph, forwarding=way).finish_s for way in ("cut-through", "store-and-forward")]
    assert np.allclose(times[0], [8e-6, 18e-6, 12e-6], rtol=1e-9, atol=0.0)
    assert np.array_equal(times[0], times[1])
