"""How fast a rank sends to each other one, so that no NIC is sent more than it takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.schedule import Schedule
from interlock.topology import Cluster

__all__ = ["may_pace", "sending_rates"]

FULL = 0.97  # of a NIC's rate for payload: acknowledgements of what goes the other way need the rest
LEAST = 0.05  # of a NIC's rate for a partner: gloo's notices share the connection, and little is soon over


def may_pace(cluster: Cluster | None) -> bool:
    """Whether rates are worth setting: many senders hurt each other, and all ranks can be connected."""
    if cluster is None or cluster.servers == 1 or cluster.fabric.fan_in is None:
        return False
    return bool((cluster.nic_bandwidth_bytes_per_s[cluster.present] > 0).all())


def sending_rates(schedule: Schedule, cluster: Cluster, rank: int) -> dict[int, float]:
    """Bytes per second for each partner of a rank on other servers.

    If partners of a NIC are served together, each gets what it needs to be done when the busier of the two ends is; no
    NIC is then sent more than it takes. Where the schedule itself lets them go one after the other, each gets all.
    """
    single = np.flatnonzero((schedule.src.counts == 1) & (schedule.dst.counts == 1))
    src, dst = (ends.take(single).values for ends in (schedule.src, schedule.dst))
    crosses = cluster.server_of(src) != cluster.server_of(dst)
    moved = np.zeros((cluster.num_ranks, cluster.num_ranks))
    np.add.at(moved, (src[crosses], dst[crosses]), schedule.size_bytes[single[crosses]])
    nic = cluster.nic_bandwidth_bytes_per_s
    partners = np.flatnonzero(moved[rank])
    most = np.minimum(nic[rank], nic[partners])
    rates = most
    if not _takes_turns(schedule, single[crosses], src[crosses], dst[crosses]):
        out_s, in_s = moved[rank].sum() / nic[rank], moved[:, partners].sum(axis=0) / nic[partners]
        rates = np.clip(moved[rank, partners] / np.maximum(out_s, in_s), LEAST * most, most)
    return dict(zip(partners.tolist(), (FULL * rates).tolist(), strict=True))


def _takes_turns(
    schedule: Schedule, crossing: NDArray[np.int64], src: NDArray[np.int32], dst: NDArray[np.int32]
) -> bool:
    """Whether messages between servers wait for those of another pair that share an end with them."""
    if schedule.exclusive[crossing].any():
        return True
    ends = np.full((2, schedule.num_messages), -1, np.int64)
    ends[0, crossing], ends[1, crossing] = src, dst
    earlier, later = ends[:, schedule.deps.values], ends[:, schedule.deps.row_of_value]
    both_cross = (earlier[0] >= 0) & (later[0] >= 0)
    return bool((both_cross & ((earlier == later).sum(axis=0) == 1)).any())
