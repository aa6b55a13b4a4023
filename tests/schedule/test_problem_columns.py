"""Problems as columns: they come back as they were, and each thing that is wrong with one is refused for what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import interlock as il
from interlock.problem import Items, Problem, RankSets, collective_problem
from interlock.ragged import Ragged
from interlock.schedule.problem_columns import columns_of_problem, problem_from_columns

Change = Callable[[dict[str, Any], dict[str, Any]], object]


def graph() -> Problem:
    """A multicast, a sum and a pair on a line of three with a half-duplex link."""
    line = il.topology.from_edges([0, 1, 1, 2], [1, 0, 2, 1], "1 GB/s", "1 us", num_ranks=3, channel=[0, 0, 1, 2])
    sets = [RankSets.of(Ragged.from_lists(rows)) for rows in ([[0], [0, 1], [2]], [[1, 2], [2], [0]])]
    return Problem(line, Items(np.array([5, 6, 7]), *sets))


def step() -> Problem:
    made = il.step(il.cluster("h200", servers=2, gpus_per_server=1), "two moves")
    sent = made.move("send", il.traffic.matrix([[0, 5], [7, 0]]), ready="3 us")
    worked = made.compute("work", "1 us", ranks=[1], after=sent, alone=True)
    made.move("gather", il.all_gather("2 kB"), after=worked)
    return made.problem()


def collective() -> Problem:
    return collective_problem(il.topology.ring(4, bandwidth="1 GB/s"), il.broadcast("1 kB", root=3, group=[1, 3]))


@pytest.mark.parametrize("make", [graph, step, collective])
def test_a_problem_comes_back(make: Callable[[], Problem]) -> None:
    problem = make()
    again = problem_from_columns(*columns_of_problem(problem))
    assert again.items.size_bytes.tolist() == problem.items.size_bytes.tolist()
    for name in ("contributors", "destinations"):
        assert getattr(again.items, name).to_ragged() == getattr(problem.items, name).to_ragged()
    for name in ("link_src", "link_dst", "bandwidth_bytes_per_s", "latency_s", "message_overhead_s", "channel"):
        assert getattr(again.topology, name).tolist() == getattr(problem.topology, name).tolist()
    assert again.collective == problem.collective and again.topology.num_ranks == problem.topology.num_ranks
    if problem.step is not None:
        for task, other in zip(problem.step.tasks, again.step.tasks, strict=True):
            assert (task.name, task.after, task.ready_s, task.seconds, task.ranks, task.alone) == (
                (other.name, other.after, other.ready_s, other.seconds, other.ranks, other.alone)
            )


def column(name: str, place: int, value: float) -> Change:
    def change(columns: dict[str, Any], described: dict[str, Any]) -> None:
        columns[f"problem.{name}"] = columns[f"problem.{name}"].copy()
        columns[f"problem.{name}"][place] = value

    return change


def said(*path: str | int, value: object) -> Change:
    def change(columns: dict[str, Any], described: dict[str, Any]) -> None:
        table: Any = described
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = value

    return change


WRONG: list[tuple[Callable[[], Problem], Change, str]] = [
    (graph, column("items.size_bytes", 1, 0), "an item of no bytes"),
    (graph, column("items.contributors.values", 0, -1), "contributors: every item needs ranks between 0 and 2"),
    (graph, column("items.contributors.values", 3, 3), "contributors: every item needs ranks between 0 and 2"),
    (graph, column("items.destinations.offsets", 0, 1), "destinations: offsets must rise"),
    (graph, column("items.destinations.offsets", -1, 3), "destinations: offsets must rise"),
    (graph, column("items.destinations.offsets", 1, 4), "destinations: offsets must rise"),
    (graph, column("items.destinations.offsets", 1, 0), "destinations: every item needs ranks"),
    (graph, lambda c, _: c.pop("problem.items.size_bytes"), "lacks column 'problem.items.size_bytes'"),
    (graph, lambda c, _: c.update({"problem.items.size_bytes": np.ones(3)}), "lacks column 'problem.items.size_bytes'"),
    (graph, lambda c, _: c.update({"problem.items.size_bytes": np.ones(2, np.int64)}), "offsets must rise"),
    (graph, column("topology.bandwidth_bytes_per_s", 0, 0.0), r"bandwidth_bytes_per_s\[0\]=0.0 must be between"),
    (graph, column("topology.bandwidth_bytes_per_s", 0, np.inf), r"bandwidth_bytes_per_s\[0\]=inf must be between"),
    (graph, column("topology.latency_s", 0, -1e-9), r"latency_s\[0\]=-1e-09 must be between"),
    (graph, column("topology.message_overhead_s", 3, np.nan), r"message_overhead_s\[3\]=nan must be between"),
    (graph, column("topology.channel", 0, -1), "channel holds -1..2; ids must be between 0 and 3"),
    (graph, column("topology.channel", 0, 4), "channel holds 0..4; ids must be between 0 and 3"),
    (
        graph,
        lambda c, _: c.update({"problem.topology.latency_s": np.zeros(3)}),
        r"latency_s must be float64 of shape \(4,\)",
    ),
    (graph, said("topology", "num_ranks", value="3"), "topology lacks 'num_ranks' of type int"),
    (graph, said("topology", "name", value=3), "topology lacks 'name' of type str"),
    (graph, said("topology", "stage_overhead_s", value=None), "topology lacks 'stage_overhead_s' of type float"),
    (graph, said("topology", "stage_overhead_s", value=-1.0), "at least zero seconds"),
    (graph, said("topology", "stage_overhead_s", value=2e9), "at least zero seconds"),
    (graph, said("topology", value=None), "header lacks 'topology' of type dict"),
    (collective, said("collective", "kind", value="all-hands"), "unknown collective 'all-hands'"),
    (collective, said("collective", "size_bytes", value=-1), "size=-1"),
    (collective, said("collective", "size_bytes", value="1 kB"), "collective lacks 'size_bytes' of type int"),
    (collective, said("collective", "root", value=None), "collective lacks 'root' of type int"),
    (collective, said("collective", "group", value=["one"]), r"group\[0\]='one' must be a rank"),
    (collective, said("collective", "group", value=7), "group='7' must be a list of ranks"),
    (step, lambda _, d: d.pop("cluster"), "topology|on no cluster"),
    (step, said("step", "name", value=5), "step lacks 'name' of type str"),
    (step, said("step", "tasks", value={}), "step lacks 'tasks' of type list"),
    (step, said("step", "tasks", 0, value="send"), "task lacks 'name' of type str"),
    (step, said("step", "tasks", 0, "name", value=None), "task lacks 'name' of type str"),
    (step, said("step", "tasks", 0, "after", value="all"), "task 'send' lacks 'after' of type list"),
    (step, said("step", "tasks", 0, "ready_s", value="now"), "task 'send' lacks 'ready_s' of type float"),
    (step, said("step", "tasks", 0, "demand", "items", value=-1), "names -1 items; it has"),
    (step, said("step", "tasks", 0, "demand", "items", value=99), "names 99 items; it has"),
    (step, said("step", "tasks", 0, "demand", "items", value="all"), "task 'send' lacks 'items' of type int"),
    (step, said("step", "tasks", 0, "demand", "items", value=1), "are not those of its tasks"),
    (step, said("step", "tasks", 0, "demand", "seed", value="x"), "demand lacks 'seed' of type int"),
    (step, said("step", "tasks", 0, "demand", "name", value=1), "demand lacks 'name' of type str"),
    (step, said("step", "tasks", 1, "seconds", value="1 us"), "task 'work' lacks 'seconds' of type float"),
    (step, said("step", "tasks", 1, "ranks", value=1), "task 'work' lacks 'ranks' of type list"),
    (step, said("step", "tasks", 1, "alone", value=1), "task 'work' lacks 'alone' of type bool"),
    (step, said("step", "tasks", 2, "collective", "size_bytes", value=4000), "are not those of its tasks"),
    (step, column("items.size_bytes", 2, 999), "are not those of its tasks"),
    (step, column("items.destinations.values", 0, 0), "are not those of its tasks|own rank|several"),
]


@pytest.mark.parametrize(("make", "change", "words"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_refused_for_what_it_is(make: Callable[[], Problem], change: Change, words: str) -> None:
    columns, described = columns_of_problem(make())
    change(columns, described)
    with pytest.raises(il.InvalidInput, match=words):
        problem_from_columns(columns, described)
