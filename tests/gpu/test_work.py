"""Work lists do what their plan promises, whatever order warps take steps in, in one process and in several."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import interlock as il
from gpu.interpreter import Bytes, Machine, buffers
from interlock.algorithms import registry
from interlock.errors import InvalidInput
from interlock.gpu.work import landings, make_work
from interlock.planning import Plan, solve
from interlock.problem import Problem
from interlock.schedule import Layout
from strategies import problems

MOST_BYTES = 3_000_000


def _expected(problem: Problem, inputs: list[Bytes]) -> list[Bytes]:
    """What every rank must end with: the sum of what contributors hold of each item, end to end."""
    layouts = [Layout.packed(problem, rank) for rank in range(problem.num_ranks)]
    total = {int(i): np.zeros(int(n), np.uint8) for i, n in enumerate(problem.items.size_bytes)}
    for layout, data in zip(layouts, inputs, strict=True):
        for item, start, length in zip(layout.input.item, layout.input.start, layout.input.length, strict=True):
            total[int(item)] += data[start : start + length]
    made = []
    for layout in layouts:
        parts = [total[int(item)] for item in layout.output.item]
        made.append(np.concatenate(parts) if parts else np.zeros(0, np.uint8))
    return made


def _check(plan: Plan, *, in_one_process: bool, num_warps: int, chunk_bytes: int, launches: int = 2) -> None:
    count = plan.problem.num_ranks
    programs = [plan.program(rank, rounds=True) for rank in range(count)]
    columns = [program.columns for program in programs]
    landing = dict(enumerate(landings(columns)))
    if in_one_process:
        works = [make_work(dict(enumerate(columns)), landing, count, chunk_bytes=chunk_bytes)]
    else:
        works = [
            make_work({rank: columns[rank]}, {rank: landing[rank]}, count, chunk_bytes=chunk_bytes)
            for rank in range(count)
        ]
    flags = {rank: np.zeros(len(made), np.uint32) for work in works for rank, made in work.flags_by_rank.items()}
    machine = Machine([], flags)
    rng = np.random.default_rng(0)
    for _ in range(launches):
        held = [buffers(p.input_bytes, p.output_bytes, p.scratch_bytes, rng) for p in programs]
        machine.spaces = [space for spaces in held for space in spaces]
        wanted = _expected(plan.problem, [spaces[0].copy() for spaces in held])
        machine.launch(works, num_warps)
        for rank in range(count):
            assert np.array_equal(held[rank][1], wanted[rank]), (plan.algorithm, rank)


@settings(max_examples=40)
@given(problems(max_servers=3, max_gpus=3, max_ranks=6), st.sampled_from([1, 2, 5]), st.data())
def test_every_algorithm_is_right_on_a_device(problem: Problem, num_warps: int, data: st.DataObject) -> None:
    assume(int(problem.items.size_bytes.sum()) <= MOST_BYTES)
    name = data.draw(st.sampled_from(registry.supported(problem)))
    plan = solve(problem, name)
    _check(plan, in_one_process=True, num_warps=num_warps, chunk_bytes=65_536)
    if problem.num_ranks > 1:
        _check(plan, in_one_process=False, num_warps=num_warps, chunk_bytes=65_536)


@pytest.mark.parametrize("in_one_process", [True, False])
def test_messages_are_cut_into_chunks(in_one_process: bool) -> None:
    ring = il.synthesize(il.topology.ring(3, bandwidth="50 GB/s"), il.all_reduce("30 kB"), algorithm="ring")
    _check(ring, in_one_process=in_one_process, num_warps=3, chunk_bytes=777, launches=3)


def test_programs_that_do_not_match_are_refused() -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=2)
    plan = il.plan(cluster, il.traffic.uniform(cluster, "1 kB"), algorithm="direct")
    first, second = (dict(plan.program(rank).columns) for rank in range(2))
    second["receive_tag"] = second["receive_tag"] + 1
    with pytest.raises(InvalidInput, match="does not expect it"):
        landings([first, second])


def test_who_is_stuck_is_said_in_words() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    plan = il.plan(cluster, il.traffic.uniform(cluster, "1 MB"), algorithm="pxn")
    columns = [plan.program(rank, rounds=True).columns for rank in range(4)]
    work = make_work(dict(enumerate(columns)), dict(enumerate(landings(columns))), 4)
    waiting = int(np.argmax(work.chunks["end_wait"] > work.chunks["first_wait"]))
    flag = int(work.waits[work.chunks[waiting]["first_wait"]]["flag"])
    words = work.describe(waiting, flag)
    assert re.fullmatch(r"message \d from rank \d to rank \d waited for message \d from rank \d to arrive", words)


@pytest.mark.parametrize("in_one_process", [True, False])
@pytest.mark.parametrize("name", ["direct", "multitree"])
def test_sums_that_meet_in_one_place_are_whole(name: str, in_one_process: bool) -> None:
    graph = il.topology.fully_connected(5, bandwidth="50 GB/s")
    plan = il.synthesize(graph, il.all_reduce("1 kB"), algorithm=name)
    _check(plan, in_one_process=in_one_process, num_warps=4, chunk_bytes=100)
