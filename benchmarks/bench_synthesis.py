"""How fast is synthesis, and how good is what it makes?

1 GiB, links of 50 GiB/s (2^30) with 0.5 us of message overhead unless said otherwise. Synthesis, validation and
simulation are timed apart; every row is validated. CPU seconds decide, which other work on the machine hardly changes.
`--growth` fits how synthesis time grows with the number of ranks on meshes taken for general graphs, `--large` adds the
96 x 96 mesh to them, and `--width W` takes one of them by itself.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import interlock as il
from common import arguments, fitted_exponent, report
from interlock.collectives import Collective

GIB = 2**30
LINK = {"bandwidth": 50 * GIB, "message_overhead": "0.5 us"}
OVERHEAD = "0.5 us"


@dataclass(frozen=True)
class Case:
    """One row: where, what, public TACOS on such a machine, and what we set out to reach."""

    name: str
    topology: il.Topology
    collective: Collective
    chunks: int | None
    theirs: str
    most_s: float | None = None
    most_us: float | None = None
    most_slots: int | None = None
    most_ratio: float | None = None  # of the bound


def cases() -> Iterator[Case]:
    """The table of the issue."""
    mesh, torus, gather = il.topology.mesh, il.topology.torus, il.all_gather("1 GiB")
    reduce_all = il.all_reduce("1 GiB")
    yield Case("AG mesh 32x32", mesh(32, 32, **LINK), gather, 1, "55.1 s, 512 slots", 0.1, 10257, 512)
    yield Case("AG torus 8x8x8", torus(8, 8, 8, **LINK), gather, 1, "3.07 s, 86 slots", 0.02, 3403, 86)
    for width, slots, theirs in ((8, 16, 17), (12, 36, 37), (16, 64, 65), (32, 256, 258)):
        name = f"AG torus {width}x{width}"
        yield Case(name, torus(width, width, **LINK), gather, 1, f"{theirs} slots", most_slots=slots)
        plain = without_symmetry(torus(width, width, **LINK))
        yield Case(f"{name}, general", plain, gather, 1, f"{theirs} slots", most_slots=slots + 1)
    unequal = mesh(16, 16, bandwidth=(200 * GIB, 50 * GIB), message_overhead=OVERHEAD)
    yield Case("AG mesh 16x16, 200/50", unequal, gather, None, "8.5 s", 0.1)
    unequal = torus(4, 4, 4, bandwidth=(200 * GIB, 100 * GIB, 50 * GIB), message_overhead=OVERHEAD)
    yield Case("AG torus 4x4x4, 200/100/50", unequal, gather, None, "1514 us valid", most_us=1475)
    yield Case("AG rails 4x8", rails(4, 8), gather, None, "5699 us", most_us=4200)
    yield Case("AG rails 4x8, general", without_symmetry(rails(4, 8)), gather, None, "5699 us", most_us=4200)
    yield Case("AG 3D-RFS 2x4x8", rfs(2, 4, 8), gather, None, "4431 us valid", most_us=3500)
    yield Case("AR mesh 8x8", mesh(8, 8, **LINK), reduce_all, None, "20032 us", most_us=12000)
    yield Case("AR mesh 16x16", mesh(16, 16, **LINK), reduce_all, None, "20128 us", most_us=11600)
    yield Case("AR 3D-RFS 4x4x8", rfs(4, 4, 8), reduce_all, None, "1.08 s (paper)", 0.1, most_ratio=1.25)
    exchange = il.all_to_all("1 GiB")
    yield Case("A2A torus 8x8x8", torus(8, 8, 8, **LINK), exchange, None, "11.68 min (PCCL)", 1.0, most_ratio=1.02)
    broken = without_link(torus(8, 8, 8, **LINK), 0)
    yield Case("A2A torus 8x8x8 less a link", broken, exchange, None, "-", 10.0, most_ratio=1.15)
    yield Case("AG mesh 8x8, 1 MiB", mesh(8, 8, **LINK), il.all_gather("1 MiB"), None, "25.8 us", most_us=17)


def rails(servers: int, gpus: int) -> il.Topology:
    """Fully connected servers, the k-th GPUs of all joined by a switch; NIC ports of 25 GiB/s."""
    inside = 450 * GIB / (gpus - 1)
    return il.topology.product(
        ("switch", servers), ("full", gpus), bandwidth=(25 * GIB, inside), message_overhead=OVERHEAD
    )


def rfs(ring: int, full: int, switch: int) -> il.Topology:
    """Ring x fully connected x switch; a rank has 200, 100 and 50 GiB/s in the three."""
    rates = (200 * GIB / min(2, ring - 1), 100 * GIB / (full - 1), 50 * GIB)
    return il.topology.rfs(ring, full, switch, bandwidth=rates, message_overhead=OVERHEAD)


def without_symmetry(topology: il.Topology) -> il.Topology:
    """The same graph, as if nobody knew that it is regular."""
    return without_link(topology, None)


def without_link(topology: il.Topology, link: int | None) -> il.Topology:
    """The graph without one link, and without what was known of its symmetry."""
    keep = np.arange(topology.num_links) != (-1 if link is None else link)
    return il.topology.from_edges(
        topology.link_src[keep],
        topology.link_dst[keep],
        topology.bandwidth_bytes_per_s[keep],
        topology.latency_s[keep],
        topology.message_overhead_s[keep],
        num_ranks=topology.num_ranks,
        name=topology.name,
    )


def measured(case: Case, seed: int, repeats: int) -> dict[str, object]:
    """Time the synthesis, then prove the result."""
    wall_s, cpu_s = [], []
    for _ in range(1 + (repeats if case.most_s is not None else 1)):
        wall, cpu = time.perf_counter(), time.process_time()
        plan = il.synthesize(case.topology, case.collective, "guided", chunks=case.chunks, seed=seed)
        wall_s.append(time.perf_counter() - wall)
        cpu_s.append(time.process_time() - cpu)
    start = time.perf_counter()
    valid = plan.report.valid
    checked = time.perf_counter()
    makespan_us = plan.simulate().makespan_s * 1e6
    simulated = time.perf_counter()
    least_cpu_s = min(cpu_s[1:])
    of_bound = makespan_us / (plan.bound.seconds * 1e6)
    met = case.most_s is None or least_cpu_s <= case.most_s
    met &= case.most_us is None or makespan_us <= case.most_us
    met &= case.most_slots is None or plan.num_stages <= case.most_slots
    met &= case.most_ratio is None or of_bound <= case.most_ratio
    return {
        "case": case.name,
        "TACOS": case.theirs,
        "cpu_s": least_cpu_s,
        "wall_s": statistics.median(wall_s[1:]),
        "wall_spread_s": max(wall_s[1:]) - min(wall_s[1:]),
        "most_s": case.most_s or "",
        "makespan_us": makespan_us,
        "most_us": case.most_us or "",
        "of bound": of_bound,
        "slots": plan.num_stages,
        "most_slots": case.most_slots or "",
        "valid": valid,
        "met": met,
        "check_s": checked - start,
        "simulate_s": simulated - checked,
    }


def general_mesh(width: int, seed: int, threads: int, table_file: Path | None) -> dict[str, object]:
    """An All-Gather on a mesh of which nothing is known, checked as a stream of slots."""
    topology = without_symmetry(il.topology.mesh(width, width, **LINK))
    wall, cpu = time.perf_counter(), time.process_time()
    plan = il.synthesize(
        topology, il.all_gather("1 GiB"), "guided", chunks=1, seed=seed, threads=threads, table_file=table_file
    )
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    start = time.perf_counter()
    valid = plan.report.valid
    return {
        "mesh": f"{width}x{width}",
        "ranks": width * width,
        "wall_s": wall,
        "cpu_s": cpu,
        "slots": plan.num_stages,
        "least slots": -(-(width * width - 1) // 2),
        "cpu ns per transfer": cpu / (width * width) ** 2 * 1e9,
        "peak_gib": peak_gib,
        "valid": valid,
        "check_s": time.perf_counter() - start,
    }


def main() -> None:
    """Run the table, the growth of general graphs, or one mesh by itself."""
    options = arguments(__doc__ or "", large=False, growth=False, width=0, threads=2, only="", table_file="")
    file = Path(options.table_file) if options.table_file else None
    if options.width:
        rows = [general_mesh(options.width, options.seed, options.threads, file)]
        report(f"synthesis_{options.width}", rows, options)
    elif options.growth or options.large:
        widths = [16, 24, 32, 48, 64, 96] if options.large else [16, 24, 32, 48, 64]
        general_mesh(4, options.seed, options.threads, None)  # imports do not count
        rows = [general_mesh(width, options.seed, options.threads, None) for width in widths]
        exponent = fitted_exponent(
            [float(str(row["ranks"])) for row in rows], [float(str(row["cpu_s"])) for row in rows]
        )
        report("synthesis_growth", rows, options, exponent=exponent)
    else:
        rows = [measured(case, options.seed, options.repeats) for case in cases() if options.only in case.name]
        report("synthesis", rows, options)


if __name__ == "__main__":
    main()
