"""Bounds change only when somebody means them to."""

from __future__ import annotations

import json

import pytest
from tests.cost.known_bounds import FILE, looked_at, problems

PROBLEMS = problems()
KNOWN = json.loads(FILE.read_text())


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_part_of_a_bound_is_as_it_was_looked_at(name: str) -> None:
    found = looked_at(PROBLEMS[name])
    assert list(found) == list(KNOWN[name]), "see tests/cost/known_bounds.py"
    assert found == pytest.approx(KNOWN[name], rel=1e-7), "see tests/cost/known_bounds.py"


def test_every_known_bound_is_looked_at() -> None:
    assert list(PROBLEMS) == list(KNOWN)
