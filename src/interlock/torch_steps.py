"""Steps for torch programs: a planned step's communication on a process group, from and to the caller's tensors."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

import torch
import torch.distributed as dist

from interlock.errors import InvalidInput
from interlock.execution import plan_step
from interlock.planning import Plan
from interlock.problem import Step as Tasks
from interlock.runtime.placement import group_or_default
from interlock.runtime.steps import StepRunner

__all__ = ["Step"]


class Step:
    """Runs a step (`il.step`), or a plan of one, over gloo.

    Parameters
    ----------
    step
        What `il.step` made, planned here by `algorithm` in whole elements of `element_bytes`; or a plan. Ranks of the
        step are those of the group, in order.
    timeout_s
        For a run of the step; the group's own by default.

    Examples
    --------
    >>> with interlock.torch.Step(step) as run:  # doctest: +SKIP
    ...     run.begin({"dispatch": (tokens, arrived), "combine": (results, back), "gradients": (given, share)})
    ...     run.wait("dispatch")
    ...     results.copy_(experts(arrived))
    ...     run.done("experts")
    ...     run.wait("combine")
    ...     run.wait("gradients")
    """

    def __init__(
        self,
        step: Tasks | Plan,
        group: dist.ProcessGroup | None = None,
        *,
        algorithm: str = "joint",
        element_bytes: int = 4,
        timeout_s: float | None = None,
    ) -> None:
        if not isinstance(step, Tasks | Plan):
            raise InvalidInput(f"step={str(step)[:64]!r} must be a step (see il.step), or a plan of one")
        self.plan = plan_step(step, algorithm, element_bytes) if isinstance(step, Tasks) else step
        self._runner = StepRunner(self.plan, self.plan.schedule, group_or_default(group), timeout_s)

    def begin(self, tensors: Mapping[str, tuple[torch.Tensor | None, torch.Tensor | None]]) -> None:
        """Start the step. `tensors` gives the source and target of each move at this rank, None where it has none.

        Both hold their items end to end, as the task's own plan orders them: of a demand what goes to rank 0, 1, ...
        without this rank's own, of a collective what torch's calls hold. A source is read when its task starts.
        """
        self._runner.begin(tensors)

    def wait(self, name: str) -> None:
        """Return when a move has ended at this rank."""
        self._runner.wait(name)

    def done(self, name: str) -> None:
        """Say that a computation has ended at this rank, so that what is after it may start."""
        self._runner.done(name)

    def close(self) -> None:
        """End threads and connections."""
        self._runner.close()

    def __enter__(self) -> Step:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
