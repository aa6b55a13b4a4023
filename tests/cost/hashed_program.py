"""The exact fluid optimum of an All-to-Allv on a cluster whose leaves hash flows, as a linear program.

Every pair of ranks has the simulator's own links, uplinks included, for each of its flows. Bytes may be split over all
of them and relayed by any rank.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_diag, csr_array, hstack

from interlock.ragged import Ragged
from interlock.topology import Cluster, receiving_ports
from interlock.topology.uplinks import hashed_uplinks


def hashed_optimum_s(cluster: Cluster, owed: np.ndarray) -> float:
    """Least seconds for the bytes that ranks owe ranks."""
    src, dst, path, rate = _flows(cluster)
    ranks, flows = cluster.num_ranks, np.arange(len(src))
    ends = np.concatenate([dst, src]), np.concatenate([flows, flows])
    arrives = csr_array((np.repeat([1.0, -1.0], len(src)), ends), shape=(ranks, len(src)))
    load = csr_array((np.ones(len(path.values)), (path.values, path.row_of_value)), shape=(len(rate), len(src)))
    unit_bytes, unit_rate = owed.sum(), rate.max()
    takes_in = (owed - np.diag(owed.sum(axis=1))) / unit_bytes
    seconds = csr_array((ranks * ranks, 1))
    found = linprog(
        np.append(np.zeros(ranks * len(src)), 1.0),
        A_ub=hstack([*[load] * ranks, csr_array(-rate[:, None] / unit_rate)]),
        b_ub=np.zeros(len(rate)),
        A_eq=hstack([block_diag([arrives] * ranks), seconds]),
        b_eq=takes_in.reshape(-1),
        method="highs",
    )
    assert found.status == 0, found.message
    return float(found.x[-1] * unit_bytes / unit_rate)


def _flows(cluster: Cluster) -> tuple[np.ndarray, np.ndarray, Ragged, np.ndarray]:
    """Source, destination and links of every flow, and the rates of all links."""
    topology, width = cluster.topology, cluster.gpus_per_server
    src, dst = np.indices((cluster.num_ranks, cluster.num_ranks)).reshape(2, -1).astype(np.int32)
    alive = cluster.nic_bandwidth_bytes_per_s > 0
    works = (src // width == dst // width) | (alive[src] & alive[dst])
    works &= (src != dst) & cluster.present[src] & cluster.present[dst]
    src, dst = (np.repeat(end[works], cluster.fabric.ecmp_flows) for end in (src, dst))
    made = hashed_uplinks(topology.routes(src, dst), topology)
    rate = topology.bandwidth_bytes_per_s.copy()
    rate[receiving_ports(topology)] *= cluster.fabric.efficiency
    return src, dst, made.path, np.append(rate, made.capacity_bytes_per_s)
