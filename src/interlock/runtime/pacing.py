"""How fast a rank sends to each other one, so that no NIC is sent more than it takes."""

from __future__ import annotations

import numpy as np

from interlock.schedule import PortLoads, Program
from interlock.topology import Cluster

__all__ = ["may_pace", "sending_rates"]

FULL = 0.97  # of a NIC's rate for payload: acknowledgements of what goes the other way need the rest
LEAST = 0.05  # of a NIC's rate for a partner: gloo's notices share the connection, and little is soon over


def may_pace(cluster: Cluster | None) -> bool:
    """Whether rates are worth setting: many senders hurt each other, and all ranks can be connected."""
    if cluster is None or cluster.servers == 1 or cluster.fabric.fan_in is None:
        return False
    return bool((cluster.nic_bandwidth_bytes_per_s[cluster.present] > 0).all())


def sending_rates(program: Program, cluster: Cluster, loads: PortLoads) -> dict[int, float]:
    """Bytes per second for each partner of a rank on other servers.

    If partners of a NIC are served together, each gets what it needs to be done when the busier of the two ends is; no
    NIC is then sent more than it takes. Where they must go one after the other, each gets all.
    """
    peer, rank = program.columns["send_peer"], program.rank
    crosses = cluster.server_of(peer) != rank // cluster.gpus_per_server
    moved = np.bincount(peer[crosses], program.columns["send_bytes"][crosses], cluster.num_ranks)
    nic = cluster.nic_bandwidth_bytes_per_s
    partners = np.flatnonzero(moved)
    rates = most = np.minimum(nic[rank], nic[partners])
    if not loads.must_take_turns(cluster.fabric.fan_in):
        busy_s = np.maximum(loads.out_bytes[rank] / nic[rank], loads.in_bytes[partners] / nic[partners])
        rates = np.clip(moved[partners] / busy_s, LEAST * most, most)
    return dict(zip(partners.tolist(), (FULL * rates).tolist(), strict=True))
