"""An interpreter written from the words of the format agrees with the validator, on schedules and their mutants."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from interlock.algorithms import registry
from interlock.planning import solve
from interlock.problem import Problem
from interlock.validate import check
from strategies import problems
from validate.cases import COLLECTIVE, PLAIN
from validate.interpreter import fault_of, fault_of_table
from validate.mutants import DOUBTFUL, HARMFUL, HARMLESS
from validate.rows import Case
from validate.test_slot_schedules import COLLECTIVES, REST, ring_problem, ring_schedule

CASES = [build() for build in [*PLAIN, *COLLECTIVE]]
MOST_ROWS = 60  # of a schedule that is changed: time to judge it grows with the square
CHANGES_OF_ONE = 50  # mutants of each schedule


def agree(case: Case) -> bool:
    """Whether a schedule is right, which both must say."""
    fault, report = fault_of(case), case.check()
    assert report.valid == (fault is None), f"{case.name}: {fault}\n{report}\n" + "\n".join(
        map(str, [case.barriers, *enumerate(case.rows)])
    )
    return report.valid


def change(case: Case, random: Random) -> Case:
    """One to three changes, one after the other, where they apply."""
    mutant = case.clone()
    for _ in range(random.randint(1, 3)):
        if not any(row.pieces for row in mutant.rows):
            break
        kinds = random.choice([DOUBTFUL, HARMFUL, HARMLESS])
        mutant = random.choice(kinds)(mutant.clone(), random) or mutant
        if any(fault_of_form(mutant)):
            break  # changes expect rows whose numbers exist
    return mutant


def fault_of_form(case: Case) -> list[bool]:
    """By row, whether it names what does not exist, or waits for itself."""
    return [
        not all(0 <= dep < len(case.rows) and dep != number for dep in row.deps)
        or not all(0 <= rank < case.topology.num_ranks for rank in row.src + row.dst)
        or not all(0 <= link < case.topology.num_links for link in row.path)
        or not all(
            0 <= item < len(case.sizes) and offset >= 0 and 0 < length <= case.sizes[item] - offset
            for item, offset, length in row.pieces
        )
        for number, row in enumerate(case.rows)
    ]


def mutants_agree(case: Case, seed: int, count: int) -> list[bool]:
    random = Random(seed)
    return [agree(change(case, random)) for _ in range(count)]


@settings(max_examples=200)
@given(
    problem=problems(max_servers=3, max_gpus=2, max_ranks=5), choice=st.integers(0, 2**16), seed=st.integers(0, 2**32)
)
def test_schedules_of_algorithms_and_their_mutants(problem: Problem, choice: int, seed: int) -> None:
    names = registry.supported(problem)
    assume(names)
    name = names[choice % len(names)]
    case = Case.of(solve(problem, name).schedule, problem, name)
    assert agree(case)
    if 0 < len(case.rows) <= MOST_ROWS and min(case.sizes, default=0) > 0:
        mutants_agree(case, seed, CHANGES_OF_ONE)


def test_mutants_of_schedules_made_by_hand() -> None:
    right = [said for seed, case in enumerate(CASES) for said in mutants_agree(case, seed, 150)]
    assert 0.1 < np.mean(right) < 0.6  # both answers are given often


@settings(max_examples=200)
@given(collective=st.sampled_from(COLLECTIVES), num_ranks=st.integers(2, 4), seed=st.integers(0, 2**32))
def test_slot_tables_and_their_mutants(collective: str, num_ranks: int, seed: int) -> None:
    random, problem = Random(seed), ring_problem(num_ranks, collective)
    for _ in range(5):
        schedule = ring_schedule(problem, collective)
        table = schedule.table
        for _ in range(random.randint(0, 3)):
            slot, link = random.randrange(len(table)), random.randrange(table.shape[1])
            table[slot, link] = random.choice([REST, random.randrange(len(schedule.chunks))])
        if random.random() < 0.3:
            a, b = random.randrange(len(table)), random.randrange(len(table))
            table[[a, b]] = table[[b, a]]
        faults = fault_of_table(schedule, problem), fault_of(Case.of(schedule.expand(), problem, collective))
        report = check(schedule, problem)
        assert [report.valid] * 2 == [fault is None for fault in faults], f"{faults}\n{report}\n{table}"
