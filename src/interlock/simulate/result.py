"""What a simulation found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.errors import InvalidInput
from interlock.schedule import Schedule
from interlock.simulate.network import FlowArrays
from interlock.topology import Topology

__all__ = ["Result"]


@dataclass(frozen=True, eq=False)
class Result:
    """Simulated times of a schedule; rows align with its messages.

    `start_s` is when a message has all it waited for and its stage is open, `sent_s` when its last byte is on the
    wire, `finish_s` when its last byte is there.
    """

    makespan_s: float
    start_s: NDArray[np.float64]  # [num_messages]
    sent_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]
    peak_fan_in: NDArray[np.int32]  # [num_links]: most senders at once at each receiving port, 0 elsewhere
    tolerance: float | None
    size_error: float  # times are exact for messages larger by at most this part; 0 in exact mode
    num_events: int
    schedule: Schedule
    topology: Topology
    arrays: FlowArrays
    wait: NDArray[np.uint8]  # what each message waited for last; see `interlock.simulate.critical`
    waited_for: NDArray[np.int32]  # the message it waited for last, -1 where for none
    bottleneck: NDArray[np.int32]  # channel that held it back when it ended, -1 where none did

    @property
    def error_bound_s(self) -> float:
        """How far off `makespan_s` may be because departures close together were handled as one."""
        return self.makespan_s * self.size_error

    @cached_property
    def link_bytes(self) -> NDArray[np.int64]:
        """Bytes each link carried, ``[num_links]``."""
        path = self.arrays.path
        sizes = np.repeat(self.schedule.size_bytes, path.counts)
        carried = np.zeros(self.topology.num_links, np.int64)
        np.add.at(carried, path.values, sizes)
        carried.flags.writeable = False
        return carried

    def utilisation(self, num_bins: int = 200) -> NDArray[np.float64]:
        """Part of each link's capacity in use in each equal span of the makespan, ``[num_links, num_bins]``."""
        if num_bins < 1:
            raise InvalidInput(f"num_bins={num_bins} must be at least 1")
        share = _core.channel_utilisation(*self.arrays.arguments, self.tolerance or 0.0, num_bins, self.makespan_s)
        return np.asarray(share)[self.arrays.channel_by_link]
