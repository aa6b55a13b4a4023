"""Moves real bytes: any schedule over torch.distributed, checked and agreed on before anything is sent."""

from interlock.runtime.collective import CollectiveSession, PreparedCollective
from interlock.runtime.placement import Placement, find_hosts
from interlock.runtime.runner import Corrupted, Disagreement, PeerFailed, Planned, Runner
from interlock.runtime.session import Choice, Prepared, Session
from interlock.schedule.layout import Layout

__all__ = [
    "Choice",
    "CollectiveSession",
    "Corrupted",
    "Disagreement",
    "Layout",
    "PeerFailed",
    "Placement",
    "Planned",
    "Prepared",
    "PreparedCollective",
    "Runner",
    "Session",
    "find_hosts",
]
