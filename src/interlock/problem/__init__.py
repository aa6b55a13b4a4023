"""Problem: a topology and the items to be moved on it, checked once; made from demand, collectives or routing."""

from interlock.problem.lowering import (
    check_chunks,
    check_demand,
    collective_ends,
    collective_problem,
    combine_problem,
    demand_problem,
    dispatch_problem,
)
from interlock.problem.model import MAX_ITEMS, Items, Problem, RankSets
from interlock.problem.step import Step, StepTasks, Task, step, step_problem, task_problem
from interlock.problem.step_files import read_step, step_presets

__all__ = [
    "MAX_ITEMS",
    "Items",
    "Problem",
    "RankSets",
    "Step",
    "StepTasks",
    "Task",
    "check_chunks",
    "check_demand",
    "collective_ends",
    "collective_problem",
    "combine_problem",
    "demand_problem",
    "dispatch_problem",
    "read_step",
    "step",
    "step_presets",
    "step_problem",
    "task_problem",
]
