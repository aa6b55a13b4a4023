"""The lab: namespaces come and go, ranks move every byte over shaped links, a pulled link is told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import interlock as il
from interlock.algorithms import registry
from interlock.lab import LabNetwork, LabSpec, check_available, compare_in_lab, ranks_in, reap, running
from interlock.lab.network import BURST_BYTES, LabUnavailable
from interlock.problem import demand_problem

needs_lab = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("tc")),
    reason="needs Linux, root and iproute2",
)
pytestmark = pytest.mark.root


def namespaces() -> list[str]:
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.split()


def pids_in(namespace: str) -> list[str]:
    return subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True).stdout.split()


@pytest.fixture
def small_spec() -> LabSpec:
    """Two servers of two, fast enough for tests."""
    return LabSpec(2, 2, 200e6 / 8, 1000e6 / 8)


@needs_lab
def test_a_lab_leaves_nothing_behind(small_spec: LabSpec) -> None:
    before = set(namespaces())
    with LabNetwork(small_spec) as network:
        made = set(namespaces()) - before
        assert {network.hub, network.namespace(0), network.namespace(3)} <= made
    assert not set(namespaces()) & made


@needs_lab
def test_a_lab_that_fails_half_way_is_removed(small_spec: LabSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    network = LabNetwork(small_spec)
    monkeypatch.setattr(network, "_rank_links", lambda rank: ["link set nosuch up"])
    with pytest.raises(LabUnavailable, match="nosuch"):
        network.up()
    assert network.hub not in namespaces()


@needs_lab
def test_a_lab_whose_owner_was_killed_is_reaped(small_spec: LabSpec) -> None:
    code = (
        "import os, signal; from interlock.lab import LabNetwork, LabSpec\n"
        "network = LabNetwork(LabSpec(1, 2, 1e6, 1e7)); network.up(); print(network.name, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    name = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
    assert name in running()
    assert name in reap()
    assert name not in running()


@pytest.mark.torch
@needs_lab
@pytest.mark.parametrize("sign", ["-hub", "-r15", "ranks"])
@pytest.mark.usefixtures("hears_ctrl_c")
def test_ctrl_c_removes_a_lab_however_often_it_comes(sign: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    words = [sys.executable, "-m", "interlock", "lab", "run", "--calibrate", "0"]
    with (tmp_path / "said").open("w+") as said:
        running = subprocess.Popen(words, stdout=said, stderr=said, start_new_session=True)
        mine = f"ilk-run{running.pid}x"
        while running.poll() is None:
            if sign.startswith("-") and any(n.startswith(mine) and n.endswith(sign) for n in namespaces()):
                break
            if any(pids_in(n) for n in namespaces() if n.startswith(mine) and n.endswith("-r15")):
                break
        for _ in range(5):
            os.killpg(running.pid, signal.SIGINT)
            time.sleep(0.05)
        assert running.wait(120) == 130
        said.seek(0)
        text = said.read()
    assert not [name for name in namespaces() if name.startswith(mine)]
    assert "interlock: ending the ranks and removing their network" in text
    assert text.rstrip().endswith("interlock: interrupted; nothing of the lab is left")
    assert "Traceback" not in text


@needs_lab
@pytest.mark.usefixtures("hears_ctrl_c")
def test_a_lab_is_removed_where_work_goes_on_after_ctrl_c() -> None:
    script = """if True:
        import time
        from interlock.interrupts import cleaned_up, watch
        from interlock.lab import LabNetwork, LabSpec

        watch()
        network = LabNetwork(LabSpec(1, 2, 1e6, 1e7))
        with cleaned_up("removing", network.down), network:
            print(network.name, flush=True)
            while True:
                try:
                    time.sleep(60)
                except KeyboardInterrupt:
                    pass
    """
    with subprocess.Popen([sys.executable, "-c", script], stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        name = process.stdout.readline().strip()
        assert name in running()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read().startswith("removing\n")
    assert name not in running()


@needs_lab
def test_links_are_as_fast_as_declared_and_servers_use_scale_up() -> None:
    spec = LabSpec(2, 2, 40e6 / 8, 400e6 / 8, {3: 20e6 / 8}, port_queue_bytes=64_000)
    with LabNetwork(spec) as network:
        port = subprocess.run(["tc", "-n", network.hub, "-json", "qdisc", "show", "dev", "nic0"], capture_output=True)
        assert json.loads(port.stdout)[0]["options"]["lat"] == (64_000 - BURST_BYTES) * 8 / 40  # in microseconds
        for rank, rate in ((0, "40Mbit"), (3, "20Mbit")):
            shown = subprocess.run(
                ["tc", "-n", network.namespace(rank), "qdisc", "show", "dev", "nic0"], capture_output=True, text=True
            ).stdout
            assert f"rate {rate}" in shown
        for peer, device in ((1, "up0"), (2, "nic0")):
            route = subprocess.run(
                ["ip", "-n", network.namespace(0), "route", "get", spec.address(peer)], capture_output=True, text=True
            ).stdout
            assert f"dev {device}" in route
        assert running()[network.name] == spec


def test_without_root_the_lab_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda tool: f"/sbin/{tool}")
    with pytest.raises(LabUnavailable, match="run it as root"):
        check_available()


def test_impossible_labs_are_refused() -> None:
    for arguments, says in (
        ((0, 2, 1e6, 1e6), "servers=0 must be"),
        ((64, 64, 1e6, 1e6), "servers=64 x gpus=64 is above"),
        ((2, 2, 1e6, 1e6, {4: 1e6}), "NIC of rank 4: ranks go from 0 to 3"),
        ((2, 2, 1e6, 1e6, {}, 1000), "port_queue_bytes=1000 must be at least"),
    ):
        with pytest.raises(il.InvalidInput, match=says):
            LabSpec(*arguments)  # type: ignore[arg-type]


@pytest.fixture(params=[(4, 2), (2, 4)], ids=lambda shape: f"{shape[0]}x{shape[1]}", scope="module")
def lab(request: pytest.FixtureRequest) -> Iterator[tuple[LabSpec, object]]:
    """A running lab with ranks."""
    pytest.importorskip("torch")
    spec = LabSpec(*request.param, 400e6 / 8, 2000e6 / 8)
    with LabNetwork(spec) as network, ranks_in(network) as ranks:
        yield spec, ranks


@needs_lab
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zipf", "sparse", "uniform"])
def test_every_algorithm_moves_every_byte_in_the_lab(lab: tuple[LabSpec, object], kind: str) -> None:
    spec, ranks = lab
    cluster = spec.to_cluster()
    demand = {
        "zipf": il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="200 kB", seed=0),
        "sparse": il.traffic.sparse(cluster, density=0.1, bytes_per_gpu="100 kB", seed=0),
        "uniform": il.traffic.matrix(np.full((8, 8), 4096)),
    }[kind]
    names = ["native", *registry.supported(demand_problem(cluster, demand))]
    assert "adaptive" in names
    rows = compare_in_lab(ranks, spec, demand, names, repeat=2)  # type: ignore[arg-type]
    assert [row.algorithm for row in rows if not row.valid] == []
    assert all(0 < row.lower_bound_s < row.measured_s for row in rows)


@needs_lab
@pytest.mark.slow
def test_the_command_reports_fields_and_cleans_up(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    page = tmp_path / "lab.html"
    words = "lab run --servers 2 --gpus 2 --nic 100Mbit --scale-up 1000Mbit --size 100kB --repeat 3 --nic-of 1=50Mbit"
    before = set(running())
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from interlock.cli.main import main; main()",
            *words.split(),
            "--json",
            "--html",
            str(page),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert [row["algorithm"] for row in made["results"]] == ["native", "adaptive"]
    for row in made["results"]:
        fields = {
            "valid",
            "measured_s",
            "predicted_s",
            "makespan_s",
            "lower_bound_s",
            "gap",
            "stages",
            "plan_s",
            "total_s",
        }
        assert fields <= set(row)
        assert row["valid"] is True
        assert f'data-ms="{1e3 * row["measured_s"]!r}"' in page.read_text()
    assert set(running()) <= before


@needs_lab
@pytest.mark.slow
def test_termination_removes_the_lab() -> None:
    pytest.importorskip("torch")
    words = "lab run --servers 2 --gpus 2 --repeat 10000 --size 100kB --calibrate 0"
    process = subprocess.Popen(
        [sys.executable, "-c", "from interlock.cli.main import main; main()", *words.split()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def labs_of_process() -> list[str]:
        return [name for name in running() if name.startswith(f"run{process.pid}x")]

    deadline_s = time.monotonic() + 60
    while not labs_of_process() and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert labs_of_process()
    process.terminate()
    assert process.wait(30) == 128 + 15
    assert not labs_of_process()


@needs_lab
def test_removing_a_lab_ends_what_runs_in_it(small_spec: LabSpec) -> None:
    with LabNetwork(small_spec) as network:
        inside = subprocess.Popen(["ip", "netns", "exec", network.namespace(1), "sleep", "120"])
        deadline_s = time.monotonic() + 20
        while str(inside.pid) not in pids_in(network.namespace(1)) and time.monotonic() < deadline_s:
            time.sleep(0.02)
    assert inside.wait(20) == -9


@needs_lab
@pytest.mark.slow
def test_ranks_end_when_the_command_is_killed() -> None:
    pytest.importorskip("torch")
    # One call of many repeats: ranks are busy with each other, and ask nobody for more.
    words = "lab run --servers 2 --gpus 2 --repeat 10000 --size 100kB --calibrate 0 --algorithms adaptive"
    process = subprocess.Popen(
        [sys.executable, "-c", "from interlock.cli.main import main; main()", *words.split()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def inside() -> list[str]:
        """Four ranks and their store."""
        mine = f"ilk-run{process.pid}x"
        return [pid for name in namespaces() if name.startswith(mine) for pid in pids_in(name)]

    try:
        deadline_s = time.monotonic() + 90
        while len(inside()) < 5 and time.monotonic() < deadline_s:
            time.sleep(0.1)
        time.sleep(5)  # until they are in the call
        assert len(inside()) == 5
        process.kill()
        process.wait()
        deadline_s = time.monotonic() + 10
        while inside() and time.monotonic() < deadline_s:
            time.sleep(0.1)
        assert not inside()
    finally:
        process.kill()
        process.wait()
        reap()


@needs_lab
@pytest.mark.slow
def test_a_pulled_link_is_named_by_everyone() -> None:
    pytest.importorskip("torch")
    from rank_faults import pull_link

    spec = LabSpec(3, 2, 100e6 / 8, 1000e6 / 8)
    demand = il.traffic.uniform(spec.to_cluster(), "300 kB")
    with LabNetwork(spec) as network, ranks_in(network, timeout_s=6.0) as ranks:
        verdict = pull_link(ranks, network, demand, "adaptive", victim=2, timeout_s=6.0)
    assert verdict.num_hanging == 0, verdict.words
    assert verdict.num_naming == verdict.num_survivors, verdict.words
    assert verdict.works_again


@pytest.mark.torch
@needs_lab
def test_collectives_run_beside_gloos_own(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    from interlock.cli.main import run

    shape = ["--servers", "2", "--gpus", "2", "--nic", "200Mbit", "--scale-up", "1000Mbit", "--calibrate", "0"]
    words = ["lab", "run", "--collective", "all-reduce", *shape, "--size", "200kB", "--repeat", "2"]
    assert run([*words, "--algorithms", "native,ring,hierarchical", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["results"]
    assert [row["algorithm"] for row in rows] == ["native", "ring", "hierarchical"]
    assert all(row["valid"] and row["measured_s"] > row["lower_bound_s"] > 0 for row in rows)
    assert run(["lab", "run", "--collective", "all-reduce", *shape, "--traffic", "uniform"]) == 2
    assert "--traffic has no effect here" in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_rank_is_called_what_it_is() -> None:
    pytest.importorskip("torch")
    from interlock.lab.ranks import RankFailed, RankProcesses, Seat

    with RankProcesses([Seat()] * 3) as ranks:
        ranks._processes[1].kill()
        with pytest.raises(RankFailed, match=r"^rank 1: its process was killed by SIGKILL$"):
            ranks.call(id)
