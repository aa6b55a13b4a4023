"""Plans on a GPU: any plan of the project as one kernel launch. Needs the extra `gpu` and an NVIDIA GPU.

`Executor` runs all ranks of a plan in this process (virtual ranks), `RankExecutor` one rank of a group of processes on
one server. Nothing else of the project needs this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.gpu.device import Missing, missing
    from interlock.gpu.executor import Executor, Stuck
    from interlock.gpu.processes import RankExecutor

__all__ = ["Executor", "Missing", "RankExecutor", "Stuck", "missing"]

_MODULES = {
    "Executor": "executor",
    "Missing": "device",
    "RankExecutor": "processes",
    "Stuck": "executor",
    "missing": "device",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'interlock.gpu' has no attribute {name!r}")
    return getattr(import_module(f"interlock.gpu.{_MODULES[name]}"), name)
