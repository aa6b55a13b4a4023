"""A pytest plugin: maps mutants to the tests that reach them, or tries mutants in forks of one loaded process."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import mmap
import os
import resource
import signal
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

HITS = "MUTANT_HITS"  # a file: map
JOBS = "MUTANT_JOBS"  # a file of jobs: try them, and append what came of them to MUTANT_LOG
TESTS = "MUTANT_TESTS"  # a file of test names: run these, in this order
MEMORY_BYTES = 12 << 30
WAIT_S = 120.0


def forget() -> None:
    """Empty the caches of the package: a test reaches what it asks for, whoever asked before."""
    for name, module in list(sys.modules.items()):
        if name.startswith("interlock"):
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Write down the processor time of a test; what it reaches, `switch` writes."""
    if HITS not in os.environ:
        return (yield)
    sys.modules["interlock._mutant"].seen.clear()  # type: ignore[attr-defined]
    forget()
    start = sum(os.times()[:4])
    done = yield
    with Path(os.environ[HITS] + ".seconds").open("a") as file:
        file.write(f"{item.nodeid}\t{sum(os.times()[:4]) - start:.2f}\n")
    return done


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Tests that fail in the copy with no mutant on judge none."""
    if HITS in os.environ and report.failed:
        with Path(os.environ[HITS] + ".failed").open("a") as file:
            file.write(f"{report.nodeid}\n")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only the tests that were named, in that order."""
    if TESTS in os.environ:
        by_name = {item.nodeid: item for item in items}
        items[:] = [by_name[name] for name in Path(os.environ[TESTS]).read_text().splitlines() if name in by_name]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Try every job in a fork: its mutant on, its tests until one fails."""
    if JOBS not in os.environ:
        return None
    if session.testsfailed:
        pytest.exit("not all tests can be collected", returncode=3)
    by_name = {item.nodeid: item for item in session.items}
    gc.collect()
    gc.freeze()
    for line in Path(os.environ[JOBS]).read_text().splitlines():
        job = json.loads(line)
        items = [by_name[name] for name in job["tests"] if name in by_name]
        start = time.monotonic()
        outcome, by = _tried(session, job["mutant"], items, job["limit_s"])
        with Path(os.environ["MUTANT_LOG"]).open("a") as file:
            said = {"mutant": job["mutant"], "outcome": outcome, "by": by, "tests": len(items), "cap_s": job["cap_s"]}
            file.write(json.dumps({**said, "seconds": round(time.monotonic() - start, 2)}) + "\n")
    return True


def _tried(session: pytest.Session, mutant: int, items: list[pytest.Item], limit_s: float) -> tuple[str, str]:
    """What came of a mutant, and which test noticed. The limit is of processor time, as others may use the machine."""
    place = mmap.mmap(-1, 4)  # of the test that runs
    child = os.fork()
    if child == 0:
        _try(session, mutant, items, int(limit_s), place)
    end = time.monotonic() + WAIT_S + 10 * limit_s
    done, status = 0, 0
    while not done and time.monotonic() < end:
        time.sleep(0.02)
        done, status = os.waitpid(child, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # whatever the tests left running
    if not done:
        os.waitpid(child, 0)
    at = items[int.from_bytes(place[:4], "little")].nodeid
    if not done or os.WIFSIGNALED(status):
        return "too long" if not done or os.WTERMSIG(status) == signal.SIGXCPU else "killed", at
    return ("killed", at) if status else ("survived", "")


def _try(session: pytest.Session, mutant: int, items: list[pytest.Item], limit_s: int, place: mmap.mmap) -> None:
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.environ["MUTANT"] = str(mutant)
    sys.modules["interlock._mutant"].active = mutant  # type: ignore[attr-defined]
    forget()
    try:
        for number, item in enumerate(items):
            place[:4] = number.to_bytes(4, "little")
            following = items[number + 1] if number + 1 < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                os._exit(1)
    except BaseException:
        os._exit(2)
    os._exit(0)
