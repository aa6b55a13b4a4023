"""Fixtures that many tests share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import interlock as il

# Timings are never asserted, and the same examples are tried on every machine.
settings.register_profile(
    "default", deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("default")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real topologies, traces and schedules beside the repository; not part of it."""
    folder = Path(__file__).parent.parent.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("../shared/data is not here")
    return folder


@pytest.fixture
def hears_ctrl_c() -> Iterator[None]:
    """What a test starts hears Ctrl-C, even where pytest ignores it, as a shell's background jobs do."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def h200_2x4() -> il.Cluster:
    """Two servers of four GPUs."""
    return il.cluster("h200", servers=2, gpus_per_server=4)


@pytest.fixture
def h200_4x8() -> il.Cluster:
    """The default problem's cluster."""
    return il.cluster("h200", servers=4)
