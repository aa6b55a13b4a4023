"""The step of `interlock lab step`: by prediction, its parts are about as long as each other, each alone."""

from __future__ import annotations

import pytest

from interlock.execution import plan_step
from interlock.lab import LabSpec
from interlock.lab.collectives import ELEMENT_BYTES
from interlock.lab.steps import layer_of
from interlock.problem import Step, Task


def _alone_s(tasks: list[Task], step: Step) -> float:
    alone = Step(step.cluster)
    for task in tasks:
        assert task.what is not None
        alone.move(task.name, task.what)
    return plan_step(alone, "concurrent", ELEMENT_BYTES).simulate().makespan_s


@pytest.mark.parametrize("message_s", [3e-4, 2e-3])
def test_parts_are_about_as_long_as_each_other(message_s: float) -> None:
    cluster = LabSpec(4, 4, 50e6 / 8, 500e6 / 8).to_cluster(message_overhead_s=message_s, stage_overhead_s=12e-3)
    step = layer_of(cluster, 1_500_000, 0.8, seed=3)
    by_name = {task.name: task for task in step.tasks}
    gradients = [task for task in step.tasks if task.name.startswith("gradients")]
    seconds = [by_name["experts"].seconds, _alone_s(gradients, step)]
    seconds += [_alone_s([by_name[name]], step) for name in ("dispatch", "combine")]
    assert max(seconds) < 1.15 * min(seconds)
