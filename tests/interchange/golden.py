"""Small exports, reviewed by eye once and compared byte by byte since.

After a change that is meant, rewrite them with ``python tests/interchange/golden.py`` and review the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import interlock as il
from interlock.planning import Plan

FOLDER = Path(__file__).parent.parent / "golden"


def exports() -> Iterator[tuple[str, str, Plan, dict[str, object]]]:
    """Name of the file or folder, format, plan and options; nothing here depends on presets or on the simulator."""
    cluster = il.Cluster("golden", servers=2, gpus_per_server=2)
    matrix = np.array([[1, 3, 2, 2], [3, 1, 2, 2], [2, 2, 1, 3], [2, 1, 3, 1]], np.int64) * 4096
    relay = il.plan(cluster, il.traffic.matrix(matrix), "pxn")
    yield "alltoallv.msccl.xml", "msccl-xml", relay, {}
    yield "alltoallv.mscclpp.json", "mscclpp-json", relay, {}
    yield "alltoallv.chakra", "chakra", relay, {}
    yield "alltoallv.cm", "htsim", relay, {}
    yield "alltoallv.matrix.txt", "nccl-tests", relay, {}
    start_s = np.arange(relay.schedule.num_messages) % 3 * 1e-5
    yield "alltoallv.trace.json", "chrome-trace", relay, {"start_s": start_s, "finish_s": start_s + 1.5e-5}
    ring = il.topology.ring(3, bandwidth="50 GB/s", latency="1 us", message_overhead="0.5 us")
    yield "allgather.tacos.csv", "tacos-csv", il.synthesize(ring, il.all_gather("12 kB"), "direct"), {}
    yield "allreduce.msccl.xml", "msccl-xml", il.synthesize(ring, il.all_reduce("12 kB"), "direct"), {}
    scatter = il.synthesize(ring, il.reduce_scatter("12 kB"), "direct")
    for flavor in ("rccl", "azure", "msccl"):
        yield f"reducescatter.{flavor}.msccl.xml", "msccl-xml", scatter, {"flavor": flavor}
    yield "allreduce.mscclpp.json", "mscclpp-json", il.synthesize(ring, il.all_reduce("12288 B"), "direct"), {}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, format_name, plan, options in exports():
        plan.export(format_name, FOLDER / name, **options)


if __name__ == "__main__":
    main()
