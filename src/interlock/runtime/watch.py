"""Names a rank that died while work was queued on devices (NCCL), and lets go of everybody.

A device that waits for a dead peer waits for ever, and with it whoever waits for the device. So while anything is under
way a thread knocks at the others' doors; where one refuses, ranks agree on a verdict. The call that is under way raises
then, or else the next one: the host never blocks on the device, it asks again and again (`settle`). At last the
communicator is aborted, to end what hangs on the device; nobody waits for that, because it may hang itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from interlock.runtime.heartbeat import Heartbeat, Verdict
from interlock.runtime.peers import MoveFailed

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

__all__ = ["Watch", "abort"]

PATIENCE_S = 1.0  # that a call may take before anybody looks
INTERVAL_S = 0.2
MOST_PAUSE_S = 10.0  # between two looks
SPINS = 200  # of `settle` without a pause: about what a small exchange takes
PAUSE_S = 50e-6
LEAVE_S = 1.0  # for the host to come out of its call before the communicator is aborted, which may hold the driver


class Watch:
    """Watches over what is queued on one device of one process group.

    `give_up` is called once, in the watching thread, after the verdict.
    """

    def __init__(self, heartbeat: Heartbeat, timeout_s: float, give_up: Callable[[], None]) -> None:
        self.verdict: Verdict | None = None
        self._heartbeat, self._timeout_s, self._give_up = heartbeat, timeout_s, give_up
        self._since_s: float | None = None  # of the call that the host is in
        self._queued: list[tuple[float, torch.cuda.Event]] = []
        self._counting = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="interlock-watch", daemon=True)
        self._thread.start()

    def enter(self) -> None:
        """The host begins something that may wait for peers."""
        self._since_s = time.monotonic()

    def leave(self, queued: torch.cuda.Event | None = None) -> None:
        """The host is through with it; what it left on the device is over with the event."""
        self._since_s = None
        if queued is not None:
            with self._counting:
                self._queued.append((time.monotonic(), queued))

    def settle(self, done: torch.cuda.Event) -> None:
        """Return when an event is over; raise once a peer is known to have died or time has run out."""
        spins = 0
        while not done.query():  # type: ignore[no-untyped-call]
            if self.verdict is not None:
                raise MoveFailed("the device waits for a peer")
            spins += 1
            if spins > SPINS:
                time.sleep(PAUSE_S)

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()

    def _oldest_s(self) -> float | None:
        """Since when the oldest thing is under way."""
        with self._counting:
            self._queued = [(since_s, event) for since_s, event in self._queued if not event.query()]  # type: ignore[no-untyped-call]
            begun = [since_s for since_s, _ in self._queued]
        entered_s = self._since_s
        return min(begun + ([] if entered_s is None else [entered_s]), default=None)

    def _watch(self) -> None:
        last_s, look_s = None, PATIENCE_S
        while not self._stop.wait(INTERVAL_S):
            since_s = self._oldest_s()
            if since_s != last_s:
                last_s, look_s = since_s, PATIENCE_S
            if since_s is None:
                continue
            taken_s = time.monotonic() - since_s
            if taken_s < min(look_s, self._timeout_s):
                continue
            # The longer it takes, the less often: many ranks may wait for one that computes.
            look_s = taken_s + min(taken_s, MOST_PAUSE_S)
            dead = self._heartbeat.find_dead()
            if dead or taken_s > self._timeout_s:
                self.verdict = self._heartbeat.find_guilty(dead)
                until_s = time.monotonic() + LEAVE_S
                while self._since_s is not None and time.monotonic() < until_s:
                    time.sleep(INTERVAL_S / 10)
                self._give_up()
                return


def abort(group: dist.ProcessGroup) -> None:
    """End everything that the group has queued on its device; it cannot be used any more."""
    import torch

    with suppress(RuntimeError):
        group._get_backend(torch.device("cuda")).abort()
