"""Runs a program in rounds of batched operations, for backends that queue work on a device (NCCL).

Rounds come from the whole schedule, so both ends of every message agree on them: a message is in the round after the
latest one it depends on, stands behind in a link's order, or is separated from by a barrier. What is independent shares
a round: the next stage on the NICs with the redistribution of the last. A round is cut where a rank would have more
than `MAX_BATCH` operations, because large batches hang NCCL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interlock.problem import Problem
from interlock.runtime.buffers import copy, start, unpack
from interlock.runtime.peers import backend_errors
from interlock.runtime.program import Program, Receive, Send
from interlock.schedule import Schedule
from interlock.schedule.levels import levels

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

__all__ = ["MAX_BATCH", "Rounds", "round_of_messages"]

MAX_BATCH = 256


def round_of_messages(schedule: Schedule, problem: Problem, max_batch: int = MAX_BATCH) -> NDArray[np.int64]:
    """The round each message is in, ``[num_messages]``."""
    return _cut(schedule, levels(schedule, problem.topology), problem.num_ranks, max_batch)


def _cut(schedule: Schedule, level: NDArray[np.int64], num_ranks: int, max_batch: int) -> NDArray[np.int64]:
    """Levels numbered anew, with a new round wherever a rank's operations would be too many."""
    made = np.zeros(len(level), np.int64)
    operations = [0] * num_ranks
    current, last = -1, -1
    for message in np.argsort(level, kind="stable").tolist():
        src, dst = schedule.src[message].tolist(), schedule.dst[message].tolist()
        ends = src * len(dst) + dst * len(src)
        if level[message] != last or any(operations[rank] + ends.count(rank) > max_batch for rank in ends):
            current, last = current + 1, int(level[message])
            operations = [0] * num_ranks
        for rank in ends:
            operations[rank] += 1
        made[message] = current
    return made


class Rounds:
    """Executes programs round by round over one process group. `peers` gives the group's rank of each rank."""

    def __init__(self, group: dist.ProcessGroup, peers: Sequence[int]) -> None:
        self._group, self._peers = group, list(peers)

    def run(
        self,
        program: Program,
        round_of_message: NDArray[np.int64],
        buffers: Sequence[torch.Tensor],
        element: torch.dtype | None = None,
    ) -> None:
        """Move the bytes; `buffers` are input, output and scratch as flat uint8 tensors."""
        import torch.distributed as dist

        start(program, buffers)
        copy(program.own_copies, buffers)
        messages = [move.message for move in program.sends] + [move.message for move in program.receives]
        for number in np.unique(round_of_message[messages]).tolist():
            sends = [send for send in program.sends if round_of_message[send.message] == number]
            receives = [receive for receive in program.receives if round_of_message[receive.message] == number]
            for send in sends:
                copy(send.packing, buffers)
            operations = [self._operation(dist.irecv, receive, buffers) for receive in receives]
            operations += [self._operation(dist.isend, send, buffers) for send in sends]
            with backend_errors():
                for work in dist.batch_isend_irecv(operations):
                    work.wait()
            for receive in receives:
                unpack(receive, buffers, element)

    def _operation(
        self, kind: Callable[..., object], move: Send | Receive, buffers: Sequence[torch.Tensor]
    ) -> dist.P2POp:
        import torch.distributed as dist

        view = buffers[move.buffer].narrow(0, move.start, move.size_bytes)
        return dist.P2POp(kind, view, group=self._group, group_peer=self._peers[move.peer])
