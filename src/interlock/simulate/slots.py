"""How long a slot table takes, without writing out its messages."""

from __future__ import annotations

import numpy as np

from interlock._native import _core
from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.schedule import SlotSchedule

__all__ = ["slot_makespan_s"]


def slot_makespan_s(schedule: SlotSchedule, problem: Problem) -> float:
    """When the last chunk arrives if every link sends as soon as it can.

    Slots are as long as the longest chunk takes, latency and the start of a stage included: exact where chunks are
    equal and neither costs time, and at most a little too long elsewhere.
    """
    topology = problem.topology
    for column in (topology.bandwidth_bytes_per_s, topology.latency_s, topology.message_overhead_s):
        if np.ptp(column):
            raise InvalidInput(f"{topology.name} has unequal links; a slot table takes equal ones")
    longest_bytes = int(schedule.chunks.length.max(initial=0))
    slot_s = float(topology.message_overhead_s[0] + longest_bytes / topology.bandwidth_bytes_per_s[0])
    slots = _core.replay_slots(
        schedule.table, schedule.link_src, schedule.link_dst, problem.num_ranks, len(schedule.chunks)
    )
    return int(slots) * (slot_s + float(topology.latency_s[0]) + topology.stage_overhead_s)
