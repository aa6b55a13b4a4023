"""How a rank's program meets connections: which parts are sent, what is let in when, who waits for what.

Everything here follows from the program's columns and from what is known of the fabric; both ends come to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.runtime.pacing import sending_rates
from interlock.schedule import Phase, PortLoads, Program
from interlock.topology import Cluster

__all__ = ["MessageParts", "Posting"]

PART_BYTES = 64 * 1024  # the most that is sent at a time between servers whose fabric bears few senders

ENDS = ("send", "receive")

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class MessageParts:
    """Messages cut into parts, as plain lists because they are read one by one; message m has those from `first[m]`."""

    first: list[int]  # [messages + 1]
    message: list[int]
    tag: list[int]  # place among all parts that go from sender to receiver
    start: list[int]
    length: list[int]

    @classmethod
    def of(cls, program: Program, end: str, num_parts: Ints) -> MessageParts:
        """Nearly equal parts of what the program sends or receives."""
        peer, start, size_bytes = (program.columns[f"{end}_{name}"] for name in ("peer", "start", "bytes"))
        first = np.concatenate([[0], np.cumsum(num_parts)])
        message = np.repeat(np.arange(len(peer)), num_parts)
        part = np.arange(len(message)) - first[message]
        begins, ends = (size_bytes[message] * (part + more) // num_parts[message] for more in (0, 1))
        tag = _first_tags(peer, num_parts)[message] + part
        return cls(*(column.tolist() for column in (first, message, tag, start[message] + begins, ends - begins)))

    def __len__(self) -> int:
        return len(self.message)


@dataclass(frozen=True, slots=True, eq=False)
class Posting:
    """A program ready to be run: its columns as lists, and its receives or parts of them (arrivals) in their order."""

    program: Program
    columns: Mapping[str, list[int]]
    sent: MessageParts
    arrivals: MessageParts
    first: list[int]  # steps that wait for nothing, most urgent first
    later: list[int]  # sends that wait for nothing and nothing waits for: they fill gaps
    queues: list[list[int]]  # arrivals that are let in a few at a time, each queue in its order
    window_shares: list[float]  # by queue
    awaited: list[list[int]]  # by peer, arrivals that are in a queue or that something waits for
    unawaited: list[int]  # the other arrivals
    rates: Mapping[int, float]  # bytes per second to each rank that is sent to at a rate

    @classmethod
    def of(
        cls, program: Program, cluster: Cluster | None, loads: Callable[[], PortLoads], *, is_paced: bool = False
    ) -> Posting:
        """`is_paced` where senders keep to rates, on every rank alike; `loads` is asked only where it matters."""
        columns = program.columns
        sent, arrivals = (MessageParts.of(program, end, _num_parts(program, end, cluster, is_paced)) for end in ENDS)
        crosses = _crosses_limited_fabric(cluster, program.rank, columns["receive_peer"])
        takes_turns = not is_paced or cluster is None or loads().must_take_turns(cluster.fabric.fan_in)
        queues, awaited, unawaited = _order(program, arrivals, crosses, is_paced=is_paced, takes_turns=takes_turns)
        first, later = _ready_steps(program)
        return cls(
            program=program,
            columns={name: column.tolist() for name, column in columns.items()},
            sent=sent,
            arrivals=arrivals,
            first=first,
            later=later,
            queues=queues,
            window_shares=_window_shares(arrivals, queues, None if cluster is None or not queues else loads()),
            awaited=awaited,
            unawaited=unawaited,
            rates=sending_rates(program, cluster, loads()) if is_paced and cluster is not None else {},
        )


def _num_parts(program: Program, end: str, cluster: Cluster | None, is_paced: bool) -> Ints:
    """How often each message is cut, so that no more than a window of bytes need be on the way."""
    peer, size_bytes = program.columns[f"{end}_peer"], program.columns[f"{end}_bytes"]
    is_cut = _crosses_limited_fabric(cluster, program.rank, peer) & (not is_paced)
    return np.where(is_cut, np.maximum(1, -(-size_bytes // PART_BYTES)), 1)


def _first_tags(peer: NDArray[np.int32], num_parts: Ints) -> Ints:
    """Number the parts with each peer; the first of each message. Both ends count alike, so they agree."""
    order = np.argsort(peer, kind="stable")
    ordered, parts = peer[order], num_parts[order]
    before = np.cumsum(parts) - parts
    tag = np.empty(len(peer), np.int64)
    tag[order] = before - before[np.searchsorted(ordered, ordered)] if len(peer) else before
    return tag


def _crosses_limited_fabric(cluster: Cluster | None, rank: int, peer: NDArray[np.int32]) -> Flags:
    """Messages between servers whose fabric bears few senders at a time."""
    if cluster is None or cluster.fabric.fan_in is None:
        return np.zeros(len(peer), np.bool_)
    return np.asarray(cluster.server_of(peer) != rank // cluster.gpus_per_server, np.bool_)


def _ready_steps(program: Program) -> tuple[list[int], list[int]]:
    """Steps that can run at once, the slow links first, and sends that can as well run later."""
    columns, num_sends = program.columns, program.num_sends
    is_ready, is_awaited = np.diff(columns["wait_offsets"]) == 0, np.diff(columns["release_offsets"]) > 0
    phase = columns["send_phase"]
    ready = np.flatnonzero(is_ready[:num_sends])
    has_time = (phase[ready] == Phase.LOCAL) & ~is_awaited[ready]
    urgent = ready[~has_time]
    urgent = urgent[np.argsort(phase[urgent] != Phase.SCALE_OUT, kind="stable")]
    barriers = np.flatnonzero(is_ready[num_sends + program.num_receives :]) + num_sends + program.num_receives
    return [*barriers.tolist(), *urgent.tolist()], ready[has_time].tolist()


def _order(
    program: Program, arrivals: MessageParts, crosses: Flags, *, is_paced: bool, takes_turns: bool
) -> tuple[list[list[int]], list[list[int]], list[int]]:
    """Queues of arrivals to be let in a few at a time, arrivals to wait for by peer, and the rest.

    Messages that should be let in one after the other stand in one queue. On a fabric that bears few senders, other
    messages between servers queue by peer, unless senders keep to rates: then all may come at once, as they may where
    the fabric bears all partners of a NIC. The order respects every dependency, so that whoever waits for the first of
    a queue waits for a message that can come.
    """
    columns, num_sends = program.columns, program.num_sends
    is_ordered = columns["receive_queued"] & takes_turns
    if is_ordered.any():
        is_ordered = is_ordered | crosses
    is_queued = is_ordered if is_paced else is_ordered | crosses
    releases = np.diff(columns["release_offsets"])[num_sends : num_sends + program.num_receives] > 0
    is_awaited = is_queued | crosses | releases
    peer = columns["receive_peer"]
    message = np.array(arrivals.message, np.int64)
    turn = np.argsort(columns["receive_place"][message], kind="stable")
    message = message[turn]
    return (
        _grouped(turn[is_queued[message]], np.where(is_ordered, -1, peer)[message[is_queued[message]]]),
        _grouped(turn[is_awaited[message]], peer[message[is_awaited[message]]]),
        turn[~is_awaited[message]].tolist(),
    )


def _grouped(values: Ints, key: Ints) -> list[list[int]]:
    """Values by key, in their order."""
    order = np.argsort(key, kind="stable")
    ends = np.flatnonzero(np.diff(key[order])) + 1
    return [part.tolist() for part in np.split(values[order], ends)] if len(values) else []


def _window_shares(arrivals: MessageParts, queues: list[list[int]], loads: PortLoads | None) -> list[float]:
    """What each queue brings, as a part of what the busiest rank sends or receives between servers.

    If all bytes flow in these proportions nobody is done early, and the busiest rank never waits for bytes that others
    could have had later.
    """
    if loads is None:
        return [1.0] * len(queues)
    busiest = max(1, int(loads.out_bytes.max(initial=0)), int(loads.in_bytes.max(initial=0)))
    return [min(1.0, sum(arrivals.length[number] for number in queue) / busiest) for queue in queues]
