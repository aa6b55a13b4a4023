"""All-to-Alls of CUDA tensors between processes of one server whose group is gloo: no byte leaves the devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch

from interlock.gpu.device import missing
from interlock.gpu.processes import Neighbours, RankExecutor
from interlock.planning import Plan, plan
from interlock.runtime.peers import gather_bytes
from interlock.schedule import Layout
from interlock.traffic import Demand

if TYPE_CHECKING:
    from interlock.runtime import Prepared, Session

__all__ = ["DeviceMover", "find_mover"]


def find_mover(session: Session) -> DeviceMover | None:
    """What moves CUDA tensors of a session; None where host memory must. Every rank must ask.

    Ranks must be on one server, in order, and all have what the device needs.
    """
    runner, placement = session.runner, session.placement
    if not torch.cuda.is_available() or runner.uses_batches or max(placement.server_of) > 0:
        return None
    if list(placement.rank_of) != list(range(placement.num_places)):
        return None
    refusals = gather_bytes(runner.group, (missing() or "").encode())
    return None if any(refusals) else DeviceMover(session)


class DeviceMover:
    """Runs the plans of a session on the devices of its ranks."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._neighbours = Neighbours(session.runner.group)
        self._last: tuple[Prepared, RankExecutor] | None = None

    def move(self, prepared: Prepared, sent: torch.Tensor, received: torch.Tensor) -> None:
        """Move bytes between flat uint8 tensors on the device, on the current stream; returns at once."""
        if self._last is None or self._last[0] is not prepared:
            self._last = prepared, self._executor(prepared)
        self._last[1](sent, received)

    def _executor(self, prepared: Prepared) -> RankExecutor:
        made = cast(Plan | None, prepared.choice.plan)
        if made is None:  # what the backend would do itself, on the device
            made = plan(self._session.cluster, Demand(prepared.demand_bytes, "shared"), algorithm="direct")
        rank = self._session.rank
        layout = Layout.all_to_all(prepared.matrix, rank)
        program = made.program(rank, layout, rounds=True)
        return RankExecutor(made, self._neighbours, program=program, timeout_s=self._session.runner.timeout_s)

    def wait(self) -> None:
        """Return when the last move is done; raise `Stuck`, which names who was waited for, if it was given up."""
        if self._last is not None:
            self._last[1].wait()

    def close(self) -> None:
        """Give memory back. Every rank must call it."""
        self._neighbours.close()
