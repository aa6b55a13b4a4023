"""What every rank's NIC sends and receives under a schedule, and whether its partners take turns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.schedule.model import Schedule
from interlock.topology import Cluster

__all__ = ["PortLoads"]


@dataclass(frozen=True, slots=True, eq=False)
class PortLoads:
    """Bytes between servers by rank; `take_turns` where the schedule lets partners of a NIC go one after the other.

    `most_partners` of a NIC, where whoever made the plan has not weighed itself how many the fabric bears.
    """

    out_bytes: NDArray[np.int64]  # [ranks]
    in_bytes: NDArray[np.int64]
    take_turns: bool
    most_partners: int | None = None

    @classmethod
    def of(cls, schedule: Schedule, cluster: Cluster) -> PortLoads:
        """Of the one-to-one messages of a schedule."""
        single = np.flatnonzero((schedule.src.counts == 1) & (schedule.dst.counts == 1))
        src, dst = (ends.take(single).values for ends in (schedule.src, schedule.dst))
        crosses = cluster.server_of(src) != cluster.server_of(dst)
        crossing, src, dst = single[crosses], src[crosses], dst[crosses]
        loads = [np.zeros(cluster.num_ranks, np.int64) for _ in range(2)]
        for load, end in zip(loads, (src, dst), strict=True):
            np.add.at(load, end, schedule.size_bytes[crossing])
        pairs = np.unique(np.stack([src, dst]), axis=1)
        most_partners = max(int(np.bincount(end, minlength=1).max()) for end in pairs)
        return cls(loads[0], loads[1], _take_turns(schedule, crossing, src, dst), most_partners)

    def must_take_turns(self, fan_in: int | None) -> bool:
        """Whether partners go one after the other on a fabric that bears `fan_in` senders (None: any number).

        Fewer share the NIC: a share waits for nobody, a turn for whoever comes before it.
        """
        bears_all = fan_in is not None and self.most_partners is not None and self.most_partners <= fan_in
        return self.take_turns and not bears_all


def _take_turns(
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
