"""What tests of paced connections run on ranks."""

from __future__ import annotations

import os
import socket
import struct

import numpy as np
import torch

import interlock as il
from interlock.execution import open_session
from interlock.lab.ranks import RankContext
from interlock.lab.soak import random_demand
from interlock.runtime import Placement
from interlock.runtime.connections import SO_MAX_PACING_RATE, UNPACED, _sockets
from runtime.jobs import expected, filled


def paced_rates(context: RankContext, cluster: il.Cluster) -> tuple[bool, list[float], list[int], int]:
    """Whether bytes arrive, rates of the program, rates that sockets are held to, and how many still are in the end."""
    placement = Placement.in_order(context.num_ranks, cluster.gpus_per_server)
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


def _rates() -> list[int]:
    """Rates of this process's paced sockets."""
    rates = []
    for descriptor in _sockets():
        with socket.socket(fileno=os.dup(descriptor)) as own:
            rates.append(struct.unpack("Q", own.getsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 8))[0])
    return sorted(rate for rate in rates if rate != UNPACED)
