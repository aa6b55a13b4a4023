"""Runs a program in rounds of batched operations, for backends that queue work on a device (NCCL).

Both ends of every message know its round: it is after the rounds of all it depends on. What is independent shares a
round: the next stage on the NICs with the redistribution of the last. Large batches hang NCCL, so a round is cut: first
by how many messages the two ranks have exchanged in it, then by how far apart their numbers are. A rank then has at
most `MAX_BATCH` operations at a time, and all ranks go through the same batches in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from interlock.ragged import before_in_group
from interlock.runtime.buffers import Combine, copy_own, pack, start, unpack
from interlock.runtime.peers import backend_errors
from interlock.schedule import Program

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

__all__ = ["MAX_BATCH", "Batches", "batches"]

MAX_BATCH = 256


def batches(program: Program, num_ranks: int, max_batch: int = MAX_BATCH) -> list[tuple[list[int], list[int]]]:
    """Sends and receives that go together, batch after batch."""
    keys = []
    for end in ("send", "receive"):
        number, peer = program.columns[f"{end}_round"], program.columns[f"{end}_peer"]
        repeats = before_in_group(number.astype(np.int64) * num_ranks + peer)  # earlier ones that go the same way
        distance = (peer - program.rank if end == "send" else program.rank - peer) % num_ranks
        keys.append(np.stack([number, repeats, distance // max(1, max_batch // 2)], axis=1))
    _, batch = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    sends, receives = (
        [np.flatnonzero(own == number).tolist() for number in range(int(batch.max(initial=-1)) + 1)]
        for own in np.split(batch.reshape(-1), [program.num_sends])
    )
    return list(zip(sends, receives, strict=True))


class Batches:
    """Executes programs round by round over one process group. `peers` gives the group's rank of each rank."""

    def __init__(self, group: dist.ProcessGroup, peers: Sequence[int]) -> None:
        self._group, self._peers = group, list(peers)

    def run(
        self,
        program: Program,
        buffers: Sequence[torch.Tensor],
        combine: Combine | None = None,
        max_batch: int = MAX_BATCH,
        await_own: Callable[[], object] | None = None,
    ) -> None:
        """Move the bytes; `buffers` are input, output and scratch as flat uint8 tensors.

        `await_own` waits for bytes that stay, where somebody else copies them.
        """
        import torch.distributed as dist

        columns = {name: column.tolist() for name, column in program.columns.items()}
        start(columns, buffers)
        if await_own is None:
            copy_own(columns, buffers)
        else:
            await_own()
        for sends, receives in batches(program, len(self._peers), max_batch):
            for send in sends:
                pack(columns, send, buffers)
            operations = [self._operation(dist.irecv, "receive", columns, one, buffers) for one in receives]
            operations += [self._operation(dist.isend, "send", columns, one, buffers) for one in sends]
            with backend_errors():
                for work in dist.batch_isend_irecv(operations):
                    work.wait()
            for receive in receives:
                unpack(columns, receive, buffers, combine)

    def _operation(
        self,
        kind: Callable[..., object],
        end: str,
        columns: dict[str, list[int]],
        place: int,
        buffers: Sequence[torch.Tensor],
    ) -> dist.P2POp:
        import torch.distributed as dist

        buffer, begin, size = (columns[f"{end}_{name}"][place] for name in ("buffer", "start", "bytes"))
        peer = self._peers[columns[f"{end}_peer"][place]]
        return dist.P2POp(kind, buffers[buffer].narrow(0, begin, size), group=self._group, group_peer=peer)
