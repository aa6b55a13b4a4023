"""The server that forks ranks is out of Ctrl-C's reach, and so is every rank until it ignores the signal."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
from multiprocessing import forkserver
from pathlib import Path

from interlock.interrupts import starting_processes

with starting_processes():
    forkserver.ensure_running()
status = Path(f"/proc/{forkserver._forkserver._forkserver_pid}/status").read_text()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk:")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_first_server_of_a_process_has_the_signal_blocked() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout, 16) >> 1 & 1  # SIGINT is signal 2
