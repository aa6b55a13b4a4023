"""`guided` on long runs: it says how far it is, can be stopped, and keeps huge tables in a file."""

from __future__ import annotations

import pytest

import interlock as il
from interlock.algorithms.guided import guided
from interlock.algorithms.synthesis import greedy_rounds
from interlock.problem import collective_problem
from interlock.validate import check


class Stop:
    """A report that interrupts the search when it is told something for the n-th time."""

    def __init__(self, call: int) -> None:
        self.call = call
        self.shares: list[float] = []

    def __call__(self, share: float) -> None:
        self.shares.append(share)
        if len(self.shares) == self.call:
            raise KeyboardInterrupt


def test_interrupted_all_reduce_ends_with_a_valid_schedule() -> None:
    """Whichever half is interrupted, and whenever, what makes it whole is still done."""
    torus = il.topology.torus(3, 4, bandwidth=("10 GB/s", "4 GB/s"))
    links = torus.link_src, torus.link_dst, torus.bandwidth_bytes_per_s
    topology = il.topology.from_edges(*links, message_overhead="1 us")  # of which no symmetry is known
    problem = collective_problem(topology, il.all_reduce("900 MB"))
    all_of_it = Stop(10**9)
    guided(problem, threads=1, report=all_of_it)
    assert len(all_of_it.shares) > 10
    for call in range(2, len(all_of_it.shares) + 1):
        stop = Stop(call)
        assert check(guided(problem, threads=1, report=stop), problem).valid
        assert call <= len(stop.shares) <= call + 4


@pytest.mark.parametrize("collective", [il.all_gather, il.reduce_scatter, il.all_reduce, il.all_to_all, il.broadcast])
@pytest.mark.parametrize("topology", [il.topology.mesh(4, 4, bandwidth="10 GB/s"), il.topology.dgx1()])
def test_interruption_before_any_answer_ends_with_the_first(collective, topology) -> None:
    problem = collective_problem(topology, collective("16 MB"))
    stop = Stop(1)
    assert check(guided(problem, threads=1, report=stop), problem).valid
    assert len(stop.shares) <= 8


def test_second_interruption_before_any_answer_is_passed_on() -> None:
    class Impatient(Stop):
        def __call__(self, share: float) -> None:
            raise KeyboardInterrupt

    problem = collective_problem(il.topology.mesh(4, 4, bandwidth="10 GB/s"), il.all_gather("16 MB"))
    with pytest.raises(KeyboardInterrupt):
        guided(problem, threads=1, report=Impatient(0))


def test_interruption_before_an_answer_that_takes_long_is_passed_on(monkeypatch) -> None:
    monkeypatch.setattr("interlock.algorithms.guided.MOST_TRANSFERS", 100)
    problem = collective_problem(il.topology.mesh(4, 4, bandwidth="10 GB/s"), il.all_gather("16 MB"))
    with pytest.raises(KeyboardInterrupt):
        guided(problem, threads=1, report=Stop(1))


def test_share_of_the_work_done_never_falls() -> None:
    watched = Stop(10**9)
    topology = il.topology.mesh(2, 4, bandwidth=("10 GB/s", "4 GB/s"), message_overhead="1 us")
    plan = il.synthesize(topology, il.all_reduce("900 MB"), report=watched)
    assert plan.parameters == {}
    assert len(watched.shares) > 3
    assert watched.shares == sorted(watched.shares)
    assert watched.shares[0] >= 0.0 and watched.shares[-1] <= 1.0


def test_algorithm_without_progress_ignores_the_report() -> None:
    plan = il.synthesize(il.topology.ring(4, bandwidth="1 GB/s"), il.all_gather("4 MB"), "ring", report=Stop(1))
    assert plan.certificate().valid


def test_table_file_holds_the_slots(tmp_path) -> None:
    file = tmp_path / "slots.bin"
    topology = il.topology.mesh(5, 5, bandwidth="10 GB/s", message_overhead="0.5 us")
    plan = il.synthesize(topology, il.all_gather("25 MB"), "guided", chunks=1, table_file=str(file))
    assert plan.certificate().valid
    assert plan.parameters == {"parts": 1, "table_file": str(file)}
    assert file.read_bytes() == plan.compact.table.tobytes()


def test_auto_checks_a_table_as_it_is() -> None:
    """The choice carries its reason beside the table; that must not make it be written out."""
    plan = il.synthesize(il.topology.mesh(6, 6, bandwidth="10 GB/s"), il.all_gather("36 MB"), chunks=1)
    assert plan.report.valid
    assert "schedule" not in vars(plan)


def test_huge_table_is_kept_in_its_file_from_the_beginning(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(greedy_rounds, "MANY_TRANSFERS", 100)
    file = tmp_path / "slots.bin"
    topology = il.topology.mesh(5, 5, bandwidth="10 GB/s", message_overhead="0.5 us")
    plan = il.synthesize(topology, il.all_gather("25 MB"), "guided", chunks=1, table_file=file)
    assert plan.report.valid
    assert plan.compact.table.filename is not None
    assert file.read_bytes() == plan.compact.table.tobytes()


def test_interrupted_table_leaves_no_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(greedy_rounds, "MANY_TRANSFERS", 100)
    monkeypatch.setattr("interlock.algorithms.guided.MOST_TRANSFERS", 100)
    topology = il.topology.mesh(5, 5, bandwidth="10 GB/s", message_overhead="0.5 us")
    problem = collective_problem(topology, il.all_gather("25 MB"))
    with pytest.raises(KeyboardInterrupt):
        guided(problem, parts=1, threads=1, table_file=tmp_path / "slots.bin", report=Stop(1))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("collective", [il.all_gather, il.reduce_scatter, il.all_reduce])
def test_huge_plan_is_saved_as_its_table(collective, tmp_path, monkeypatch) -> None:
    """Here all are huge that have more than a hundred messages."""
    monkeypatch.setattr("interlock.planning.MAX_ROWS", 100)
    monkeypatch.setattr("interlock.algorithms.guided.MAX_ROWS", 100)
    topology = il.topology.mesh(4, 5, bandwidth="10 GB/s", message_overhead="0.5 us")
    plan = il.synthesize(topology, collective("20 MB"), chunks=1)
    assert plan.is_huge
    plan.save(tmp_path / "huge.ilk")

    loaded = il.load(tmp_path / "huge.ilk")
    assert loaded.slots is not None and "schedule" not in vars(loaded)
    assert loaded.slots.table.tobytes() == plan.slots.table.tobytes()
    assert loaded.certificate() == plan.certificate()
    assert loaded.certificate().valid
