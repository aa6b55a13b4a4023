"""A step: several collectives, demands and pieces of computation, with what comes after what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index

import numpy as np

from interlock.collectives import Collective, CollectiveKind
from interlock.errors import InvalidInput, at, nearest
from interlock.problem.lowering import collective_problem, demand_problem
from interlock.problem.model import Items, Problem, RankSets, check_count
from interlock.ragged import Ragged, topological_order
from interlock.topology import Cluster
from interlock.traffic import Demand, Routing
from interlock.units import Quantity, parse_bytes, parse_seconds

__all__ = ["MAX_TASKS", "Step", "StepTasks", "Task", "step", "step_problem", "task_problem"]

MAX_TASKS = 4096
MAX_NAME = 128


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One thing to do: a move (`what` says of what), or computation of `seconds` on `ranks`.

    It may start when all tasks that it is `after` have ended on all ranks, and not before `ready_s`.
    """

    name: str
    what: Demand | Collective | None
    seconds: float = 0.0
    ranks: tuple[int, ...] = ()
    after: tuple[str, ...] = ()
    ready_s: float = 0.0
    alone: bool = False  # computation that shares no rank with another of these at any time

    @property
    def is_move(self) -> bool:
        """Whether it moves bytes."""
        return self.what is not None

    @property
    def reduces(self) -> bool:
        """Whether it sums values."""
        return isinstance(self.what, Collective) and self.what.reduces

    @property
    def kind(self) -> str:
        """In a word."""
        if isinstance(self.what, Demand):
            return "all-to-allv"
        return "compute" if self.what is None else str(self.what.kind)


class Step:
    """Tasks on one cluster; see `il.step`."""

    def __init__(self, cluster: Cluster, name: str = "step") -> None:
        self.cluster = cluster
        self.name = name
        self._tasks: dict[str, Task] = {}
        self._problem: Problem | None = None

    @property
    def tasks(self) -> tuple[Task, ...]:
        """In the order they were given."""
        return tuple(self._tasks.values())

    def move(
        self,
        name: str,
        what: Collective | Demand | Routing,
        *,
        ranks: Sequence[int] | None = None,
        after: object = (),
        ready: Quantity = 0,
        bytes_per_token: Quantity | None = None,
    ) -> Task:
        """Add a collective, a demand or the dispatch of a routing.

        Parameters
        ----------
        ranks
            The group, where `what` does not name it: members of a collective, or ranks of the rows of a demand.
        after
            Tasks, or their names, that must have ended everywhere before it starts.
        ready
            Its earliest start, from the beginning of the step.
        bytes_per_token
            Of a routing, which is moved with one copy of a token per rank.
        """
        with at(f"task {name!r}"):
            if isinstance(what, Routing):
                if bytes_per_token is None:
                    raise InvalidInput("it moves a routing; bytes_per_token must say how large a token is")
                what = what.to_demand(parse_bytes(bytes_per_token, "bytes_per_token"), copies="rank")
            elif bytes_per_token is not None:
                raise InvalidInput(f"bytes_per_token={bytes_per_token!r} is for a routing only")
            group = None if ranks is None else self._ranks(ranks)
            if isinstance(what, Demand):
                what = self._placed(what, group)
            elif isinstance(what, Collective):
                what = self._grouped(what, group)
            else:
                raise InvalidInput(f"it moves {str(what)[:64]!r}; that must be a collective, demand or routing")
            made = Task(name, what, after=self._names(after), ready_s=parse_seconds(ready, "ready"))
        return self._add(made)

    def compute(
        self,
        name: str,
        seconds: Quantity,
        *,
        ranks: Sequence[int] | None = None,
        after: object = (),
        ready: Quantity = 0,
        alone: bool = False,
    ) -> Task:
        """Add computation that takes `seconds` on each of `ranks` (None: all).

        With `alone` it shares no rank with other computation that is `alone` at the same time; otherwise computations
        do not exclude each other.
        """
        everyone = np.flatnonzero(self.cluster.present).tolist()
        with at(f"task {name!r}"):
            group = tuple(everyone) if ranks is None else self._ranks(ranks)
            takes_s, ready_s = parse_seconds(seconds, "seconds"), parse_seconds(ready, "ready")
            made = Task(name, None, takes_s, group, self._names(after), ready_s, bool(alone))
        return self._add(made)

    def problem(self) -> Problem:
        """Items of all moves as one problem, checked: names in `after` exist, and nobody waits for himself."""
        if self._problem is None:
            self._problem = step_problem(self.cluster, self.tasks, self.name)
        return self._problem

    def _add(self, task: Task) -> Task:
        if not isinstance(task.name, str) or not 0 < len(task.name) <= MAX_NAME or not task.name.isprintable():
            raise InvalidInput(f"name={str(task.name)[:64]!r} must be 1 to {MAX_NAME} printable characters")
        if task.name in self._tasks:
            raise InvalidInput(f"name={task.name!r} is taken; every task needs its own")
        if len(self._tasks) >= MAX_TASKS:
            raise InvalidInput(f"the step has {MAX_TASKS} tasks already, which is the most it may have")
        self._tasks[task.name] = task
        self._problem = None
        return task

    def _names(self, after: object) -> tuple[str, ...]:
        given = [after] if isinstance(after, str | Task) else after
        if not isinstance(given, Iterable):
            raise InvalidInput(f"after={str(after)[:64]!r} must be a task, a name, or a list of them")
        names: list[str] = []
        for each in given:
            if isinstance(each, Task) and self._tasks.get(each.name) is not each:
                raise InvalidInput(f"after names {each.name!r}, which is a task of another step")
            if not isinstance(each, str | Task):
                raise InvalidInput(f"after={str(each)[:64]!r} must be a task or a name")
            names.append(each if isinstance(each, str) else each.name)
        return tuple(dict.fromkeys(names))

    def _ranks(self, ranks: Sequence[int]) -> tuple[int, ...]:
        if isinstance(ranks, str | bytes) or not isinstance(ranks, Iterable):
            raise InvalidInput(f"ranks={str(ranks)[:64]!r} must be a list of ranks")
        try:
            group = tuple(index(rank) for rank in ranks)
        except TypeError:
            raise InvalidInput(f"ranks={str(list(ranks))[:64]} must be whole numbers") from None
        if not group or len(set(group)) != len(group):
            raise InvalidInput(f"ranks={str(list(group))[:64]} must name at least one rank, each once")
        for rank in group:
            if not 0 <= rank < self.cluster.num_ranks:
                raise InvalidInput(f"ranks names rank {rank}, but the cluster has {self.cluster.num_ranks} ranks")
            if not self.cluster.present[rank]:
                raise InvalidInput(f"ranks names rank {rank}, whose GPU is missing")
        return group

    def _placed(self, demand: Demand, group: tuple[int, ...] | None) -> Demand:
        """A demand among the ranks of a group as one among all ranks."""
        num_ranks = self.cluster.num_ranks
        if group is None:
            if demand.num_ranks != num_ranks:
                raise InvalidInput(
                    f"the demand has {demand.num_ranks} ranks but the cluster has {num_ranks}; say which with ranks="
                )
            return demand
        if demand.num_ranks != len(group):
            raise InvalidInput(f"the demand has {demand.num_ranks} ranks but ranks= names {len(group)}")
        whole = np.zeros((num_ranks, num_ranks), np.int64)
        whole[np.ix_(group, group)] = demand.bytes_matrix
        whole.flags.writeable = False
        return Demand(whole, demand.name, demand.seed)

    def _grouped(self, what: Collective, group: tuple[int, ...] | None) -> Collective | Demand:
        if group is not None and what.group is not None and what.group != group:
            raise InvalidInput("ranks= and the collective's own group differ; give one of them")
        members = self._ranks(what.group if what.group is not None else group or range(self.cluster.num_ranks))
        if what.is_rooted and what.root not in members:
            raise InvalidInput(f"root={what.root} is not among its {len(members)} ranks")
        if what.kind is CollectiveKind.ALL_TO_ALL:  # equal shares are a demand like any other
            share, rest = divmod(what.size_bytes, len(members))
            shares = share + (np.arange(len(members)) < rest)
            whole = np.zeros((self.cluster.num_ranks, self.cluster.num_ranks), np.int64)
            whole[np.ix_(members, members)] = shares[None, :]
            np.fill_diagonal(whole, 0)
            whole.flags.writeable = False
            return Demand(whole, "all-to-all")
        named = None if what.group is None and group is None else members
        return Collective(what.kind, what.size_bytes, named, what.root)

    def __repr__(self) -> str:
        return f"Step({self.name!r}, {len(self._tasks)} tasks on {self.cluster.servers}x{self.cluster.gpus_per_server})"


def step(cluster: Cluster, name: str = "step") -> Step:
    """A step without tasks yet; `move` and `compute` add them.

    >>> import interlock as il
    >>> step = il.step(il.cluster("h200", servers=2))
    >>> gather = step.move("parameters", il.all_gather("64 MiB"))
    >>> forward = step.compute("forward", "0.4 ms", after=gather)
    >>> [task.name for task in step.tasks]
    ['parameters', 'forward']
    """
    if not isinstance(cluster, Cluster):
        raise InvalidInput(f"cluster={str(cluster)[:64]!r} must be a cluster; see il.cluster")
    return Step(cluster, name)


@dataclass(frozen=True, slots=True, eq=False)
class StepTasks:
    """The tasks of a problem that is a step, by number, and the items each of them moves."""

    name: str
    tasks: tuple[Task, ...]
    after: Ragged  # numbers of the tasks that each comes after
    first_item: np.ndarray[tuple[int], np.dtype[np.int64]]  # [num_tasks + 1]

    def number(self, name: str) -> int:
        """Of the task of that name."""
        names = [task.name for task in self.tasks]
        if name not in names:
            raise InvalidInput(f"no task {name!r}; {nearest(name, names)}")
        return names.index(name)

    @property
    def in_order(self) -> list[int]:
        """Numbers so that each task comes after all it is after; of those that may come next, the first given."""
        return topological_order(self.after)


def step_problem(cluster: Cluster, tasks: Sequence[Task], name: str = "step") -> Problem:
    """The items of all tasks, numbered task by task, and who comes after whom."""
    if not tasks:
        raise InvalidInput("the step has no tasks; add some with step.move and step.compute")
    number_by_name = {task.name: number for number, task in enumerate(tasks)}
    for task in tasks:
        for before in task.after:
            if before not in number_by_name:
                known = [name for name in number_by_name if name != task.name]
                raise InvalidInput(f"task {task.name!r}: after names {before[:MAX_NAME]!r}; {nearest(before, known)}")
    after = Ragged.from_lists([sorted(number_by_name[before] for before in task.after) for task in tasks])
    _check_acyclic(tasks, after)
    parts = [task_problem(cluster, task).items if task.is_move else None for task in tasks]
    first_item = np.cumsum([0] + [0 if part is None else len(part) for part in parts]).astype(np.int64)
    made = StepTasks(name, tuple(tasks), after, first_item)
    items = _joined([part for part in parts if part is not None])
    return Problem(cluster.topology, items, cluster=cluster, step=made)


def task_problem(cluster: Cluster, task: Task) -> Problem:
    """A move by itself."""
    assert task.what is not None
    if isinstance(task.what, Demand):
        return demand_problem(cluster, task.what)
    return collective_problem(cluster.topology, task.what, cluster=cluster)


def _joined(parts: Sequence[Items]) -> Items:
    if not parts:
        return Items(np.zeros(0, np.int64), RankSets.of(Ragged.empty(0)), RankSets.of(Ragged.empty(0)))
    check_count(sum(len(part) for part in parts))
    if len(parts) == 1:
        return parts[0]
    return Items(
        np.concatenate([part.size_bytes for part in parts]),
        RankSets.of(Ragged.concatenate([part.contributors.to_ragged() for part in parts])),
        RankSets.of(Ragged.concatenate([part.destinations.to_ragged() for part in parts])),
    )


def _check_acyclic(tasks: Sequence[Task], after: Ragged) -> None:
    """Raise with the names of a circle, if there is one."""
    going = {tasks[number].name for number in topological_order(after)}
    waiting = {task.name: task.after for task in tasks if task.name not in going}
    walk: list[str] = []
    name = next(iter(waiting), None)
    while name is not None:
        if name in walk:
            circle = [*walk[walk.index(name) :], name]
            raise InvalidInput(f"tasks wait for each other in a circle: {' after '.join(map(repr, circle[:8]))}")
        walk.append(name)
        name = next(before for before in waiting[name] if before in waiting)
