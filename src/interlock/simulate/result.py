"""What a simulation found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.errors import InvalidInput
from interlock.html_text import facts_html
from interlock.problem import StepTasks
from interlock.ragged import Ragged
from interlock.schedule import Schedule, chrome_trace_lines
from interlock.simulate.explain import explain
from interlock.simulate.network import FlowArrays
from interlock.topology import Topology
from interlock.units import format_seconds

__all__ = ["CriticalMessage", "Result", "TaskTimes", "Wait", "critical_path"]


class Wait(IntEnum):
    """What a message waited for last; numbers as in the core."""

    NOTHING = 0
    DEPENDENCY = 1
    LINK_ORDER = 2
    BARRIER = 3


@dataclass(frozen=True, slots=True)
class CriticalMessage:
    """One message of the critical path; the steps' spans cover the makespan without gaps.

    It became free to go at `free_s` (the end of the step before), started at `start_s` (later where its rank had to
    open the stage first) and let the next step go at `end_s`: when it arrived, or when it left its links.
    """

    message: int
    reason: Wait
    free_s: float
    start_s: float
    sent_s: float
    end_s: float

    def __str__(self) -> str:
        reasons = {
            Wait.NOTHING: "starts the schedule",
            Wait.DEPENDENCY: "needs the message before",
            Wait.LINK_ORDER: "is next on a link",
            Wait.BARRIER: "stands behind a barrier",
        }
        return f"message {self.message} ({self.start_s:.6g} s to {self.end_s:.6g} s) {reasons[self.reason]}"


def critical_path(result: Result) -> tuple[CriticalMessage, ...]:
    """Walk back from the last arrival along what each message waited for last."""
    if not len(result.finish_s):
        return ()
    message = int(result.finish_s.argmax())
    end_s = float(result.finish_s[message])
    steps: list[CriticalMessage] = []
    while True:
        reason = Wait(int(result.wait[message]))
        before = int(result.waited_for[message])
        free_s = 0.0
        if before >= 0:
            freed = result.sent_s if reason is Wait.LINK_ORDER else result.finish_s
            free_s = float(freed[before])
        start_s, sent_s = float(result.start_s[message]), float(result.sent_s[message])
        steps.append(CriticalMessage(message, reason, free_s, start_s, sent_s, end_s))
        if before < 0:
            return tuple(reversed(steps))
        message, end_s = before, free_s


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """When the first message or computation of a task starts, and when the last has ended."""

    start_s: float
    finish_s: float


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
    idle_share: float  # largest part of its capacity a link lost to the tolerance; 0 in exact mode
    num_events: int
    schedule: Schedule
    topology: Topology
    path: Ragged  # links of every message
    arrays: FlowArrays
    wait: NDArray[np.uint8]  # what each message waited for last: interlock.simulate.result.Wait
    waited_for: NDArray[np.int32]  # the message it waited for last, -1 where for none
    bottleneck: NDArray[np.int32]  # channel that held it back when it ended, -1 where none did
    step: StepTasks | None = None

    @property
    def error_bound_s(self) -> float:
        """What links slower by the tolerance add to `makespan_s`, as long as messages keep their order.

        What departed messages used may lie idle until it adds up to three quarters of the tolerance on some link, and
        rates are fair to within the last quarter: the times are those of links slower by at most that much. Where many
        messages wait for each other and tie, such links may change who goes first, and the makespan by more.
        """
        return 0.0 if self.tolerance is None else self.makespan_s * self.tolerance

    @cached_property
    def tasks(self) -> Mapping[str, TaskTimes]:
        """When each task of a step starts and has ended, by name; empty where it is no step."""
        if self.step is None or self.schedule.tasks is None:
            return {}
        task = self.schedule.tasks.task
        start_s, finish_s = np.full(len(self.step.tasks), np.inf), np.zeros(len(self.step.tasks))
        rows = np.flatnonzero(task >= 0)
        np.minimum.at(start_s, task[rows], self.start_s[rows])
        np.maximum.at(finish_s, task[rows], self.finish_s[rows])
        start_s = np.where(np.isfinite(start_s), start_s, 0.0)  # nothing to move
        times = zip(self.step.tasks, start_s.tolist(), finish_s.tolist(), strict=True)
        return {each.name: TaskTimes(start, finish) for each, start, finish in times}

    @cached_property
    def link_bytes(self) -> NDArray[np.int64]:
        """Bytes each link carried, ``[num_links]``."""
        carried = np.zeros(self.topology.num_links, np.int64)
        np.add.at(carried, self.path.values, np.repeat(self.schedule.size_bytes, self.path.counts))
        carried.flags.writeable = False
        return carried

    def utilisation(self, num_bins: int = 200) -> NDArray[np.float64]:
        """Part of each link's capacity in use in each equal span of the makespan, ``[num_links, num_bins]``."""
        if num_bins < 1:
            raise InvalidInput(f"num_bins={num_bins} must be at least 1")
        share = _core.channel_utilisation(*self.arrays.arguments, self.tolerance or 0.0, num_bins, self.makespan_s)
        return np.asarray(share)[self.arrays.channel_by_link]

    def critical_path(self) -> tuple[CriticalMessage, ...]:
        """The messages that decide the makespan, first to last, each with what it waited for."""
        return self._critical_path

    @cached_property
    def _critical_path(self) -> tuple[CriticalMessage, ...]:
        return critical_path(self)

    def explanation(self) -> str:
        """Why it takes this long, in words."""
        return explain(self)

    def to_chrome_trace(self) -> str:
        """The timeline as Chrome trace JSON, for Perfetto; times are simulated."""
        names = [] if self.step is None else [task.name for task in self.step.tasks]
        return "".join(chrome_trace_lines(self.schedule, self.topology.num_ranks, self.start_s, self.finish_s, names))

    def _repr_html_(self) -> str:
        facts = {"simulated time": format_seconds(self.makespan_s), "messages": str(len(self.start_s))}
        return facts_html("Simulation", facts | {"why": self.explanation()})

    def __repr__(self) -> str:
        mode = "exact" if self.tolerance is None else f"tolerance {self.tolerance:g}"
        return f"Result({format_seconds(self.makespan_s)} simulated, {len(self.start_s)} messages, {mode})"
