"""Interlock plans, proves and runs the communication of GPU clusters.

>>> import interlock as il
>>> cluster = il.cluster("h200", servers=4)
>>> cluster.num_ranks
32
"""

from importlib import import_module
from typing import TYPE_CHECKING

from interlock.errors import InterlockError, InvalidInput

if TYPE_CHECKING:
    from interlock import gpu, topology, traffic
    from interlock.collectives import (
        Collective,
        all_gather,
        all_reduce,
        all_to_all,
        broadcast,
        gather,
        reduce,
        reduce_scatter,
        scatter,
    )
    from interlock.comparison import Comparison, SizeComparison, compare, compare_sizes
    from interlock.planning import Certificate, Plan, load, plan, planner, synthesize
    from interlock.problem import Problem, Step, Task, step
    from interlock.schedule import Program, Schedule
    from interlock.topology import Cluster, Topology, cluster, dead_nic, missing_gpu, slow_nic
    from interlock.traffic import Demand

# Loaded on first use: `import interlock` costs next to nothing, and a script pays only for what it calls.
_NAMES_BY_MODULE = {
    "interlock.collectives": (
        "Collective",
        "all_gather",
        "all_reduce",
        "all_to_all",
        "broadcast",
        "gather",
        "reduce",
        "reduce_scatter",
        "scatter",
    ),
    "interlock.comparison": ("Comparison", "SizeComparison", "compare", "compare_sizes"),
    "interlock.planning": ("Certificate", "Plan", "load", "plan", "planner", "synthesize"),
    "interlock.problem": ("Problem", "Step", "Task", "step"),
    "interlock.schedule": ("Program", "Schedule"),
    "interlock.topology": ("Cluster", "Topology", "cluster", "dead_nic", "missing_gpu", "slow_nic"),
    "interlock.traffic": ("Demand",),
}
_MODULE_BY_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}
_MODULES = ("gpu", "topology", "traffic")
# A collective is asked for to be planned: with its planner loaded along, the first plan is as quick as the next.
_LOADED_ALONG = {"interlock.collectives": ("interlock.planning", "interlock.algorithms.guided")}

__version__ = "0.2.0"

__all__ = [
    "Certificate",
    "Cluster",
    "Collective",
    "Comparison",
    "Demand",
    "InterlockError",
    "InvalidInput",
    "Plan",
    "Problem",
    "Program",
    "Schedule",
    "SizeComparison",
    "Step",
    "Task",
    "Topology",
    "__version__",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "cluster",
    "compare",
    "compare_sizes",
    "dead_nic",
    "gather",
    "gpu",
    "load",
    "missing_gpu",
    "plan",
    "planner",
    "reduce",
    "reduce_scatter",
    "scatter",
    "slow_nic",
    "step",
    "synthesize",
    "topology",
    "traffic",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"interlock.{name}")
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module 'interlock' has no attribute {name!r}")
    module = _MODULE_BY_NAME[name]
    value: object = getattr(import_module(module), name)
    for other in _LOADED_ALONG.get(module, ()):
        import_module(other)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
