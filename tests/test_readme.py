"""README's table is what this build prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_printed_table_is_up_to_date() -> None:
    tool = Path(__file__).parent.parent / "tools" / "readme.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
