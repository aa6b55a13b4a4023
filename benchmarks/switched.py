"""Random switched fabrics: Clos of two and three levels, fat trees with slow hosts, dragonfly+."""

from __future__ import annotations

import numpy as np

import interlock as il

__all__ = ["switched_fabric"]


def switched_fabric(seed: int) -> tuple[str, il.Topology]:
    """A fabric of 8 to 32 ranks, and its family."""
    rng = np.random.default_rng(seed)
    family = ("clos", "three-level", "slow-host", "dragonfly+")[seed % 4]
    leaves, hosts, spines = int(rng.integers(2, 5)), int(rng.choice([4, 8])), int(rng.choice([2, 4]))
    costs = {"latency": "0.5 us", "message_overhead": "0.5 us"}
    if family == "clos":
        return family, il.topology.clos(leaves, hosts, spines, bandwidth="50 GB/s", **costs)
    pods = 2 if family != "dragonfly+" else int(rng.integers(2, 5))
    ranks = pods * 2 * (hosts // 2)
    edges: list[tuple[int, int, float]] = []
    node = ranks
    rate = np.full(ranks, 50e9)
    if family == "slow-host":
        rate[rng.integers(ranks)] = 25e9
    tops = []
    for pod in range(pods):
        low, high = [node, node + 1], [node + 2, node + 3]
        node += 4
        tops.append(high)
        for number, leaf in enumerate(low):
            for host in range(hosts // 2):
                rank = (pod * 2 + number) * (hosts // 2) + host
                edges.append((rank, leaf, float(rate[rank])))
            edges += [(leaf, top, 50e9 * hosts / 4) for top in high]
    if family == "dragonfly+":
        for one in range(pods):
            for other in range(one + 1, pods):
                each = 50e9 * hosts / (pods - 1) / 2
                edges += [(a, b, each) for a, b in zip(tops[one], tops[other], strict=True)]
    else:
        core = [node, node + 1]
        edges += [(top, core[number], 50e9 * hosts / 2) for high in tops for number, top in enumerate(high)]
    src, dst, speed = (np.array(column) for column in zip(*edges, strict=True))
    return family, il.topology.from_edges(
        np.concatenate([src, dst]), np.concatenate([dst, src]), np.tile(speed, 2), num_ranks=ranks, **costs
    )
