"""Steps for torch programs: a planned step's communication on a process group, from and to the caller's tensors."""

from __future__ import annotations

import torch.distributed as dist

from interlock.errors import InvalidInput
from interlock.execution import plan_step
from interlock.planning import Plan
from interlock.problem import Step as Tasks
from interlock.runtime.placement import group_or_default
from interlock.runtime.steps import StepRunner

__all__ = ["Step"]


class Step(StepRunner):
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
        super().__init__(self.plan, self.plan.schedule, group_or_default(group), timeout_s)
