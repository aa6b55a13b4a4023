"""Plans change only when somebody means them to."""

from __future__ import annotations

import json

import pytest
from tests.algorithms.known_plans import FILE, looked_at, problems

PROBLEMS = problems()
KNOWN = json.loads(FILE.read_text())


@pytest.mark.parametrize("name", PROBLEMS)
def test_plans_are_those_that_were_looked_at(name: str) -> None:
    found = looked_at(PROBLEMS[name])
    assert list(found) == list(KNOWN[name])
    for algorithm, values in found.items():
        known = pytest.approx(KNOWN[name][algorithm], rel=1e-5)
        assert values == known, f"{algorithm}; see tests/algorithms/known_plans.py"


def test_every_known_plan_is_looked_at() -> None:
    assert list(PROBLEMS) == list(KNOWN)
