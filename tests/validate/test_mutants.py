"""The validator has teeth: it catches every harmful change to a valid schedule, and no harmless one."""

from __future__ import annotations

import zlib
from collections import Counter
from random import Random

import pytest

from validate.cases import COLLECTIVE, PLAIN
from validate.mutants import DOUBTFUL, HARMFUL, HARMLESS, Change
from validate.reference import is_valid
from validate.rows import Case

REPEATS_PLAIN, REPEATS_COLLECTIVE = 200, 80


def mutants_of(case: Case, change: Change, count: int) -> list[Case]:
    """Up to `count` changed copies, the same on every machine."""
    random = Random(zlib.crc32(f"{case.name} {change.__name__}".encode()))
    made = (change(case.clone(), random) for _ in range(count))
    return [mutant for mutant in made if mutant is not None]


@pytest.mark.parametrize(
    ("builders", "repeats"), [(PLAIN, REPEATS_PLAIN), (COLLECTIVE, REPEATS_COLLECTIVE)], ids=["plain", "collective"]
)
def test_ten_thousand_harmful_mutants_are_all_caught(builders: list, repeats: int) -> None:
    """Copies of All-to-All and All-Gather; and as many of reductions, multicasts and process groups."""
    caught: Counter[str] = Counter()
    for case in (build() for build in builders):
        for change in HARMFUL:
            for mutant in mutants_of(case, change, repeats):
                report = mutant.check()
                assert not report.valid, f"{case.name}: {change.__name__} went unnoticed"
                assert report.violations[0].text
                caught[change.__name__] += 1
    assert caught.total() >= 10_000
    print(f"{caught.total()} harmful mutants caught: {dict(caught)}")


@pytest.mark.parametrize("build", [*PLAIN, *COLLECTIVE], ids=lambda build: build().name)
def test_what_is_harmful_is_so_in_the_slow_reference_too(build) -> None:
    case = build()
    assert is_valid(case)
    for change in HARMFUL:
        for mutant in mutants_of(case, change, 3):
            assert not is_valid(mutant), change.__name__


@pytest.mark.parametrize("build", [*PLAIN, *COLLECTIVE], ids=lambda build: build().name)
def test_doubtful_mutants_are_judged_as_the_slow_reference_does(build) -> None:
    case = build()
    judged = set()
    for change in DOUBTFUL:
        for mutant in mutants_of(case, change, 25):
            expected = is_valid(mutant)
            assert mutant.check().valid == expected, f"{change.__name__}: the reference says {expected}"
            judged.add(expected)
    assert judged == {True, False}


@pytest.mark.parametrize("build", [*PLAIN, *COLLECTIVE], ids=lambda build: build().name)
def test_harmless_mutants_pass(build) -> None:
    case = build()
    assert case.check().valid
    scratch = sorted(case.check().scratch_bytes.tolist())
    for change in HARMLESS:
        for mutant in mutants_of(case, change, 20):
            report = mutant.check()
            assert report.valid, f"{change.__name__}: {report}"
            assert sorted(report.scratch_bytes.tolist()) == scratch
