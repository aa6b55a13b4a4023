"""The core called with arguments that no algorithm gives it: refused, and never a crash or an endless loop.

Each function is called in a process of its own, with real arguments of which a few numbers are changed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import interlock as il
from interlock._native import _core
from interlock.errors import InterlockError

SETUP = """
import itertools, numpy as np
from interlock._native import _core
from interlock.errors import InterlockError
i32, i64, f8 = (lambda x: np.array(x, np.int32)), (lambda x: np.array(x, np.int64)), (lambda x: np.array(x, float))
links = i32([0,1,2,3,0,2,1,3]), i32([2,3,0,1,1,3,0,2])
graph = (4, 8, *links, i64(range(9)), i32(range(8)), i64([0]*8), f8([1000.0]*8), f8([1.0]*8))
ODD = {bool: [True], float: [float("inf"), float("nan"), -1.0, 0.0, 1e300], int: [-1, 0, 2**31 - 1, -(2**31)]}
ODD_ENTRIES = {"i": [-1, 2**31 - 1, 10**6], "f": [np.inf, np.nan, -1.0, 0.0, 1e300], "u": [255]}

def mutants(value):
    if isinstance(value, tuple):
        for place, part in enumerate(value):
            yield from ((*value[:place], changed, *value[place + 1:]) for changed in mutants(part))
    elif isinstance(value, np.ndarray):
        yield value[:0]
        yield value[:-1]
        yield np.append(value, value[:1])
        for odd in ODD_ENTRIES[value.dtype.kind] + ([2**62, -2**62] if value.dtype == np.int64 else []):
            for place in {0, len(value) - 1} if len(value) else ():
                changed = value.copy(); changed[place] = odd; yield changed
    else:
        yield from ODD[type(value)]

def attack(function, *arguments):
    refused = allowed = 0
    for changed in mutants(arguments):
        try:
            function(*changed); allowed += 1
        except (InterlockError, TypeError, ValueError, OverflowError, MemoryError):
            refused += 1
    print(refused, allowed)
"""
CALLS = {
    "share_trees": "i32(range(4)), i64([225]*4), np.ones(4, np.uint8), i32([0]*4), i32([]), f8([9e5]*8), 1., .01, 9",
    "share_trees, empty": "i32(range(4)), i64([225]*4), np.zeros(0, np.uint8), *[i32([])] * 2, f8([9e5]*8), 1., 1., 9",
    "route_paths": "i32([0]*6), i32([1,1,2,2,3,3]), i64([113,112]*3), 6, 1, 1.0, 0, i64([0]*8)",
    "eccentricities": "1000",
    "alike_trees": "i32([0,1,2,3]), 1000, False",
}


@pytest.mark.parametrize("name", CALLS)
def test_odd_arguments_are_refused_or_borne(name: str) -> None:
    code = f"{SETUP}\nattack(_core.{name.split(',')[0]}, graph, {CALLS[name]})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[0]) > 10  # most are refused


def test_every_function_bears_or_refuses_changed_arguments() -> None:
    """Real calls of all of them, changed; more of these, and under AddressSanitizer, by tools/fuzz_core.py itself."""
    tool = Path(__file__).parents[1] / "tools" / "fuzz_core.py"
    words = [sys.executable, str(tool), "--calls", "500", "--seconds", "240"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]


def test_numbers_whose_sums_would_wrap_are_refused() -> None:
    i32, i64 = (lambda *values: np.array(values, np.int32)), (lambda *values: np.array(values, np.int64))
    far = 2**62
    for offset, length in ((far, 1), (1, far), (-1, 2), (2**63 - 1, 2**63 - 1)):
        with pytest.raises(InterlockError, match=r"between 0 and 2\^62"):
            _core.align_cuts(i64(0, 1), i64(1), i32(0), i64(offset), i64(length), 16)

    with pytest.raises(InterlockError, match=r"messages must have between 0 and 2\^62"):
        _core.align_cuts(i64(0, 1), i64(2**63 - 1), i32(0), i64(0), i64(1), 16)

    def schedule(overhead: int, latency: int, ticks: int) -> int:
        lanes = (i64(0, 1), i32(0), np.ones(1), np.ones(1), i64(overhead), i64(latency))
        tasks = (i32(0, 0), i64(ticks, 1))
        return _core.list_schedule(1, *lanes, *tasks, i64(0, 1, 1), i32(1), i64(0, 0), 1, 0, i64(), i32(0), 0, 1)[3]

    assert schedule(1, 2, 10) >= 13
    for times in ((far, 0, 0), (0, far, 0), (0, 0, 2**63 - 1), (-1, 0, 0), (0, -1, 0)):
        with pytest.raises(InterlockError, match=r"below 4e18 together|not be negative"):
            schedule(*times)

    ring, held = (i32(0, 1), i32(1, 0)), np.array([[1], [0]], np.uint64)
    holders, table = np.array([1], np.uint32), np.zeros((2, 2), np.uint16)
    with pytest.raises(InterlockError, match=r"first_round must be at most 2\^62"):
        _core.match_rounds(*ring, held, holders, i32(0, 1), table, 1, 2**63 - 1, 0, 1)
    with pytest.raises(InterlockError, match="no chunks beyond the last"):
        _core.match_rounds(*ring, held + np.uint64(2), holders, i32(0, 1), table, 1, 0, 0, 1)
    with pytest.raises(InterlockError, match=r"at most 2\^62"):
        _core.decompose(np.array([[0, 2**62], [1, 0]], np.int64))


def test_distances_between_very_many_nodes_are_refused_before_they_are_searched() -> None:
    none, graph = np.zeros(0, np.int32), lambda nodes: (nodes, 1, none, none, *columns)
    columns = np.zeros(1, np.int64), none, np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    assert set(_core.eccentricities(graph(1000), 1)) == {-1}
    with pytest.raises(InterlockError, match="at most 16,384 nodes"):
        _core.eccentricities(graph(1_000_000), 1)


def test_demands_of_exabytes_are_cut_without_wrapping() -> None:
    cluster = il.cluster("h200", servers=3, gpus_per_server=4)
    rows = np.full((12, 12), 2**62 // 144 - 1)
    rows[0, 11] = 3 * 2**53
    np.fill_diagonal(rows, 0)
    for algorithm in ("adaptive", "rails-split"):
        plan = il.plan(cluster, il.traffic.matrix(rows), algorithm)
        proof = plan.certificate(tolerance=1e-3)
        assert proof.valid and proof.makespan_s < 1.2 * proof.lower_bound_s


def test_drift_of_the_largest_numbers_does_not_wrap() -> None:
    before, now = np.full((2, 2), 2**63 - 1), np.full((2, 2), -(2**63))
    assert _core.sampled_drift(before, now, 2) == pytest.approx(2.0)
    assert _core.sampled_drift(np.full((2, 2), 4), np.full((2, 2), 3), 1) == 0.25
