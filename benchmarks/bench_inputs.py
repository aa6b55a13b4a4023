"""How long does it take to describe a problem: graphs, routes, demand, items?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import interlock as il
from common import arguments, report, timed
from interlock.problem import collective_problem, demand_problem

LINK = {"bandwidth": "50 GB/s", "message_overhead": "0.5 us"}


def cases() -> dict[str, Callable[[], object]]:
    shapes = il.topology
    torus, mesh, clos = shapes.torus(8, 8, 8, **LINK), shapes.mesh(200, 200, **LINK), shapes.clos(16, 32, 16, **LINK)
    pairs = [axis.ravel() for axis in np.indices((512, 512), dtype=np.int32)]
    cluster = il.cluster("h200", servers=64)
    random = il.traffic.random(cluster)
    return {
        "torus 8x8x8": lambda: shapes.torus(8, 8, 8, **LINK),
        "mesh 96x96": lambda: shapes.mesh(96, 96, **LINK),
        "mesh 200x200": lambda: shapes.mesh(200, 200, **LINK),
        "fully connected 512": lambda: shapes.fully_connected(512, **LINK),
        "cluster 64x8 to graph": lambda: il.cluster("h200", servers=64).topology,
        "routes of every link, mesh 200x200": lambda: mesh.routes(mesh.link_src, mesh.link_dst),
        "routes of all pairs, Clos of 512": lambda: clos.routes(*pairs),
        "routes of all pairs, cluster 64x8": lambda: cluster.topology.routes(*pairs),
        "demand random, 512": lambda: il.traffic.random(cluster),
        "demand zipf, 512": lambda: il.traffic.zipf(cluster),
        "demand moe, 512": lambda: il.traffic.moe(cluster),
        "demand moe decode, 512": lambda: il.traffic.moe(cluster, tokens=128),
        "items of a demand, 512": lambda: demand_problem(cluster, random),
        "items of an All-to-All, 512": lambda: collective_problem(torus, il.all_to_all("1 GiB")),
        "items of an All-Gather, 40,000": lambda: collective_problem(mesh, il.all_gather("1 GiB")),
    }


def main() -> None:
    options = arguments(__doc__ or "")
    rows = []
    for name, call in cases().items():
        took = timed(call, options.repeats)
        rows.append(
            {"case": name} | {key.replace("_s", "_ms"): 1e3 * took[key] for key in ("median_s", "least_s", "most_s")}
        )
    report("inputs", rows, options)


if __name__ == "__main__":
    main()
