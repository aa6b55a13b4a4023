"""The package itself: what importing it loads, and that every public name is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import interlock as il

TESTS = Path(__file__).parent
HEAVY = ("typer", "rich", "plotly", "torch", "highspy", "networkx", "scipy", "dask", "pyarrow")
USE_INPUTS = (
    "c = interlock.cluster('h200'); interlock.traffic.parse('moe', c);"
    "interlock.topology.torus(2, 2, bandwidth=1); c.topology; interlock.all_gather(8)"
)


@pytest.mark.parametrize("use", ["", USE_INPUTS])
def test_importing_and_describing_a_problem_loads_nothing_heavy(use: str) -> None:
    code = f"import sys, interlock; {use}\nprint(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert "interlock" in loaded and not [name for name in loaded if name.split(".")[0] in HEAVY]


def test_every_public_name_is_there_and_listed() -> None:
    assert dir(il) == sorted(il.__all__)
    for name in il.__all__:
        assert getattr(il, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'clutser'"):
        il.clutser  # noqa: B018


@pytest.mark.parametrize("package", [il.topology, il.traffic])
def test_public_names_of_inputs_exist(package: object) -> None:
    names = package.__all__  # type: ignore[attr-defined]
    assert names == sorted(names) and all(hasattr(package, name) for name in names)


def test_every_module_that_is_skipped_without_torch_is_run_once_torch_is_there() -> None:
    """`.ci/run` runs plain pytest without torch, then with it what is marked; a module without the mark never runs."""
    skipped = [
        page
        for page in TESTS.glob("**/test_*.py")
        if re.search(r'^(torch = )?pytest\.importorskip\("torch', page.read_text(), re.M)
    ]
    unmarked = [
        page.name for page in skipped if not re.search(r"^pytestmark = .*pytest\.mark\.torch\b", page.read_text(), re.M)
    ]

    assert skipped and unmarked == []


def test_ci_runs_the_second_command_of_the_readme_as_written() -> None:
    command = re.search(r"Tests: `(.*?)`", (TESTS.parent / "README.md").read_text())
    assert command is not None
    run = (TESTS.parent / ".ci" / "run").read_text()

    assert f"\n{command[1]} || exit 1\n" in run
    assert run.index(command[1]) < run.index("constraints.txt")
