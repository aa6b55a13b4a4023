"""Names the rank that died or stalled: every rank writes a beat to the group's store; silence tells.

gloo reports that a connection closed or that time ran out, not whose fault it was, and a rank that gives up closes its
connections and looks just as dead to the others. Beats go on in a rank that gave up, so only the culprit falls silent.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch.distributed as dist

__all__ = ["Heartbeat"]

INTERVAL_S = 0.5
SILENCE_S = 3.5  # without a beat for so long a rank counts as gone; errors come within the timeout + 5 s


class Heartbeat:
    """Beats of one process group's ranks. `name`, equal on all ranks, tells apart what runs over the same group."""

    def __init__(self, group: dist.ProcessGroup, name: str) -> None:
        from torch.distributed import PrefixStore  # type: ignore[attr-defined]

        store = group.get_group_store().clone()  # type: ignore[attr-defined]
        store.set_timeout(timedelta(seconds=SILENCE_S))
        self._store = PrefixStore(f"interlock/{name}", store)
        self._rank, self._num_ranks = group.rank(), group.size()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._beat, name="interlock-heartbeat", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop beating; the others will not take that for a death."""
        if not self._stop.is_set():
            self._stop.set()
            with suppress(RuntimeError), self._lock:
                self._store.set(f"left{self._rank}", "1")

    def find_silent(self, waiting_on: Iterable[int]) -> list[int]:
        """Ranks that do not beat; failing that, the ranks that most of the others wait for.

        Takes `SILENCE_S`. `waiting_on` are the ranks whose messages did not come.
        """
        try:
            return self._find_silent(sorted(set(waiting_on)))
        except RuntimeError:
            # The store itself is out of reach. Unless a launcher hosts it, rank 0 does.
            return [] if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" else [0]

    def _find_silent(self, waiting_on: list[int]) -> list[int]:
        with self._lock:
            self._store.set(f"waits{self._rank}", json.dumps(waiting_on))
            first = self._read_beats()
        alive = {self._rank}
        deadline_s = time.monotonic() + SILENCE_S
        complaints = 0
        while time.monotonic() < deadline_s and min(len(alive), complaints) < self._num_ranks:
            time.sleep(INTERVAL_S / 2)
            with self._lock:
                beats = self._read_beats()
                complaints = sum(self._store.check([f"waits{rank}"]) for rank in range(self._num_ranks))
            alive |= {rank for rank in range(self._num_ranks) if beats[rank] > first[rank]}
        with self._lock:
            left = {rank for rank in range(self._num_ranks) if self._store.check([f"left{rank}"])}
            silent = sorted(set(range(self._num_ranks)) - alive - left)
            return silent or self._most_waited_for()

    def _most_waited_for(self) -> list[int]:
        """Everyone is alive: a link must be cut. Its rank waits for many, and many wait for it."""
        missed: Counter[int] = Counter()
        for rank in range(self._num_ranks):
            if self._store.check([f"waits{rank}"]):
                peers = json.loads(self._store.get(f"waits{rank}"))
                missed[rank] += len(peers)
                missed.update(peers)
        most = max(missed.values(), default=0)
        return sorted(rank for rank, count in missed.items() if count == most > 0)

    def _read_beats(self) -> list[int]:
        return [self._store.add(f"beat{rank}", 0) for rank in range(self._num_ranks)]

    def _beat(self) -> None:
        while not self._stop.is_set():
            with suppress(RuntimeError), self._lock:
                self._store.add(f"beat{self._rank}", 1)
            self._stop.wait(INTERVAL_S)
