"""All algorithms by name. A new one is a file in this folder and its name in `_NAMES`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from interlock.collectives import CollectiveKind
from interlock.errors import InvalidInput, nearest
from interlock.problem import Problem
from interlock.schedule import CompactSchedule
from interlock.topology import Cluster
from interlock.traffic import Demand

__all__ = ["Algorithm", "DemandPlanner", "get", "names", "supported"]

_NAMES = (  # each is a module of this folder, hyphens written as underscores
    *("direct", "pxn", "spreadout", "no-stage", "forward", "padded", "fast", "adaptive"),
    *("ecmp", "spray", "rails", "rails-split"),
    *("ring", "halving-doubling", "double-tree", "two-tree", "hierarchical", "nvls", "nvls-tree", "multitree"),
    *("auto", "tacos", "guided", "tiers", "weighted-direct"),
)


class DemandPlanner(Protocol):
    """Plans demands on one cluster."""

    def __call__(self, demand: Demand, previous: CompactSchedule | None = None) -> CompactSchedule:
        """Warm-starts from `previous` where that helps."""
        ...


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A named way to make schedules."""

    name: str
    summary: str
    refuses: Callable[[Problem], str | None]  # the reason why not, for a problem of its kind; None where it plans it
    build: Callable[..., CompactSchedule]  # of a problem and a seed; further keywords are its own parameters
    # Where set, demands on one cluster are planned without building a Problem: for planners that count microseconds.
    prepare: Callable[[Cluster], DemandPlanner] | None = field(default=None)
    # Its kinds of collectives, or whether it plans an All-to-Allv on a cluster; where neither is said, both and more.
    collectives: tuple[CollectiveKind, ...] = ()
    plans_demands: bool = False
    # Whether `build` cuts items into chunks of its own choice, and takes `parts` where the choice is the caller's.
    cuts_items: bool = False
    # Whether `build` takes `report`, a callable that it tells the share of the work done.
    reports: bool = False
    # Whether it assigns NICs without looking and, where one is dead, sends through a neighbour that has one.
    detours: bool = False
    # Whether `build` takes `time_of`, a callable that tells how many seconds a schedule of the problem takes.
    times: bool = False

    def other_kind(self, problem: Problem) -> str | None:
        """What it plans instead, where the problem is of another kind."""
        if self.plans_demands and (problem.cluster is None or problem.demand is None):
            return "it plans an All-to-Allv on a two-tier cluster"
        able = ", ".join(self.collectives)
        if able and problem.collective is None:
            return f"it plans collectives ({able}) only"
        if able and problem.collective is not None and problem.collective.kind not in self.collectives:
            return f"it plans {able}, not {problem.collective.kind}"
        return None

    def supports(self, problem: Problem) -> str | None:
        """None, or the reason why not."""
        return self.other_kind(problem) or self._lacks_ranks(problem) or self.refuses(problem)

    def _lacks_ranks(self, problem: Problem) -> str | None:
        """A reason where it plans collectives, and the group names a GPU that is not there."""
        collective, cluster = problem.collective, problem.cluster
        if not self.collectives or collective is None or cluster is None or problem.num_ranks == 1:
            return None
        group = slice(None) if collective.group is None else list(collective.group)
        return None if cluster.present[group].all() else "a rank of the group is missing"

    def takes(self, given: Iterable[str]) -> bool:
        """Whether `build` takes keywords of these names, or any."""
        takes = inspect.signature(self.build).parameters
        return any(each.kind is each.VAR_KEYWORD for each in takes.values()) or all(name in takes for name in given)

    def check_parameters(self, given: Mapping[str, object]) -> None:
        """Raise unless `build` takes keywords of these names, or any, and whole numbers are given where it counts."""
        for name, value in given.items():
            takes = inspect.signature(self.build).parameters
            if not self.takes([name]):
                known = [word for word in takes if word not in ("problem", "seed", "report", "time_of")]
                raise InvalidInput(f"algorithm {self.name!r} takes no {name!r}; {nearest(name, known)}")
            wanted = str(takes[name].annotation) if name in takes else ""
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if wanted in ("int", "int | None") and not is_whole and (value is not None or wanted == "int"):
                raise InvalidInput(f"{name}={str(value)[:64]} must be a whole number")


def names() -> list[str]:
    """Every registered name, in the order tables show them."""
    return list(_NAMES)


def get(name: str) -> Algorithm:
    """The algorithm of that name."""
    if not isinstance(name, str) or name not in _NAMES:
        raise InvalidInput(f"unknown algorithm {name!r}; {nearest(name, _NAMES)}")
    module = importlib.import_module(f"interlock.algorithms.{name.replace('-', '_')}")
    algorithm = module.ALGORITHM
    assert isinstance(algorithm, Algorithm)
    return algorithm


def supported(problem: Problem) -> list[str]:
    """Names of the algorithms that support a problem."""
    return [name for name in names() if get(name).supports(problem) is None]
