"""What tests of connections run on ranks."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time

import numpy as np
import torch

import interlock as il
from interlock.execution import open_session
from interlock.lab.ranks import RankContext
from interlock.runtime import GroupPlacement
from interlock.runtime.connections import SO_MAX_PACING_RATE, UNPACED, _sockets, connect
from interlock.runtime.peers import MoveFailed
from rank_soak import random_demand
from runtime.jobs import expected, filled


def paced_rates(context: RankContext, cluster: il.Cluster) -> tuple[bool, list[float], list[int], int]:
    """Whether bytes arrive, rates of the program, rates that sockets are held to, and how many still are in the end."""
    placement = GroupPlacement.in_order(context.num_ranks, cluster.gpus_per_server)
    session = open_session(context.group, cluster, placement, algorithm="direct", fallback=False)
    matrix = random_demand(np.random.default_rng(3), context.num_ranks) + 1000
    row, column = matrix[context.rank], matrix[:, context.rank]
    prepared = session.prepare(session.share(row.tolist(), column.tolist()))
    target = torch.zeros(int(column.sum()), dtype=torch.uint8)
    session.move(prepared, filled(matrix, context.rank), target)
    assert prepared.lowered is not None and prepared.lowered.posting is not None
    wanted = sorted(prepared.lowered.posting.rates.values())
    found = _rates()
    session.share(row.tolist(), column.tolist())  # nobody closes while others still look
    session.close()
    return torch.equal(target, expected(matrix, context.rank)), wanted, found, len(_rates())


def open_and_close(context: RankContext, times: int) -> None:
    """Connections that every rank drops as soon as it has them."""
    for turn in range(times):
        connect(context.group, f"open_and_close{turn}")


def open_beside_a_death(context: RankContext, victim: int) -> float:
    """Seconds until connections fail of which one rank dies when all have come to make them."""
    if context.rank == victim:
        store = context.group.get_group_store()
        store.set(f"interlock/death/called{victim}", "")
        others = [f"interlock/death/called{rank}" for rank in range(context.num_ranks)]
        store.wait(others)
        os.kill(os.getpid(), signal.SIGKILL)
    begin_s = time.monotonic()
    try:
        connect(context.group, "death")
    except MoveFailed:
        return time.monotonic() - begin_s
    raise AssertionError("connected with a dead rank")


def _rates() -> list[int]:
    """Rates of this process's paced sockets."""
    rates = []
    for descriptor in _sockets():
        with socket.socket(fileno=os.dup(descriptor)) as own:
            rates.append(struct.unpack("Q", own.getsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 8))[0])
    return sorted(rate for rate in rates if rate != UNPACED)
