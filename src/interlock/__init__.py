"""Interlock plans, proves and runs the communication of GPU clusters.

>>> import interlock as il
>>> cluster = il.cluster("h200", servers=4)
>>> cluster.num_ranks
32
"""

from interlock import topology, traffic
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
from interlock.comparison import Comparison, compare
from interlock.errors import InterlockError, InvalidInput
from interlock.planning import Certificate, Plan, load, plan, planner, synthesize
from interlock.problem import Problem
from interlock.schedule import Schedule
from interlock.topology import Cluster, Topology, cluster, dead_nic, missing_gpu, slow_nic
from interlock.traffic import Demand

__version__ = "0.1.0"

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
    "Schedule",
    "Topology",
    "__version__",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "cluster",
    "compare",
    "dead_nic",
    "gather",
    "load",
    "missing_gpu",
    "plan",
    "planner",
    "reduce",
    "reduce_scatter",
    "scatter",
    "slow_nic",
    "synthesize",
    "topology",
    "traffic",
]
