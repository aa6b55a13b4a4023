"""The committed stub of the native core is the one its module generates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_committed_stub_matches_the_built_core() -> None:
    tool = Path(__file__).parent.parent / "tools" / "stub.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
