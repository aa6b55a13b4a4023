"""Runs a rank's program over a process group whose receives can be waited for one by one (gloo).

Where ranks have connections of their own (`interlock.runtime.connections`), senders keep to the program's rates. All
receives that may come at any time are posted at once. Receives that the schedule paces are posted in its order, a few
at a time: gloo's senders wait for the receiver to be ready, so a posted receive is a grant, and no more bytes are on
the way to a NIC than the window lets in. One thread waits for each peer whose messages are paced or waited for; the
caller's thread waits for the rest.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, cast

from interlock.runtime.buffers import Combine, copy_own, pack, ranges, start, unpack
from interlock.runtime.peers import FIRST_TAG, MoveFailed, backend_errors, poison
from interlock.runtime.posting import Posting
from interlock.schedule import Buffer

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

    from interlock.runtime.connections import Connections
    from interlock.runtime.staging import Staging

__all__ = ["Flow"]

WINDOW_BYTES = 768 * 1024  # let in at a time by the busiest rank, of messages that queue; others less, in proportion
TURN_BYTES = 128 * 1024  # the same where senders keep to rates: whoever has its turn fills the NIC alone
POSTED_AHEAD = 8  # receives that nothing waits for: posting them all would delay what others wait for
MAX_THREADS = 4096


class Flow:
    """Executes programs over one process group, one at a time, with threads that are kept between calls.

    `peers` gives the group's rank of each rank of the plan.
    """

    def __init__(self, group: dist.ProcessGroup, peers: Sequence[int]) -> None:
        self._group, self._peers = group, list(peers)
        self._given, self._connections = group, cast("Connections | None", None)
        self.before_send: Callable[[int], None] | None = None  # told the phase of every message before it is sent
        self._pool = ThreadPoolExecutor(max_workers=MAX_THREADS, thread_name_prefix="interlock-peer")

    def use(self, connections: Connections) -> None:
        """Send over connections that can be held to rates from now on."""
        self._group, self._connections = connections.group, connections

    def run(
        self,
        posting: Posting,
        buffers: Sequence[torch.Tensor],
        timeout_s: float,
        combine: Combine | None = None,
        staging: Staging | None = None,
        await_own: Callable[[], object] | None = None,
    ) -> None:
        """Move the bytes; `buffers` are input, output and scratch as flat uint8 tensors.

        `combine` is how values join, needed where the program sums. `staging` fills the input and empties the output
        meanwhile, for programs that only copy. `await_own` waits for bytes that stay, where somebody else copies them.
        """
        start(posting.columns, buffers)
        if self._connections is not None:
            self._connections.pace({self._peers[rank]: rate for rank, rate in posting.rates.items()})
        call = _Call(self._group, self._peers, posting, buffers, combine, time.monotonic() + timeout_s)
        call.before_send, call.staging = self.before_send, staging
        waiting: list[Future[None]] = []
        failures: list[BaseException] = []
        try:
            gate = _Gate(call, WINDOW_BYTES if self._connections is None else TURN_BYTES)
            gate.post_unqueued()
            # Before anything is sent: what arrives meanwhile is passed on at once.
            waiting = [self._pool.submit(gate.wait_for_peer, place) for place in range(len(posting.awaited))]
            call.run_steps(posting.first)
            if not waiting:
                call.run_later(len(posting.later))
            call.receive_rest(await_own or call.copy_own)
        except Exception as error:
            failures.append(error)
            poison(self._group)  # so that nobody waits for long
        failures += [error for error in (each.exception() for each in waiting) if error is not None]
        if not failures:
            call.wait_for_sends()
            return
        # A mistake of our own comes before what it made peers do.
        failures.sort(key=lambda error: isinstance(error, MoveFailed))
        if isinstance(failures[0], MoveFailed):
            raise MoveFailed(str(failures[0]), call.missing()) from failures[0]
        raise failures[0]

    def close(self) -> None:
        """End the threads and let go of connections of our own."""
        self._group, self._connections = self._given, None
        self._pool.shutdown(wait=False)


class _Call:
    """State of one execution."""

    def __init__(
        self,
        group: dist.ProcessGroup,
        peers: Sequence[int],
        posting: Posting,
        buffers: Sequence[torch.Tensor],
        combine: Combine | None,
        deadline_s: float,
    ) -> None:
        self.group, self.peers, self.posting = group, peers, posting
        self.columns, self.arrivals = posting.columns, posting.arrivals
        self.buffers, self.combine, self.deadline_s = buffers, combine, deadline_s
        self.num_sends = posting.program.num_sends
        self.num_moves = self.num_sends + posting.program.num_receives
        # A receive waits for its arrival besides the steps its program names.
        self.waits = [end - begin for begin, end in pairwise(self.columns["wait_offsets"])]
        for step in range(self.num_sends, self.num_moves):
            self.waits[step] += 1
        self.before_send: Callable[[int], None] | None = None
        self.staging: Staging | None = None
        self.counting = threading.Lock()
        self.adding = threading.Lock()
        self.posted: list[dist.Work | None] = [None] * len(self.arrivals)
        self.has_arrived = [False] * len(self.arrivals)
        self.sent: list[dist.Work] = []
        self.later = deque(posting.later)
        # Spread over the first half of what is awaited; then they are over before the end.
        awaited = sum(len(numbers) for numbers in posting.awaited)
        self.later_each = -(-2 * len(posting.later) // awaited) if awaited else 0

    def post(self, number: int) -> None:
        """Tell the sender that an arrival may come."""
        arrivals, receive = self.arrivals, self.arrivals.message[number]
        buffer, peer = self.buffers[self.columns["receive_buffer"][receive]], self.columns["receive_peer"][receive]
        view = buffer.narrow(0, arrivals.start[number], arrivals.length[number])
        with backend_errors():
            self.posted[number] = self.group.recv([view], self.peers[peer], FIRST_TAG + arrivals.tag[number])

    def wait_for(self, number: int) -> None:
        """Wait for a posted arrival."""
        work = self.posted[number]
        assert work is not None
        with backend_errors():
            work.wait(timedelta(seconds=self.seconds_left()))
        self.has_arrived[number] = True

    def finish(self, number: int) -> None:
        """Run the step of a receive whose last part has arrived, unless it waits for something else."""
        receive = self.arrivals.message[number]
        if number + 1 < self.arrivals.first[receive + 1]:
            return
        step = self.num_sends + receive
        with self.counting:
            self.waits[step] -= 1
            is_ready = self.waits[step] == 0
        if is_ready:
            self.run_steps([step])

    def receive_rest(self, meanwhile: Callable[[], object]) -> None:
        """Receive what nothing waits for, posted a few ahead, and do something while the first of it comes."""
        rest = self.posting.unawaited
        for number in rest[:POSTED_AHEAD]:
            self.post(number)
        meanwhile()
        for place, number in enumerate(rest):
            self.wait_for(number)
            if place + POSTED_AHEAD < len(rest):
                self.post(rest[place + POSTED_AHEAD])
            self.finish(number)

    def run_later(self, count: int) -> None:
        """Run some of the sends that have time."""
        for _ in range(count):
            try:
                step = self.later.popleft()
            except IndexError:  # none is left, or another thread took the last
                return
            self.run_steps([step])

    def wait_for_sends(self) -> None:
        with backend_errors():
            for work in self.sent:
                work.wait(timedelta(seconds=self.seconds_left()))

    def missing(self) -> list[int]:
        """Ranks of the group whose messages have not come."""
        pairs = zip(self.arrivals.message, self.has_arrived, strict=True)
        late = {self.columns["receive_peer"][receive] for receive, has_come in pairs if not has_come}
        return sorted(self.peers[rank] for rank in late)

    def run_steps(self, ready: Sequence[int]) -> None:
        """Run steps and whatever they release, in order."""
        queue = deque(ready)
        first, released = self.columns["release_offsets"], self.columns["release_to"]
        while queue:
            step = queue.popleft()
            if step < self.num_sends:
                self._send(step)
            elif step < self.num_moves:
                self._unpack(step - self.num_sends)
            if first[step] < first[step + 1]:
                with self.counting:
                    for later in released[first[step] : first[step + 1]]:
                        self.waits[later] -= 1
                        if self.waits[later] == 0:
                            queue.append(later)

    def _send(self, step: int) -> None:
        columns, parts = self.columns, self.posting.sent
        if self.before_send is not None:
            self.before_send(columns["send_phase"][step])
        if self.staging is not None:
            for begin, length in ranges(columns, "send", step, Buffer.INPUT):
                self.staging.ready(begin, length)
        pack(columns, step, self.buffers)
        buffer, peer = self.buffers[columns["send_buffer"][step]], self.peers[columns["send_peer"][step]]
        with backend_errors():
            for part in range(parts.first[step], parts.first[step + 1]):
                view = buffer.narrow(0, parts.start[part], parts.length[part])
                self.sent.append(self.group.send([view], peer, FIRST_TAG + parts.tag[part]))

    def _unpack(self, place: int) -> None:
        if not self.columns["receive_adds"][place]:
            unpack(self.columns, place, self.buffers, self.combine)
            if self.staging is not None:
                for begin, length in ranges(self.columns, "receive", place, Buffer.OUTPUT):
                    self.staging.landed(begin, length)
            return
        with self.adding:  # two messages may add to the same bytes
            unpack(self.columns, place, self.buffers, self.combine)

    def copy_own(self) -> None:
        """Copy the bytes that stay at this rank."""
        if self.staging is None:
            copy_own(self.columns, self.buffers)
            return
        moves = (self.columns[f"own_{name}"] for name in ("from", "to", "bytes"))
        for begin, target_begin, length in zip(*moves, strict=True):
            self.staging.keep(begin, target_begin, length)

    def seconds_left(self) -> float:
        return max(0.001, self.deadline_s - time.monotonic())


class _Gate:
    """Lets queued arrivals in, in order, as long as no more than the window (or one of them) are on the way."""

    def __init__(self, call: _Call, window_bytes: int) -> None:
        posting = call.posting
        self._call = call
        self._queues = [deque(queue) for queue in posting.queues]
        self._queue_of = {number: place for place, queue in enumerate(posting.queues) for number in queue}
        self._window_bytes = [int(share * window_bytes) for share in posting.window_shares]
        self._granted_bytes = [0] * len(self._queues)
        self._granting = threading.Lock()
        self._peer_of = {number: peer for peer, numbers in enumerate(posting.awaited) for number in numbers}
        self._posted = [threading.Semaphore(0) for _ in posting.awaited]
        for queue in range(len(self._queues)):
            self._grant(queue, 0)

    def post_unqueued(self) -> None:
        """Post what is waited for but stands in no queue."""
        for number in self._peer_of:
            if number not in self._queue_of:
                self._call.post(number)

    def _grant(self, place: int, returned_bytes: int) -> None:
        """Post what fits, now that `returned_bytes` of a queue have arrived."""
        length, queue = self._call.arrivals.length, self._queues[place]
        with self._granting:
            self._granted_bytes[place] -= returned_bytes
            while queue:
                granted_bytes = self._granted_bytes[place] + length[queue[0]]
                if self._granted_bytes[place] > 0 and granted_bytes > self._window_bytes[place]:
                    return
                number = queue.popleft()
                self._granted_bytes[place] = granted_bytes
                self._call.post(number)
                self._posted[self._peer_of[number]].release()

    def wait_for_peer(self, peer: int) -> None:
        """Wait for all arrivals of one peer, and run what they release."""
        call = self._call
        try:
            for number in call.posting.awaited[peer]:
                queue = self._queue_of.get(number)
                if queue is not None and not self._posted[peer].acquire(timeout=call.seconds_left()):
                    raise MoveFailed("timed out waiting for earlier messages")
                call.wait_for(number)
                # The next sender hears of its turn before this arrival is unpacked and passed on.
                if queue is not None:
                    self._grant(queue, call.arrivals.length[number])
                call.finish(number)
                call.run_later(call.later_each)
        except Exception:
            poison(call.group)
            raise
