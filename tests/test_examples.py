"""Every example runs as its first lines say."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
# What each prints when it went as it should.
LAST_WORDS = {
    "my_cluster_and_trace.py": "times as fast as direct",
    "why_is_it_slow.py": "adaptive is 1.39x faster than direct because its busiest link",
    "broken_torus.py": "read back, valid: True",
    "step_with_gradients.py": "valid: True True",
}


def output_of(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", LAST_WORDS)
def test_an_example_runs_and_says_what_it_should(name: str) -> None:
    assert LAST_WORDS[name] in output_of(str(EXAMPLES / name))


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_training_with_our_experts_gives_the_losses_of_torchs_own_call() -> None:
    words = ["-W", "error::FutureWarning", str(EXAMPLES / "moe_training.py"), "--steps", "12"]
    _, torch_losses, our_losses, *_, verdict = output_of(*words).splitlines()
    theirs, ours = ([float(word) for word in line.split()[1:]] for line in (torch_losses, our_losses))
    assert theirs == pytest.approx(ours, rel=1e-3) and theirs[-1] < theirs[0] - 1
    assert verdict.endswith("True")


def test_no_example_is_untested() -> None:
    assert {file.name for file in EXAMPLES.glob("*.py")} == {*LAST_WORDS, "moe_training.py"}
