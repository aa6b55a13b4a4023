"""Every rank learns one row of whole numbers from every rank, in three hops: to a leader, between leaders, back.

On a loaded machine this takes a fraction of an all-gather around a ring, and ranks without a NIC of their own never
need one. Receives for the next exchange are posted at the end of the last, so nothing waits for a receiver to be ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interlock.runtime.peers import backend_errors

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

__all__ = ["Exchange"]


class Exchange:
    """Shares rows of `width` numbers over one process group.

    `server_of` names the server of every rank of the group; `leaders` the rank that speaks for each server. Where a
    backend's tensors live on a `device`, `settle` returns when that is through with what it was given, or raises.
    """

    def __init__(
        self,
        group: dist.ProcessGroup,
        server_of: Sequence[int],
        leaders: Sequence[int],
        width: int,
        first_tag: int,
        device: torch.device | None = None,
        settle: Callable[[], None] | None = None,
    ) -> None:
        import torch

        self._group, self._tag = group, first_tag
        self._rank, self._num_ranks = group.rank(), group.size()
        # Rows are kept server by server, so that a server's rows are one message.
        self._order = sorted(range(self._num_ranks), key=lambda rank: (server_of[rank], rank))
        self._rows = torch.zeros((self._num_ranks, width), dtype=torch.int64, device=device)
        self._view: NDArray[np.int64] | None = self._rows.numpy() if device is None else None
        self._inverse = np.argsort(self._order)
        self._row = self._order.index(self._rank)
        server = server_of[self._rank]
        members = [place for place, rank in enumerate(self._order) if server_of[rank] == server]
        self._leader = leaders[server]
        self._own_rows = self._rows[members[0] : members[-1] + 1]
        self._followers = [
            (self._order[place], self._rows[place]) for place in members if self._order[place] != self._leader
        ]
        self._others = []
        for other, leader in enumerate(leaders):
            places = [place for place, rank in enumerate(self._order) if server_of[rank] == other]
            if other != server and places:
                self._others.append((leader, self._rows[places[0] : places[-1] + 1]))
        self._posted: list[dist.Work] = []
        self._settle = settle
        if settle is None:
            self._post()
        else:  # a copy into memory that is not pinned would block, and a device that waits for a dead peer never ends
            self._mine = torch.zeros(width, dtype=torch.int64, device=device)
            self._told = torch.zeros(width, dtype=torch.int64, pin_memory=True)
            self._heard = torch.zeros(self._rows.shape, dtype=torch.int64, pin_memory=True)

    def share(self, row: Sequence[int], timeout_s: float) -> NDArray[np.int64]:
        """All rows, ``[num_ranks, width]``, by rank of the group."""
        with backend_errors():
            if self._settle is not None:
                return self._share_by_backend(row, self._settle)
            return self._share(row, time.monotonic() + timeout_s)

    def _share(self, row: Sequence[int], deadline_s: float) -> NDArray[np.int64]:
        assert self._view is not None
        self._view[self._row] = row
        sent = self._lead(deadline_s) if self._rank == self._leader else self._follow(deadline_s)
        made = self._view[self._inverse]
        for work in sent:
            work.wait(_left(deadline_s))
        self._post()
        return made

    def _post(self) -> None:
        """Be ready for the next exchange."""
        recv, tag = self._group.recv, self._tag
        if self._rank == self._leader:
            self._posted = [recv([row], rank, tag) for rank, row in self._followers]
            self._posted += [recv([rows], leader, tag + 1) for leader, rows in self._others]
        else:
            self._posted = [recv([self._rows], self._leader, tag + 2)]

    def _lead(self, deadline_s: float) -> list[dist.Work]:
        followers = len(self._followers)
        for work in self._posted[:followers]:
            work.wait(_left(deadline_s))
        sent = [self._group.send([self._own_rows], leader, self._tag + 1) for leader, _ in self._others]
        for work in self._posted[followers:]:
            work.wait(_left(deadline_s))
        return sent + [self._group.send([self._rows], rank, self._tag + 2) for rank, _ in self._followers]

    def _follow(self, deadline_s: float) -> list[dist.Work]:
        # The answer overwrites the row while it may still be leaving: send a copy.
        sent = [self._group.send([self._rows[self._row].clone()], self._leader, self._tag)]
        self._posted[0].wait(_left(deadline_s))
        return sent

    def _share_by_backend(self, row: Sequence[int], settle: Callable[[], None]) -> NDArray[np.int64]:
        """One all-gather, for backends whose tensors live on a device."""
        import torch.distributed as dist

        self._told.numpy()[:] = row
        self._mine.copy_(self._told, non_blocking=True)
        dist.all_gather_into_tensor(self._rows, self._mine, group=self._group)
        self._heard.copy_(self._rows, non_blocking=True)
        settle()
        gathered: NDArray[np.int64] = self._heard.numpy().copy()
        return gathered


def _left(deadline_s: float) -> timedelta:
    return timedelta(seconds=max(0.001, deadline_s - time.monotonic()))
