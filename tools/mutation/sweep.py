"""Which tests would not notice a wrong answer? python tools/mutation/sweep.py LOG [--seed 0] [--seconds 3] [tests/...]

One case of every test function, drawn by `--seed`, runs in forks of one process (`answers.py` has what happens in a
fork). The first writes down what the test itself calls: functions of the package, kernels, commands, files, what was
printed. In the others one of these, the last first, answers something else of its kind, or does nothing where it raised
or returned nothing, until an assertion of the test fails. Any other error only says that something broke.

Who stays green, or only breaks, is a suspect to be read: answers made while modules are imported, and what commands
compute in processes of their own, cannot be changed. Tests that take longer than `--seconds`, fail or skip are left
out. The log is resumable; its lines also tell which assertions of the test held at all.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import answers
import hypothesis
import pytest

MOST_SECONDS = 10.0  # of processor time for the forks of one test
FEW = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
OPTIONS = ["-n0", "-q", "-p", "sweep", "-o", "enable_assertion_pass_hook=true"]
noticed = {"failed": "", "skipped": ""}
held: set[int] = set()  # lines of assertions


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One case of every function, in an order of chance: what was tried when time runs out is a sample too."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    dice = random.Random(int(os.environ["SWEEP_SEED"]))
    items[:] = [dice.choice(found) for found in cases.values()]
    dice.shuffle(items)


def pytest_assertion_pass(lineno: int) -> None:
    held.add(lineno)


def pytest_exception_interact(call: pytest.CallInfo[object]) -> None:
    """Whether an assertion of the tests failed, or something else."""
    assert call.excinfo is not None
    error: BaseException = call.excinfo.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    is_outside = not str(call.excinfo.traceback[-1].path).startswith(answers.SOURCE)
    looked = is_outside and isinstance(error, AssertionError | pytest.fail.Exception)
    noticed["failed"] = "assertion" if looked else f"error {type(error).__name__}"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped:
        noticed["skipped"] = str(report.longrepr)[-200:]
    if report.failed:
        noticed["failed"] = noticed["failed"] or "error"


def forked(item: pytest.Item, change: answers.Change | None, limit_s: float) -> dict:
    """What came of a test in a fork."""
    out = Path(tempfile.gettempdir()) / f"sweep-{os.getpid()}.json"
    out.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _run(item, change, limit_s, out)
    os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # whatever the test left running
    return dict(json.loads(out.read_text())) if out.is_file() else {"failed": "too long, or dead", "skipped": ""}


def _run(item: pytest.Item, change: answers.Change | None, limit_s: float, out: Path) -> None:
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s) + 1, int(limit_s) + 2))
    signal.alarm(int(20 * limit_s) + 30)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    if hasattr(getattr(item, "obj", None), "hypothesis"):  # a few examples, and none made smaller
        own = item.obj._hypothesis_internal_use_settings
        few = hypothesis.settings(own, max_examples=min(5, own.max_examples), phases=FEW)
        item.obj._hypothesis_internal_use_settings = few
    answers.seen.clear()  # what modules called when they were imported
    answers.active = change
    try:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    except BaseException as error:
        noticed["failed"] = noticed["failed"] or f"error {type(error).__name__}"
    answers.active = answers.Change("", "", 0, 0)
    seconds = round(sum(os.times()[:4]), 2)
    out.write_text(json.dumps({**noticed, "lines": sorted(held), "seconds": seconds, "changes": answers.changes()}))
    os._exit(0)


def sweep(item: pytest.Item, seconds: float) -> dict[str, object]:
    """A line of the log."""
    plain = forked(item, None, seconds)
    said = {"test": item.nodeid, "seconds": plain.get("seconds"), "lines": plain.get("lines")}
    if plain["failed"] or plain["skipped"]:
        return {**said, "verdict": "left out", "why": plain["failed"] or plain["skipped"]}
    changes = [answers.Change(*change) for change in plain["changes"]]
    tried: list[str] = []
    for change in changes[: int(MOST_SECONDS / (plain["seconds"] + 0.1))]:
        came = forked(item, change, 3 * plain["seconds"] + 3)["failed"]
        tried.append(f"{tuple(change)}: {came or 'green'}")
        if came == "assertion":
            return {**said, "verdict": "looks", "tried": tried[-1:], "untried": 0}
    verdict = "suspect" if tried else "calls nothing"
    return {**said, "verdict": verdict, "tried": tried, "untried": len(changes) - len(tried)}


def pytest_runtestloop(session: pytest.Session) -> bool:
    log = Path(os.environ["SWEEP_LOG"])
    lines = log.read_text().splitlines() if log.is_file() else []
    known = {json.loads(line)["test"].split("[")[0] for line in lines}
    gc.collect()
    gc.freeze()  # forks share what is there
    for item in session.items:
        if item.nodeid.split("[")[0] not in known:
            row = sweep(item, float(os.environ["SWEEP_SECONDS"]))
            with log.open("a") as file:
                file.write(json.dumps(row) + "\n")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("tests", nargs="*", default=["tests"])
    parser.add_argument("--seed", default="0")
    parser.add_argument("--seconds", default="3", help="of processor time that a test may take")
    options = parser.parse_intermixed_args()
    log = options.log.resolve()
    asked = {"SWEEP_SEED": options.seed, "SWEEP_SECONDS": options.seconds, "SWEEP_LOG": str(log)}
    with tempfile.TemporaryDirectory() as fresh:  # of compiled tests: others' do not tell which assertions hold
        paths = {"PYTHONPATH": str(Path(__file__).parent), "PYTHONPYCACHEPREFIX": fresh}
        command = [sys.executable, "-m", "pytest", *OPTIONS, *options.tests]
        subprocess.run(command, cwd=answers.ROOT, env={**os.environ, **asked, **paths}, stdout=subprocess.DEVNULL)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for row in rows:
        if row["verdict"] in ("suspect", "calls nothing"):
            print(row["test"], row["verdict"], f"{row['untried']} untried", *row["tried"][:3], sep="  ")
    print(dict(Counter(row["verdict"] for row in rows)))


if __name__ == "__main__":
    main()
if "SWEEP_LOG" in os.environ:
    answers.install()
