"""One rank's share of a schedule in terms of buffers: what to copy, send, receive and add, and what waits for what.

Three buffers: the caller's input and output, and scratch that the runtime owns. Bytes are sent and received in place
where they lie in one run; otherwise they are packed into or landed in scratch. Nothing here touches a network.
`interlock.runtime.lowering` makes programs; `interlock.runtime.flow` and `interlock.runtime.rounds` run them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

__all__ = ["Arrival", "Buffer", "Copy", "Program", "Receive", "Send"]


class Buffer(IntEnum):
    """Where bytes lie."""

    INPUT = 0
    OUTPUT = 1
    SCRATCH = 2


# (from buffer, start, to buffer, start, length): plain tuples, because thousands are executed per call.
Copy = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Send:
    """Bytes for `peer`, at `start` of `buffer` once `packing` is done."""

    message: int  # row of the schedule
    peer: int
    size_bytes: int
    buffer: int
    start: int
    phase: int
    packing: tuple[Copy, ...]
    parts: tuple[tuple[int, int, int], ...]  # (tag, start, length): what is sent at a time


@dataclass(frozen=True, slots=True)
class Receive:
    """Bytes from `peer`, landing at `start` of `buffer`, then copied or added where they belong."""

    message: int
    peer: int
    size_bytes: int
    buffer: int
    start: int
    phase: int
    unpacking: tuple[Copy, ...]
    adds: bool


@dataclass(frozen=True, slots=True)
class Arrival:
    """A part of a receive, posted and waited for on its own; most receives have one."""

    place: int  # of the receive
    tag: int  # place among all parts from its peer
    start: int
    length: int
    is_last: bool


@dataclass(frozen=True, slots=True)
class Program:
    """Steps of one rank: sends are steps 0 to len(sends) - 1, receives follow, then one step per barrier.

    Step s may run once `waits[s]` other steps (and for a receive its arrival) are done; it then counts for the steps
    `releases[s]`.
    """

    rank: int
    sends: tuple[Send, ...]
    receives: tuple[Receive, ...]
    waits: tuple[int, ...]
    releases: tuple[tuple[int, ...], ...]
    first: tuple[int, ...]  # steps that wait for nothing, most urgent first
    later: tuple[int, ...]  # sends that wait for nothing and nothing waits for: they fill gaps
    arrivals: tuple[Arrival, ...]
    queues: tuple[tuple[int, ...], ...]  # arrivals that are let in a few at a time, each queue in its order
    shares: tuple[float, ...]  # of the window, by queue
    awaited: tuple[tuple[int, ...], ...]  # by peer, arrivals that are in a queue or that something waits for
    rest: tuple[int, ...]  # the other arrivals
    rates: dict[int, float]  # bytes per second to each rank that is sent to at a rate
    start_copies: tuple[Copy, ...]  # accumulators that begin with the rank's own contribution
    start_zeros: tuple[tuple[int, int, int], ...]  # accumulators that begin empty: buffer, start, length
    own_copies: tuple[Copy, ...]  # bytes that stay at this rank
    input_bytes: int
    output_bytes: int
    scratch_bytes: int
