"""Copied into the package under test: which mutant is on, and which ones a test reaches.

Every mutant of the sample stands in the copy beside the code it changes, as `changed if __mutant__(7) else original`.
"""

from __future__ import annotations

import builtins
import os

active = int(os.environ.get("MUTANT", "-1"))
seen: set[int] = set()


def on(number: int) -> bool:
    """Whether this mutant is on; notes once for each test that it was asked for."""
    if number not in seen:
        seen.add(number)
        if "MUTANT_HITS" in os.environ:
            line = f"{number}\t{os.environ.get('PYTEST_CURRENT_TEST', '').rpartition(' ')[0]}\n"
            file = os.open(os.environ["MUTANT_HITS"], os.O_APPEND | os.O_WRONLY | os.O_CREAT)
            os.write(file, line.encode())  # at once: a rank of a test may end without goodbye
            os.close(file)
    return number == active


builtins.__mutant__ = on  # type: ignore[attr-defined]
