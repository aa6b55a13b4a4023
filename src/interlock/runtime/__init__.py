"""Moves real bytes: any schedule over torch.distributed, checked and agreed on before anything is sent."""

from interlock.runtime.placement import GroupPlacement, find_hosts
from interlock.runtime.runner import Corrupted, Disagreement, PeerFailed, Planned, Runner
from interlock.runtime.session import CollectiveSession, PlanOrNative, Prepared, PreparedCollective, Session
from interlock.schedule.layout import Layout

__all__ = [
    "PlanOrNative",
    "CollectiveSession",
    "Corrupted",
    "Disagreement",
    "Layout",
    "PeerFailed",
    "GroupPlacement",
    "Planned",
    "Prepared",
    "PreparedCollective",
    "Runner",
    "Session",
    "find_hosts",
]
