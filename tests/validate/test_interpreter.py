"""An interpreter written from the words of the format agrees with the validator, on schedules and their mutants.

`PYTHONPATH=tests python tests/validate/test_interpreter.py 200000` compares them that many times, and says
how often both said what.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from interlock.algorithms import registry
from interlock.planning import solve
from interlock.problem import Problem
from interlock.validate import check
from steps.mutants import small_steps
from strategies import problems
from validate.cases import COLLECTIVE, PLAIN
from validate.interpreter import fault_of, fault_of_table
from validate.mutants import DOUBTFUL, HARMFUL, HARMLESS, drop_message, wait_needlessly
from validate.rows import WAIT, Case
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
    """By row, whether it names what does not exist."""
    return [
        not all(0 <= dep < len(case.rows) for dep in row.deps)
        or not all(0 <= rank < case.topology.num_ranks for rank in row.src + row.dst)
        or not all(0 <= link < case.topology.num_links for link in row.path)
        or not all(
            0 <= item < len(case.sizes) and offset >= 0 and 0 < length <= case.sizes[item] - offset
            for item, offset, length in row.pieces
        )
        for row in case.rows
    ]


def mutants_agree(case: Case, random: Random, count: int) -> Counter[bool]:
    return Counter(agree(change(case, random)) for _ in range(count))


def compare_made_by_hand(count: int, start: int) -> Counter[bool]:
    """Mutants of the schedules of `cases`."""
    each = -(-count // len(CASES))
    return sum((mutants_agree(case, Random(start + k), each) for k, case in enumerate(CASES)), Counter[bool]())


def compare_algorithms(count: int, start: int) -> Counter[bool]:
    """Schedules of every algorithm for small problems, and their mutants."""
    said: Counter[bool] = Counter()

    @seed(start)
    @settings(max_examples=-(-count // 10), database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        problem=problems(max_servers=3, max_gpus=2, max_ranks=5),
        choice=st.integers(0, 2**16),
        luck=st.integers(0, 2**32),
    )
    def compare(problem: Problem, choice: int, luck: int) -> None:
        names = registry.supported(problem)
        if not names or said.total() >= count:
            return
        name = names[choice % len(names)]
        case = Case.of(solve(problem, name).schedule, problem, name)
        assert agree(case)
        said[True] += 1
        if 0 < len(case.rows) <= MOST_ROWS and min(case.sizes, default=0) > 0:
            said.update(mutants_agree(case, Random(luck), CHANGES_OF_ONE))

    compare()
    return said


def compare_slot_tables(count: int, start: int) -> Counter[bool]:
    """Slot tables of rings and their mutants, as a table and written out."""
    random, said = Random(start), Counter[bool]()
    for _ in range(count):
        collective = random.choice(COLLECTIVES)
        problem = ring_problem(random.randint(2, 4), collective)
        schedule = ring_schedule(problem, collective)
        table = schedule.table
        for _ in range(random.randint(0, 3)):
            slot, link = random.randrange(len(table)), random.randrange(table.shape[1])
            table[slot, link] = random.choice([REST, random.randrange(len(schedule.chunks))])
        if random.random() < 0.3:
            a, b = random.randrange(len(table)), random.randrange(len(table))
            table[[a, b]] = table[[b, a]]
        fault, report = fault_of_table(schedule, problem), check(schedule, problem)
        assert report.valid == (fault is None), f"{fault}\n{report}\n{table}"
        # Written out, messages wait for each other, not for slots: a sum that comes in the slot in which it must leave
        # is refused in the table and in order here. The other way round is never so.
        assert agree(Case.of(schedule.expand(), problem, collective)) or not report.valid, f"{report}\n{table}"
        said[report.valid] += 1
    return said


def compare_steps(count: int, start: int) -> Counter[bool]:
    """Small steps planned in every way, and their mutants."""
    random = Random(start)
    cases = [Case.of(schedule, problem, "step") for schedule, problem in small_steps()]
    assert all(agree(case) for case in cases)
    return Counter(agree(change_step(random.choice(cases).clone(), random)) for _ in range(count))


def change_step(case: Case, random: Random) -> Case:
    """One or two changes of what only steps have, or of dependencies, which carry their order."""
    assert case.step is not None
    for _ in range(random.randint(1, 2)):
        row = random.choice(case.rows)
        wait = random.choice([row for row in case.rows if row.kind == WAIT])
        how = random.randrange(8)
        if how == 0 and row.deps:
            row.deps.remove(random.choice(row.deps))
        elif how == 1:
            other = random.choice([k for k, any_row in enumerate(case.rows) if any_row is not row])
            row.deps = sorted({*row.deps, other})
        elif how == 2:
            wait.seconds *= random.choice([0.0, 0.5, 0.999, 2.0])
        elif how == 3:
            row.task = random.randint(0 if row.kind != WAIT else -1, len(case.step.tasks) - 1)
        elif how == 4:
            row.stage = random.choice(case.rows).stage
        elif how == 5:
            wait.src = wait.dst = [random.randrange(case.topology.num_ranks)]
        elif how == 6:
            wait_needlessly(case, random)
        elif how == 7:
            drop_message(case, random)
        for index, other_row in enumerate(case.rows):  # what waits for itself is no schedule
            other_row.deps = [dep for dep in other_row.deps if dep != index]
    return case


PARTS = {  # of every comparison
    compare_made_by_hand: 0.4,
    compare_algorithms: 0.45,
    compare_slot_tables: 0.1,
    compare_steps: 0.05,
}
IN_CI = 10_000


@pytest.mark.parametrize("compare", PARTS, ids=lambda compare: compare.__name__)
def test_the_interpreter_agrees_with_the_validator(compare: Callable[[int, int], Counter[bool]]) -> None:
    said = compare(int(IN_CI * PARTS[compare]), 0)
    assert said.total() >= IN_CI * PARTS[compare]
    assert min(said.values()) > 0.1 * said.total()  # both answers are given often


def main(count: int, start: int, only: list[str]) -> None:
    """Any number of comparisons by hand, of all parts or some."""
    for compare, part in PARTS.items():
        if only and compare.__name__ not in only:
            continue
        said = compare(int(count * part), start)
        print(f"{compare.__name__}: both said right {said[True]} times, wrong {said[False]} times", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1, sys.argv[3:])
