"""Direct with PXN, as NCCL does: hop to the GPU on the destination's rail first, then straight along that rail."""

from __future__ import annotations

import numpy as np

from interlock.algorithms.detours import baseline
from interlock.algorithms.relay import relay
from interlock.algorithms.two_tier import local_batch
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["ALGORITHM", "pxn"]


def pxn(problem: Problem, *, seed: int = 0) -> Schedule:
    """Each pair's bytes take one NVLink hop at the sender, then the NIC of the destination's index."""
    assert problem.cluster is not None
    width = np.int32(problem.cluster.gpus_per_server)
    local, far = local_batch(problem)
    return relay(problem, local, far, carrier=far.src // width * width + far.dst % width, flows=far.item)


ALGORITHM = baseline("pxn", "NVLink hop to the destination's rail, then all sends at once (NCCL)", pxn)
