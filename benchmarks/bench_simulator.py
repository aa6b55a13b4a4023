"""How fast is the simulator, and how does its time grow?

Bursts are all-at-once All-to-Allv of unequal (log-normal) sizes with one NIC per endpoint. Times are CPU seconds of the
one thread it runs on, so that a busy machine does not count against it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import interlock as il
from common import arguments, fitted_exponent, report
from interlock.ragged import Ragged
from interlock.schedule import Batch, Phase, Schedule, assemble, make_pieces
from interlock.simulate import simulate
from interlock.topology import Cluster, Topology

EXACT_LIMIT_S = {32: 5e-3, 64: 50e-3, 128: 0.8, 256: 12.0}
TOLERANT_LIMIT_S = {128: 0.2, 256: 1.5, 512: 8.0}
STAGED_LIMIT_S = 0.5
TORUS_LIMIT_S = 10.0
TOLERANCE = 1e-3


def burst(num_endpoints: int, seed: int) -> tuple[Schedule, Cluster]:
    """Every pair at once, one GPU per server, no fixed costs."""
    rng = np.random.default_rng(seed)
    matrix = rng.lognormal(13, 1.3, (num_endpoints, num_endpoints)).astype(np.int64)
    np.fill_diagonal(matrix, 0)
    free = {"scale_out_latency": "0 us", "message_overhead": "0 us", "stage_overhead": "0 us"}
    cluster = il.cluster("h200", servers=num_endpoints, gpus_per_server=1, **free)
    return il.plan(cluster, il.traffic.matrix(matrix), algorithm="direct").schedule, cluster


def four_links_per_flow(seed: int) -> tuple[Schedule, Cluster]:
    """`direct` at 8x8 where every message crosses scale-up, NIC, NIC and scale-up."""
    cluster = il.cluster("h200", servers=8)
    plan = il.plan(cluster, il.traffic.lognormal(cluster, bytes_per_gpu="64 MB", seed=seed), algorithm="direct")
    rows, ranks = plan.schedule, cluster.num_ranks
    src, dst = rows.src.values, rows.dst.values
    inside = src // 8 == dst // 8
    paths = np.stack([src, 2 * ranks + src, 3 * ranks + dst, ranks + dst], axis=1)
    keep = np.ones((len(src), 4), np.bool_)
    keep[inside, 1:3] = False
    path = Ragged.from_counts(keep.sum(axis=1), paths[keep].astype(np.int32))
    return _with_path(rows, path), cluster


def staged(servers: int, num_stages: int, seed: int) -> tuple[Schedule, Cluster]:
    """One-to-one stages over the NICs, each followed by redistribution inside the receiving servers."""
    cluster = il.cluster("h200", servers=servers)
    rng = np.random.default_rng(seed)
    ranks, width = cluster.num_ranks, cluster.gpus_per_server
    batches, first = [], 0
    rank = np.arange(ranks, dtype=np.int32)
    peer = np.array([[gpu for gpu in range(width) if gpu != own] for own in range(width)], np.int32)
    for stage in range(num_stages):
        shift = 1 + stage % (servers - 1)
        to = (rank + shift * width) % ranks
        size = np.repeat(rng.integers(1_000_000, 4_000_000, servers), width)
        wire = _batch(rank, to, size, Phase.SCALE_OUT, stage, order=np.full(ranks, stage, np.int64))
        by = np.argsort(to, kind="stable").astype(np.int32)  # the message each rank receives
        sender = np.repeat(rank, width - 1)
        to_peer = (sender // width * width + peer[sender % width, np.tile(np.arange(width - 1), ranks)]).astype(
            np.int32
        )
        deps = Ragged.single((first + by[sender]).astype(np.int32))
        spread = _batch(sender, to_peer, size[by[sender]] // width, Phase.REDISTRIBUTE, stage, deps=deps)
        batches += [wire, spread]
        first += len(wire) + len(spread)
    return assemble(batches), cluster


def torus_collective(side: int, num_rounds: int) -> tuple[Schedule, Topology]:
    """Rings along both axes of a torus, pipelined: each link passes one chunk after the other, alone."""
    topology = il.topology.torus(side, side, bandwidth="50 GB/s", message_overhead="0.5 us", latency="0.1 us")
    links = topology.num_links
    src, dst = topology.link_src, topology.link_dst
    # Round k on a link needs what arrived in round k - 1 at its sender on the link with the same direction.
    step = (dst.astype(np.int64) - src) % (side * side)
    before_key = {(int(d), int(s)): link for link, (d, s) in enumerate(zip(dst, step, strict=True))}
    before = np.array([before_key.get((int(s), int(t)), -1) for s, t in zip(src, step, strict=True)])
    before = np.where(before >= 0, before, np.arange(links))
    batches = []
    for turn in range(num_rounds):
        deps = None if turn == 0 else Ragged.single((before + (turn - 1) * links).astype(np.int32))
        path = Ragged.single(np.arange(links, dtype=np.int32))
        sizes = np.full(links, 65_536 + 64 * (turn % 7), np.int64)
        batches.append(_batch(src, dst, sizes, Phase.SPREAD, turn, np.full(links, turn, np.int64), deps, path))
    return assemble(batches), topology


def _batch(
    src: np.ndarray,
    dst: np.ndarray,
    size: np.ndarray,
    phase: Phase,
    stage: int,
    order: np.ndarray | None = None,
    deps: Ragged | None = None,
    path: Ragged | None = None,
) -> Batch:
    pieces = make_pieces(np.zeros(len(src) + 1), [])
    return Batch(
        src, dst, pieces, phase, stage=stage, size_bytes=size.astype(np.int64), order=order, deps=deps, path=path
    )


def _with_path(rows: Schedule, path: Ragged) -> Schedule:
    from dataclasses import replace

    return replace(rows, path=path)


def cpu_time(call: Callable[[], object], repeats: int) -> dict[str, float]:
    """Median, least and most CPU seconds of `repeats` calls, after one that does not count."""
    call()
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return {"median_s": statistics.median(seconds), "least_s": min(seconds), "most_s": max(seconds), "repeats": repeats}


def main() -> None:
    """Print and store the table."""
    options = arguments(__doc__ or "", quick=False)
    rows: list[dict[str, object]] = []

    def measure(
        name: str, made: tuple[Schedule, Cluster | Topology], limit_s: float | None, tolerance: float | None
    ) -> float:
        schedule, where = made
        repeats = options.repeats if schedule.num_messages < 50_000 else min(options.repeats, 3)
        times = cpu_time(lambda: simulate(schedule, where, tolerance=tolerance), repeats)
        result = simulate(schedule, where, tolerance=tolerance)
        row = {"instance": name, "messages": schedule.num_messages, "tolerance": tolerance or 0.0, **times}
        row |= {"limit_s": limit_s or "", "makespan_s": result.makespan_s, "events": result.num_events}
        rows.append(row)
        print(f"{name}: {times['median_s']:.4g} s", flush=True)
        return times["median_s"]

    exact = {n: EXACT_LIMIT_S[n] for n in ((32, 64) if options.quick else EXACT_LIMIT_S)}
    tolerant = {n: TOLERANT_LIMIT_S[n] for n in ((128,) if options.quick else TOLERANT_LIMIT_S)}
    exact_s = [measure(f"burst {n}", burst(n, options.seed), limit, None) for n, limit in exact.items()]
    tolerant_s = [measure(f"burst {n}", burst(n, options.seed), limit, TOLERANCE) for n, limit in tolerant.items()]
    measure("direct 8x8, four links", four_links_per_flow(options.seed), None, None)
    measure("staged 40x8", staged(40, 20 if options.quick else 120, options.seed), STAGED_LIMIT_S, None)
    measure("torus, pipelined rings", torus_collective(16, 100 if options.quick else 977), TORUS_LIMIT_S, None)
    facts = {"exponent over flows, exact": fitted_exponent([n * (n - 1) for n in exact], exact_s)}
    if len(tolerant) > 1:
        facts["exponent over flows, tolerant"] = fitted_exponent([n * (n - 1) for n in tolerant], tolerant_s)
    report("simulator", rows, options, **facts)


if __name__ == "__main__":
    main()
