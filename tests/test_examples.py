"""Every example runs as its first lines say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_training_with_plans_gives_the_losses_of_torchs_own_call() -> None:
    words = [sys.executable, "-W", "error::FutureWarning", str(EXAMPLES / "moe_training.py"), "--steps", "3"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    torch_line, our_line, verdict = done.stdout.splitlines()
    assert torch_line.split("; ")[0].split(": ")[1] == our_line.split("; ")[0].split(": ")[1]
    assert verdict.endswith("True")


def test_no_example_is_untested() -> None:
    assert [file.name for file in sorted(EXAMPLES.glob("*.py"))] == ["moe_training.py"]
