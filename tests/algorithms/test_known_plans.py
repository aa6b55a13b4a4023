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
    for algorithm, (messages, ratio) in found.items():
        known = KNOWN[name][algorithm]
        assert [messages, pytest.approx(ratio, rel=1e-5)] == known, f"{algorithm}; see tests/algorithms/known_plans.py"


def test_every_known_plan_is_looked_at() -> None:
    assert list(PROBLEMS) == list(KNOWN)
