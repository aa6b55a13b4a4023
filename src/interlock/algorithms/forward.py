"""Forwarding, DeepEP's shape: over the sender's own rail to the same index at the destination server, then NVLink."""

from __future__ import annotations

import numpy as np

from interlock.algorithms.registry import Algorithm
from interlock.algorithms.two_tier import dependencies, group, local_batch, refuses_faults
from interlock.problem import Problem
from interlock.schedule import Phase, Schedule, assemble

__all__ = ["ALGORITHM", "forward"]


def forward(problem: Problem, *, seed: int = 0) -> Schedule:
    """One message per (rank, destination server) on the wire, then a fan-out inside that server."""
    assert problem.cluster is not None
    width = problem.cluster.gpus_per_server
    local, far = local_batch(problem)
    landing = (far.dst // width * width + far.src % width).astype(np.int32)
    wire = group(far, far.src, landing)
    moves = landing != far.dst
    moving = far.where(moves)
    fan = group(moving, landing[moves], moving.dst, moving.src)
    deps = dependencies(fan.message, len(local) + wire.message[moves], len(fan))
    return assemble([local, wire.to_batch(Phase.SCALE_OUT), fan.to_batch(Phase.REDISTRIBUTE, deps)])


ALGORITHM = Algorithm(
    "forward",
    "own rail to the destination server, then NVLink (DeepEP's shape)",
    lambda problem: refuses_faults(problem, uses_rails_only=True),
    forward,
)
