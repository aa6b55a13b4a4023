"""Forwarding, DeepEP's shape: over the sender's own rail to the same index at the destination server, then NVLink."""

from __future__ import annotations

from interlock.algorithms.detours import baseline
from interlock.algorithms.relay import relay
from interlock.algorithms.two_tier import local_batch
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["ALGORITHM", "forward"]


def forward(problem: Problem, *, seed: int = 0) -> Schedule:
    """One message per (rank, destination server) on the wire, then a fan-out inside that server."""
    local, far = local_batch(problem)
    return relay(problem, local, far, carrier=far.src)


ALGORITHM = baseline("forward", "own rail to the destination server, then NVLink (DeepEP's shape)", forward)
