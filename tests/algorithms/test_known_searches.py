"""Searches change only when somebody means them to."""

from __future__ import annotations

import json

import pytest
from tests.algorithms.known_searches import FILE, looked_at, problems

PROBLEMS = problems()
KNOWN = json.loads(FILE.read_text())


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_way_is_followed_as_it_was_looked_at(name: str) -> None:
    found = looked_at(PROBLEMS[name])
    assert list(found) == list(KNOWN[name]), "other ways fit; see tests/algorithms/known_searches.py"
    for way, by_limit in found.items():
        known = KNOWN[name][way]
        for limit, values in by_limit.items():
            assert values == pytest.approx(known[limit], rel=1e-5), f"{way}; see tests/algorithms/known_searches.py"


def test_every_known_search_is_looked_at() -> None:
    assert list(PROBLEMS) == list(KNOWN)
