"""A rank that dies or stalls is named to every survivor in time, and a fresh group works."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import interlock as il
from interlock.lab.ranks import RankProcesses, Seat
from interlock.schedule import Phase
from rank_faults import Fault, try_fault

pytestmark = pytest.mark.torch

TIMEOUT_S = 6.0

CASES = [
    Fault(victim=1, phase=Phase.BALANCE),
    Fault(victim=0, phase=Phase.SCALE_OUT),
    Fault(victim=2, phase=Phase.REDISTRIBUTE),
    Fault(victim=3, phase=Phase.LOCAL),
    Fault(victim=2, phase=Phase.SCALE_OUT, signal=signal.SIGSTOP),
]


@pytest.mark.slow
@pytest.mark.parametrize("fault", CASES, ids=lambda fault: f"{fault.phase.name}-{fault.signal}".lower())
def test_survivors_name_the_rank_that_failed(fault: Fault) -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    demand = il.traffic.zipf(cluster, skew=1.0, bytes_per_gpu="400 kB", seed=1)
    with RankProcesses([Seat()] * 4, timeout_s=TIMEOUT_S) as ranks:
        verdict = try_fault(ranks, cluster, demand, "no-stage", fault, TIMEOUT_S)
    assert verdict.num_hanging == 0, verdict.words
    assert verdict.num_naming == 3, verdict.words
    assert verdict.works_again


@pytest.mark.slow
def test_survivors_under_real_launchers_name_who_was_killed_stopped_late_left_or_raised(tmp_path: Path) -> None:
    """Ten trials of the script: each kind under torchrun, and with the store on rank 0."""
    script = Path(__file__).parents[2] / "benchmarks" / "bench_rank_faults.py"
    words = [sys.executable, str(script), "--trials", "10", "--at-once", "5", "--json", str(tmp_path / "told.json")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
