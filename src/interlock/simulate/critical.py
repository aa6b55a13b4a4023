"""The chain of messages that decides the makespan."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.simulate.result import Result

__all__ = ["CriticalMessage", "Wait", "critical_path"]


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
