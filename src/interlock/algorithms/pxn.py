"""Direct with PXN, as NCCL does: hop to the GPU on the destination's rail first, then straight along that rail."""

from __future__ import annotations

import numpy as np

from interlock.algorithms.registry import Algorithm
from interlock.algorithms.two_tier import dependencies, group, local_batch, refuses_faults
from interlock.problem import Problem
from interlock.schedule import Phase, Schedule, assemble

__all__ = ["ALGORITHM", "pxn"]


def pxn(problem: Problem, *, seed: int = 0) -> Schedule:
    """Each pair's bytes take one NVLink hop at the sender, then the NIC of the destination's index."""
    assert problem.cluster is not None
    width = problem.cluster.gpus_per_server
    local, far = local_batch(problem)
    carrier = (far.src // width * width + far.dst % width).astype(np.int32)
    hops = carrier != far.src
    hopping = far.where(hops)
    hop = group(hopping, hopping.src, carrier[hops], hopping.dst)
    wire = group(far, carrier, far.dst, far.src)
    deps = dependencies(wire.message[hops], len(local) + hop.message, len(wire))
    return assemble([local, hop.to_batch(Phase.BALANCE), wire.to_batch(Phase.SCALE_OUT, deps)])


ALGORITHM = Algorithm(
    "pxn",
    "NVLink hop to the destination's rail, then all sends at once (NCCL)",
    lambda problem: refuses_faults(problem, uses_rails_only=True),
    pxn,
)
