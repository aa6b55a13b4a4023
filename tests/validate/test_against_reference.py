"""Whatever is done to a schedule, the validator and a slow, obvious one agree on whether it is right."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from validate.cases import COLLECTIVE, PLAIN
from validate.mutants import (
    DOUBTFUL,
    HARMLESS,
    change_dependency,
    change_stage,
    drop_message,
    forget_dependency,
    swap_order,
)
from validate.reference import is_valid

CASES = [build() for build in [*PLAIN, *COLLECTIVE]]
CHANGES = [*DOUBTFUL, *HARMLESS, forget_dependency, drop_message, change_stage, change_dependency, swap_order]


@settings(max_examples=1000)
@given(
    case=st.sampled_from(range(len(CASES))),
    changes=st.lists(st.sampled_from(range(len(CHANGES))), min_size=1, max_size=4),
    barriers=st.lists(st.integers(0, 6), max_size=2, unique=True),
    seed=st.integers(0, 2**32),
)
def test_changed_schedules_are_judged_as_the_reference_does(
    case: int, changes: list[int], barriers: list[int], seed: int
) -> None:
    mutant, random = CASES[case].clone(), Random(seed)
    mutant.barriers = sorted({*mutant.barriers, *barriers})
    for change in changes:
        mutant = CHANGES[change](mutant, random) or mutant
    expected = is_valid(mutant)
    report = mutant.check()
    assert report.valid == expected, f"{mutant.name}: {report}\n" + "\n".join(map(str, enumerate(mutant.rows)))
