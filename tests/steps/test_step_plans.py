"""Steps as a whole: what is asked, the three ways, times by task."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import interlock as il
from interlock._native import _core
from interlock.algorithms import registry
from interlock.planning import move_of_step
from interlock.problem import Problem, read_step, task_problem
from interlock.schedule import CompactSchedule, Schedule
from interlock.simulate import simulate
from interlock.steps import LonePlans
from interlock.steps.ledger import Ledger
from interlock.steps.ways import _likely, _Option, _Search, stream
from interlock.validate import check
from steps.cases import layer

WAYS = ("serial", "concurrent", "joint")


def tiers(problem: Problem) -> Schedule:
    """A collective by the quick planner."""
    return registry.get("tiers").build(problem).expand()


@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_valid_keeps_the_order_and_is_not_below_the_bound(way: str) -> None:
    step = layer()
    plan = il.plan(step, algorithm=way)
    proof = plan.certificate()
    tasks = plan.simulate().tasks

    assert proof.valid, proof.violations
    assert proof.makespan_s >= proof.lower_bound_s
    assert tasks["experts"].start_s >= tasks["dispatch"].finish_s
    assert tasks["experts"].finish_s == pytest.approx(tasks["experts"].start_s + 60e-6)
    assert tasks["combine"].start_s >= tasks["experts"].finish_s
    assert tasks["gradients"].start_s >= 10e-6
    assert max(each.finish_s for each in tasks.values()) == proof.makespan_s


def test_joint_is_never_behind_and_here_it_is_ahead() -> None:
    times = {way: il.plan(layer(), algorithm=way).simulate().makespan_s for way in WAYS}

    assert times["joint"] < 0.97 * min(times["serial"], times["concurrent"])


def test_joint_takes_as_long_as_its_search_found() -> None:
    plan = il.plan(layer())
    problem = plan.problem
    search = _Search(problem, LonePlans(problem, move_of_step), np.inf)

    assert search.concurrent_s == il.plan(layer(), algorithm="concurrent").simulate(tolerance=1e-3).makespan_s
    assert search.run() == pytest.approx(plan.simulate(tolerance=1e-3).makespan_s, rel=1e-9)
    assert "joint" in search.best().reason and search.found_s < search.concurrent_s


def test_a_try_that_cannot_win_is_broken_off() -> None:
    result = il.plan(layer(), algorithm="concurrent").simulate()
    level = np.zeros(result.schedule.num_messages, np.int32)
    none_s = np.zeros(len(level))

    def run(tail_s: np.ndarray, give_up_s: float) -> tuple[float, int]:
        *_, makespan_s, num_events = _core.admit_flows(*result.arrays.arguments, 0.0, level, tail_s, False, give_up_s)
        return makespan_s, num_events

    assert run(none_s, np.inf) == run(none_s, 1.01 * result.makespan_s) == (result.makespan_s, result.num_events)
    broken_s, num_events = run(none_s, 0.9 * result.makespan_s)
    assert broken_s == np.inf and num_events < 0.8 * result.num_events  # ports have too much left long before
    tail_s = np.full(len(level), 0.5 * result.makespan_s)
    assert run(tail_s, result.makespan_s)[1] < num_events


def test_a_try_that_can_win_is_not_broken_off() -> None:
    result = il.plan(layer(), algorithm="concurrent").simulate()
    assert result.schedule.tasks is not None
    task = np.maximum(result.schedule.tasks.task, 0)
    just_later = 1 + 1e-9

    def run(level: np.ndarray, tail_s: np.ndarray, give_up_s: float) -> float:
        *_, makespan_s, _ = _core.admit_flows(*result.arrays.arguments, 0.0, level, tail_s, False, give_up_s)
        return makespan_s

    end_s = np.zeros(task.max() + 1)
    np.maximum.at(end_s, task, result.finish_s)
    level, none_s = np.zeros(len(task), np.int32), np.zeros(len(task))
    assert run(level, result.makespan_s - end_s[task], result.makespan_s * just_later) == result.makespan_s
    rng = np.random.default_rng(5)
    for _ in range(20):
        level = rng.integers(0, 4, len(end_s)).astype(np.int32)[task]
        makespan_s = run(level, none_s, np.inf)
        assert run(level, none_s, makespan_s * just_later) == makespan_s


@pytest.mark.parametrize("shares", [1, 2])
def test_turns_that_were_taken_are_kept_by_a_plain_run(shares: int) -> None:
    problem = layer(servers=4, size="64 MB", fan_in=1).problem()
    lone = LonePlans(problem, lambda of: il.plan(of.cluster, of.demand).compact if of.demand else tiers(of))
    search = _Search(problem, lone, np.inf)
    given = search._assembled(shares)[0].rows
    assert given.exclusive.any()
    for levels in (((0,), (2, 3)), ((0, 2, 3),), ((3,), (0, 2))):
        search.found_s = np.inf
        assert search._gains(0.0, _Option(levels, shares, takes_turns=True))
        made = search.best()
        assert check(made.schedule, problem).valid
        assert simulate(made.schedule, problem, tolerance=1e-3).makespan_s == pytest.approx(search.found_s, rel=1e-9)
        assert made.reason.endswith("links in turn to whoever is ready")


def test_turns_are_tried_only_where_messages_hold_links_alone() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4)
    step = il.step(cluster)
    for name, size in (("first", "4 MB"), ("second", "3 MB")):
        dispatch = step.move(name, il.traffic.uniform(cluster, size))
        step.compute(f"work of {name}", "90 us", after=dispatch)
    problem = step.problem()
    search = _Search(problem, LonePlans(problem, move_of_step), np.inf)
    assert not search._assembled(1)[0].rows.exclusive.any()
    search.run()
    assert search.seen and not any(option.takes_turns for option in search.seen)


def test_joint_is_serial_where_that_is_as_long_as_the_critical_path() -> None:
    given = layer()
    step = il.step(given.cluster)
    dispatch = step.move("dispatch", given.tasks[0].what)
    step.compute("experts", "1 ms", after=dispatch)
    step.move("gradients", given.tasks[3].what, ready="1 us")

    plans = {way: il.plan(step, algorithm=way) for way in WAYS}
    times = {way: plan.simulate(tolerance=1e-3).makespan_s for way, plan in plans.items()}
    assert times["joint"] == times["serial"] < 0.99 * times["concurrent"]
    assert plans["joint"].reason.startswith("serial: dispatch then gradients; simulated 0 orders")


def test_shares_of_a_move_that_holds_links_alone_are_valid() -> None:
    problem = layer(servers=4, size="64 MB", fan_in=1).problem()
    lone = LonePlans(problem, lambda of: il.plan(of.cluster, of.demand).compact if of.demand else tiers(of))
    for shares in (1, 2, 4):
        made = _Search(problem, lone, np.inf)._assembled(shares)[0]
        assert made.rows.exclusive.any() and made.share.max() == shares - 1
        assert check(made.rows, problem).valid


def test_moves_come_in_the_order_of_computations_that_exclude_each_other() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4)
    step = il.step(cluster)
    for chunk, size in enumerate(("4.1 MB", "4 MB", "4.2 MB")):
        dispatch = step.move(f"dispatch {chunk}", il.traffic.uniform(cluster, size))
        step.move(
            f"combine {chunk}",
            il.traffic.uniform(cluster, size),
            after=step.compute(f"{chunk}", "90 us", after=dispatch, alone=True),
        )

    # The quickest dispatch has the first computation, and all the others behind it.
    problem = step.problem()
    search = _Search(problem, LonePlans(problem, lambda of: il.plan(of.cluster, of.demand).compact), np.inf)
    assert next(_likely(problem, search.after, search.lone.seconds))[:3] == ((3,), (0,), (6,))


def test_moves_beside_others_have_no_timetable_of_the_ports_they_share() -> None:
    step = il.step(il.cluster("h200", servers=2, scale_up_bandwidth="100 GB/s"))
    step.move("dispatch", il.traffic.zipf(step.cluster, 0.9, "16 MB", seed=3))
    dispatch = task_problem(step.cluster, step.tasks[0])
    assert move_of_step(dispatch, has_others=False).expand().exclusive.any()
    assert not move_of_step(dispatch, has_others=True).expand().exclusive.any()


def test_moves_of_a_step_hold_links_alone_where_they_do_by_themselves() -> None:
    cluster = il.cluster("h200", servers=2)
    demand = il.traffic.zipf(cluster, 0.8, "4 MB", seed=5)
    assert il.plan(cluster, demand).schedule.exclusive.any()

    step = il.step(cluster)
    step.move("dispatch", demand)
    step.move("other", demand.transposed())
    assert il.plan(step, algorithm="concurrent").schedule.exclusive.any()
    pair = il.plan(read_step("deepseek-pair"))
    assert pair.simulate(tolerance=1e-3).makespan_s < 1.05 * pair.bound.seconds
    picky = il.plan(layer(servers=8, size="64 MB", fan_in=1), algorithm="concurrent").schedule
    assert picky.tasks is not None and picky.exclusive[picky.tasks.task == 0].any()


def test_it_does_not_matter_which_task_is_given_last() -> None:
    given, turned = layer(), il.step(layer().cluster, "turned")
    for task in reversed(given.tasks):
        if task.is_move:
            turned.move(task.name, task.what, after=task.after, ready=task.ready_s)
        else:
            turned.compute(task.name, task.seconds, after=task.after)

    makespans_s = [il.plan(step).simulate().makespan_s for step in (given, turned)]
    assert makespans_s[1] == pytest.approx(makespans_s[0], rel=0.01)


def test_a_move_alone_takes_what_its_plan_predicts_and_no_less_than_its_busiest_port() -> None:
    problem = layer().problem()
    plans: list[CompactSchedule] = []

    def plan(of: Problem) -> CompactSchedule:
        plans.append(il.plan(of.cluster, of.demand).compact if of.demand else tiers(of))
        return plans[-1]

    lone = LonePlans(problem, plan)
    dispatch_s, experts_s, combine_s, gradients_s = lone.seconds.tolist()
    assert (dispatch_s, combine_s) == (plans[0].predicted_s, plans[1].predicted_s) and experts_s == 60e-6
    assert gradients_s == simulate(plans[2], problem.topology, tolerance=1e-3).makespan_s
    least_s = Ledger.of(problem, lone, problem.step.after).least_s[[0, 2, 3]]
    taken_s = np.array([simulate(each, problem.topology).makespan_s for each in plans])
    assert (least_s <= taken_s).all() and (least_s > 0.5 * taken_s).all()


@pytest.mark.parametrize("way", WAYS)
def test_a_step_of_one_move_is_that_moves_own_plan(way: str) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4)
    for what, alone in (
        (demand := il.traffic.zipf(cluster, skew=1.2, bytes_per_gpu="2 MB", seed=1), il.plan(cluster, demand)),
        (gather := il.all_gather("8 MiB"), il.synthesize(cluster, gather)),
    ):
        step = il.step(cluster)
        step.move("only", what)
        assert il.plan(step, algorithm=way).simulate().makespan_s == alone.simulate().makespan_s


def test_random_steps_are_valid_in_every_way() -> None:
    rng = random.Random(7)
    cluster = il.cluster("a100", servers=2, gpus_per_server=4)
    kinds = (il.reduce_scatter, il.all_gather, il.all_reduce, il.broadcast)
    for _ in range(6):
        step = il.step(cluster)
        names: list[str] = []
        for number in range(rng.randint(1, 5)):
            after = rng.sample(names, min(len(names), rng.randint(0, 2)))
            ready = f"{rng.choice((0, 0, 15))} us"
            if rng.random() < 0.3:
                step.compute(f"task {number}", f"{rng.randint(0, 50)} us", after=after, ready=ready)
            elif rng.random() < 0.5:
                seed = rng.randrange(1000)
                traffic = il.traffic.sparse(cluster, density=0.2, bytes_per_gpu="1 MB", seed=seed)
                step.move(f"task {number}", traffic, after=after, ready=ready)
            else:
                group = sorted(rng.sample(range(8), rng.randint(2, 8)))
                options = {"root": group[0]} if (kind := rng.choice(kinds)) is il.broadcast else {}
                step.move(f"task {number}", kind("2 MiB", group=group, **options), after=after, ready=ready)
            names.append(f"task {number}")
        times = {}
        for way in WAYS:
            proof = il.plan(step, algorithm=way).certificate()
            assert proof.valid, proof.violations
            assert proof.makespan_s >= proof.lower_bound_s * (1 - 1e-9)
            times[way] = proof.makespan_s
        assert times["joint"] <= 1.002 * min(times.values())


def test_one_stream_serves_the_first_that_is_ready() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=1)
    step = il.step(cluster)
    step.move("late", il.all_gather("1 MiB"), ready="2 ms")
    first = step.move("first", il.all_gather("1 MiB"))
    step.move("second", il.all_gather("1 MiB"))
    work = step.compute("work", "1 ms", after=first)
    step.move("third", il.all_gather("1 MiB"), after=work)

    order, _ = stream(step.problem(), np.array([1e-4, 1e-4, 1.5e-3, 1e-3, 1e-4]))

    assert [step.tasks[number].name for number in order] == ["first", "second", "third", "late"]


def test_computation_that_is_alone_is_put_in_order_and_other_computation_is_not() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    for alone, took_s in ((True, 3e-3), (False, 1e-3)):
        step = il.step(cluster)
        for number in range(3):
            step.compute(f"work {number}", "1 ms", ranks=[0, number], alone=alone) if number else step.compute(
                "work 0", "1 ms", ranks=[0], alone=alone
            )
        plan = il.plan(step, algorithm="concurrent")
        assert plan.certificate().valid
        assert plan.simulate().makespan_s == pytest.approx(took_s)


def test_a_demand_and_a_collective_take_their_ranks_from_the_move() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4)
    step = il.step(cluster)
    step.move("pair", il.traffic.matrix([[0, 1000], [2000, 0]]), ranks=[1, 6])
    step.move("group", il.all_reduce("1 MiB"), ranks=[2, 3])
    step.move("even", il.all_to_all("1 MiB"), ranks=[0, 4])

    pair, group, even = step.tasks
    assert pair.what.bytes_matrix[1, 6] == 1000 and pair.what.bytes_matrix[6, 1] == 2000
    assert group.what.group == (2, 3)
    assert even.kind == "all-to-allv" and even.what.bytes_matrix[0, 4] == 1 << 19
    assert il.plan(step).certificate().valid


def test_a_routing_moves_one_copy_of_a_token_per_rank() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    routing = il.traffic.moe_routing(cluster, experts=8, top_k=2, tokens=16, seed=0)
    step = il.step(cluster)
    step.move("dispatch", routing, bytes_per_token="4 KiB")

    assert step.tasks[0].what == routing.to_demand(4096, copies="rank")


BAD = [
    (lambda s, c: s.move("b", il.all_gather("1 MiB", group=[0, 99])), r"task 'b': ranks names rank 99.*8 ranks"),
    (lambda s, c: s.compute("b", "1 ms", ranks=[0, 0]), "each once"),
    (lambda s, c: s.move("a", il.all_gather("1 MiB")), "name='a' is taken"),
    (lambda s, c: s.move("b", il.traffic.matrix([[0, 1], [1, 0]])), "2 ranks but the cluster has 8"),
    (lambda s, c: s.move("b", il.traffic.matrix([[0, 1], [1, 0]]), ranks=[0, 1, 2]), "names 3"),
    (lambda s, c: s.move("b", il.all_gather("1 MiB", group=[0, 1]), ranks=[0, 2]), "differ"),
    (lambda s, c: s.move("b", "all-gather"), "must be a collective, demand or routing"),
    (lambda s, c: s.move("b", il.all_gather("1 MiB"), after=7), "after='7'"),
    (lambda s, c: s.move("b", il.all_gather("1 MiB"), after=il.step(c).compute("x", 0)), "of another step"),
    (lambda s, c: s.compute("b", "-1 ms"), "seconds"),
    (lambda s, c: s.compute("", "1 ms"), "printable"),
    (lambda s, c: (s.compute("b", "1 ms", after="nobody"), s.problem()), "after names 'nobody'"),
    (
        lambda s, c: (
            s.compute("b", 0, after="c"),
            s.compute("c", 0, after="d"),
            s.compute("d", 0, after="b"),
            s.problem(),
        ),
        "circle: 'b' after 'c' after 'd' after 'b'",
    ),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_tasks_are_refused_in_words(number: int) -> None:
    make, words = BAD[number]
    cluster = il.cluster("h200", servers=2, gpus_per_server=4)
    step = il.step(cluster)
    step.compute("a", "1 ms")

    with pytest.raises(il.InvalidInput, match=words):
        make(step, cluster)


def test_a_step_is_planned_by_its_own_ways_only() -> None:
    with pytest.raises(il.InvalidInput, match="does not plan a step"):
        il.plan(layer(), algorithm="fast")
    with pytest.raises(il.InvalidInput, match="without 'traffic'"):
        il.plan(layer(), il.traffic.matrix([[0]]))
    with pytest.raises(il.InvalidInput, match="no tasks"):
        il.plan(il.step(il.cluster("h200", servers=2)))
    with pytest.raises(il.InvalidInput, match="must be a cluster"):
        il.step("h200")


def test_a_step_comes_back_from_its_file(tmp_path: Path) -> None:
    plan = il.plan(layer())
    plan.save(tmp_path / "step.ilk")

    again = il.load(tmp_path / "step.ilk")

    assert again.certificate() == plan.certificate()
    assert again.simulate().tasks == plan.simulate().tasks
    assert [task.after for task in again.problem.step.tasks] == [task.after for task in plan.problem.step.tasks]
