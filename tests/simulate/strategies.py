"""Random small networks and schedules for the simulator, legal for it but carrying no items."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from interlock.ragged import Ragged
from interlock.schedule import Pieces, Schedule
from interlock.topology import Fabric, Topology
from interlock.topology.graph import NodeKind


def bare_schedule(
    src: list[int],
    dst: list[int],
    size_bytes: list[int],
    path: list[list[int]] | None = None,
    *,
    stage: list[int] | None = None,
    slices: list[int] | None = None,
    order: list[int] | None = None,
    shares_links: bool = False,
    deps: list[list[int]] | None = None,
    barriers: tuple[int, ...] = (),
) -> Schedule:
    """A schedule of one-to-one messages without pieces; `order` makes all of them exclusive, or gives those
    above 0 a place on their connection where they share their links."""
    count = len(src)
    return Schedule(
        src=Ragged.single(np.array(src, np.int32)),
        dst=Ragged.single(np.array(dst, np.int32)),
        kind=np.zeros(count, np.uint8),
        phase=np.zeros(count, np.uint8),
        stage=np.array(stage or [0] * count, np.int32),
        slice=np.array(slices or [0] * count, np.int32),
        size_bytes=np.array(size_bytes, np.int64),
        path=Ragged.empty(count) if path is None else Ragged.from_lists(path),
        exclusive=np.full(count, order is not None and not shares_links),
        order=np.array(order or [0] * count, np.int64),
        deps=Ragged.empty(count) if deps is None else Ragged.from_lists(deps),
        pieces=Pieces(
            np.zeros(count + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64)
        ),
        barriers=np.array(barriers, np.int32),
    )


def crossbar(
    num_ranks: int,
    bandwidth: list[float],
    *,
    latency_s: float = 0.0,
    overhead_s: float = 0.0,
    stage_overhead_s: float = 0.0,
    fabric: Fabric | None = None,
    half_duplex: bool = False,
) -> Topology:
    """Ranks around one switch: link r goes up, link num_ranks + r comes down."""
    rank = np.arange(num_ranks, dtype=np.int32)
    hub = np.full(num_ranks, num_ranks, np.int32)
    kinds = np.array([NodeKind.GPU] * num_ranks + [NodeKind.SWITCH], np.uint8)
    links = 2 * num_ranks
    return Topology(
        name="crossbar",
        num_ranks=num_ranks,
        node_kinds=kinds,
        link_src=np.concatenate([rank, hub]),
        link_dst=np.concatenate([hub, rank]),
        bandwidth_bytes_per_s=np.array(bandwidth, np.float64),
        latency_s=np.full(links, latency_s / 2),
        message_overhead_s=np.full(links, overhead_s),
        channel=np.concatenate([rank, rank]) if half_duplex else np.arange(links, dtype=np.int32),
        multicasts=kinds == NodeKind.SWITCH,
        reduces=kinds == NodeKind.SWITCH,
        stage_overhead_s=stage_overhead_s,
        fabric=fabric or Fabric(),
    )


SECONDS = st.sampled_from([0.0, 0.0, 0.5, 1.25])
RATES = st.sampled_from([1.0, 2.0, 3.0, 7.0, 10.0])
SIZES = st.one_of(st.sampled_from([0, 1, 2, 4, 8, 8, 8, 16]), st.integers(1, 1000))


@st.composite
def networks(draw: st.DrawFn, *, costs: bool = True, congestion: bool = True) -> Topology:
    """A small crossbar with equal or unequal links, with or without costs and a fan-in limit."""
    num_ranks = draw(st.integers(2, 6))
    bandwidth = draw(st.lists(RATES, min_size=2 * num_ranks, max_size=2 * num_ranks))
    half_duplex = draw(st.booleans())
    fabric = Fabric()
    if congestion and draw(st.booleans()):
        fabric = Fabric(
            name="test",
            fan_in=draw(st.integers(1, 2)),
            loss_per_sender=draw(st.sampled_from([0.1, 0.5])),
            sender_exponent=draw(st.sampled_from([0.5, 1.0])),
            reference_bytes=100.0,
            size_exponent=draw(st.sampled_from([0.0, 0.5])),
            collapse_fan_in=draw(st.sampled_from([None, 2])),
            collapse_loss=2.0,
            collapse_sender_exponent=2.0,
            collapse_size_exponent=draw(st.sampled_from([0.0, 1.0])),
            max_loss=draw(st.sampled_from([0.3, 100.0])),
            efficiency=draw(st.sampled_from([1.0, 0.75])),
        )
    return crossbar(
        num_ranks,
        bandwidth,
        latency_s=draw(SECONDS) if costs else 0.0,
        overhead_s=draw(SECONDS) if costs else 0.0,
        stage_overhead_s=draw(SECONDS) if costs else 0.0,
        fabric=fabric,
        half_duplex=half_duplex,
    )


@st.composite
def schedules(draw: st.DrawFn, topology: Topology, *, waits: bool = True) -> Schedule:
    """Random messages; with `waits` also dependencies, stages, barriers and orders, acyclic by construction."""
    count = draw(st.integers(1, 14))
    ranks = topology.num_ranks
    pairs = [draw(st.tuples(st.integers(0, ranks - 1), st.integers(1, ranks - 1))) for _ in range(count)]
    src, dst = [s for s, _ in pairs], [(s + step) % ranks for s, step in pairs]
    size_bytes = [draw(SIZES) for _ in range(count)]
    if not waits:
        return bare_schedule(src, dst, size_bytes)
    # Everything points from later to earlier rows and stages rise with rows, so no circle can close.
    deps = [sorted(draw(st.sets(st.integers(0, m - 1), max_size=2))) if m else [] for m in range(count)]
    stage = sorted(draw(st.integers(0, 3)) for _ in range(count))
    barriers = tuple(sorted(draw(st.sets(st.integers(1, 3), max_size=2))))
    of_connections = draw(st.booleans())
    slices = [draw(st.integers(0, 1)) for _ in range(count)]
    order = list(range(count)) if draw(st.booleans()) else None
    if of_connections:
        order = [draw(st.sampled_from([0, m + 1])) for m in range(count)]
    waiting = {"stage": stage, "slices": slices, "order": order, "deps": deps, "barriers": barriers}
    return bare_schedule(src, dst, size_bytes, shares_links=of_connections, **waiting)
