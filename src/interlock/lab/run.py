"""`lab run`: algorithms on real sockets, measured beside their bound and prediction."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import numpy as np

from interlock.algorithms import registry
from interlock.comparison import bandwidths
from interlock.cost import lower_bound
from interlock.errors import InvalidInput
from interlock.lab.jobs import Timings, calibrated, measure
from interlock.lab.network import LabNetwork, LabSpec
from interlock.lab.ranks import RankProcesses, Seat
from interlock.planning import Plan, solve
from interlock.problem import demand_problem
from interlock.simulate import simulate
from interlock.topology import Cluster
from interlock.traffic import Demand, matrix, random, uniform

__all__ = ["NATIVE", "LabRow", "compare_in_lab", "ranks_in"]

NATIVE = "native"
STORE_HOST = "10.78.255.254"
TIMEOUT_S = 120.0
WARM_UP = 2
TRIAL_ALGORITHM, SMALL_ALGORITHM, TRIALS = "adaptive", "direct", 5
MEASURED = (
    *(f"scale_{way}_{what}" for way in ("up", "out") for what in ("bandwidth_bytes_per_s", "latency_s")),
    "message_overhead_s",
    "stage_overhead_s",
)


@dataclass(frozen=True, slots=True)
class LabRow:
    """One algorithm's result; field names are those of `--json`."""

    algorithm: str
    valid: bool  # every byte of every repetition was right
    measured_s: float  # median over repetitions of the slowest rank, demand known and planned
    measured_least_s: float
    measured_most_s: float
    predicted_s: float  # simulated
    lower_bound_s: float
    gap: float  # measured / bound - 1
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    stages: int
    plan_s: float  # planning, lowering and comparing plans, all ranks sharing this machine
    exchange_s: float  # sharing the demand
    total_s: float  # exchange + planning + measured
    scratch_bytes: int
    repeats: int

    @classmethod
    def of(cls, name: str, told: Sequence[Timings], plan: Plan, predicted_s: float, bound_s: float) -> LabRow:
        """One algorithm's figures, as ranks told them; `plan` stands for torch's own call where that was measured."""
        seconds, is_native = told[0].measured_s, name == NATIVE
        measured_s = statistics.median(seconds)
        algbw, busbw = bandwidths(plan.problem, measured_s)
        plan_s = 0.0 if is_native else told[0].plan_s
        exchange_s = 0.0 if is_native or not told[0].exchange_s else statistics.median(told[0].exchange_s)
        return cls(
            algorithm=name,
            valid=all(part.valid for part in told),
            measured_s=measured_s,
            measured_least_s=min(seconds),
            measured_most_s=max(seconds),
            predicted_s=predicted_s,
            lower_bound_s=bound_s,
            gap=measured_s / bound_s - 1 if bound_s > 0 else 0.0,
            algbw_bytes_per_s=algbw,
            busbw_bytes_per_s=busbw,
            stages=1 if is_native else plan.num_stages,
            plan_s=plan_s,
            exchange_s=exchange_s,
            total_s=exchange_s + plan_s + measured_s,
            scratch_bytes=max(part.scratch_bytes for part in told),
            repeats=len(seconds),
        )

    def to_dict(self) -> dict[str, object]:
        """Fields for `--json`; `makespan_s` is what other commands call the simulated time."""
        return asdict(self) | {"makespan_s": self.predicted_s}


@contextmanager
def ranks_in(network: LabNetwork, *, timeout_s: float = TIMEOUT_S) -> Iterator[RankProcesses]:
    """Rank processes, one in each namespace of a lab that is up."""
    spec = network.spec
    seats = [Seat(network.namespace(rank), "nic0", "ctl0") for rank in range(spec.num_ranks)]
    # With a dead NIC not every pair can connect: connections are made when first used.
    is_lazy = any(spec.nic_rate(rank) <= 0 for rank in range(spec.num_ranks))
    with RankProcesses(
        seats, store_seat=Seat(network.hub), store_host=STORE_HOST, timeout_s=timeout_s, lazy=is_lazy
    ) as ranks:
        yield ranks


def compare_in_lab(
    ranks: RankProcesses,
    spec: LabSpec,
    demand: Demand,
    algorithms: Sequence[str],
    *,
    repeat: int = 10,
    calibrate_s: float = 0.0,
    progress: Callable[[str], None] = lambda words: None,
) -> tuple[LabRow, ...]:
    """Measure algorithms on one demand; "native" is torch's own call.

    The bound is that of the declared network; plans and predictions use what `calibrate_s` seconds per tier and a trial
    exchange measure of it, where that is not 0.
    """
    declared = spec.to_cluster()
    problem = demand_problem(declared, demand)
    check_native(declared, algorithms)
    for name in algorithms:
        if name != NATIVE and (reason := registry.get(name).supports(problem)) is not None:
            raise InvalidInput(f"algorithm {name!r} does not support this lab: {reason}")
    cluster = as_measured(declared, ranks, calibrate_s, progress)
    expected = with_trial(ranks, cluster, demand) if calibrate_s > 0 else declared
    progress("measuring")
    limit_s = TIMEOUT_S * (repeat + WARM_UP)
    timings = ranks.call(measure, cluster, demand.bytes_matrix, list(algorithms), repeat, WARM_UP, timeout_s=limit_s)
    bound_s = lower_bound(problem).seconds
    planned_for, expected_on = demand_problem(cluster, demand), demand_problem(expected, demand)
    rows = []
    for name in algorithms:
        plan = solve(planned_for, "direct" if name == NATIVE else name)
        predicted_s = simulate(plan.schedule, expected_on).makespan_s
        rows.append(LabRow.of(name, [told[name] for told in timings], plan, predicted_s, bound_s))
    return tuple(rows)


def check_native(declared: Cluster, algorithms: Sequence[str]) -> None:
    """Raise where torch's own call is asked for and cannot work."""
    if NATIVE in algorithms and (declared.nic_bandwidth_bytes_per_s <= 0).any():
        raise InvalidInput("algorithm 'native' needs every NIC: torch's own call cannot go around a dead one")


def as_measured(declared: Cluster, ranks: RankProcesses, seconds: float, progress: Callable[[str], None]) -> Cluster:
    """The declared cluster with what so many seconds per tier measure of it; what a NIC fault declares stays."""
    if seconds <= 0:
        return declared
    progress("calibrating")
    measured = ranks.call(calibrated, declared.gpus_per_server, seconds)[0]
    return declared.with_(**{field: getattr(measured, field) for field in MEASURED})


def with_trial(ranks: RankProcesses, cluster: Cluster, demand: Demand) -> Cluster:
    """The cluster with NICs as fast as planned exchanges find them: one of equal parts, one of random ones.

    Links measured one by one do not show what it costs that all ranks share this machine's processors. The more NICs
    are busy at once, the more it costs: the two exchanges tell how much at two points.
    """
    each_bytes = int(demand.bytes_matrix.sum()) // cluster.num_ranks
    if cluster.servers == 1 or each_bytes < cluster.num_ranks:
        return cluster
    trials = [kind(cluster, bytes_per_gpu=each_bytes) for kind in (random, uniform)]
    found = [_trial(ranks, cluster, trial) for trial in trials]
    part = float(np.interp(_busy(cluster, demand), [_busy(cluster, trial) for trial in trials], found))
    bandwidth = min(1.0, part) * cluster.scale_out_bandwidth_bytes_per_s
    return cluster.with_(scale_out_bandwidth_bytes_per_s=bandwidth)


def with_message_cost(ranks: RankProcesses, cluster: Cluster) -> Cluster:
    """The cluster with what a message costs while all ranks send and receive, which is mostly processors' time.

    Every rank sends a few bytes to every other. What it costs to start is in it.
    """
    few = matrix(np.int64(4) * ~np.eye(cluster.num_ranks, dtype=np.bool_), "few")
    if registry.get(SMALL_ALGORITHM).supports(demand_problem(cluster, few)) is not None:
        return cluster
    told = ranks.call(measure, cluster, few.bytes_matrix, [SMALL_ALGORITHM], TRIALS, 1)[0][SMALL_ALGORITHM]
    each_s = statistics.median(told.measured_s) / max(1, cluster.num_ranks - 1)
    return cluster.with_(message_overhead_s=each_s, stage_overhead_s=0.0)


def _busy(cluster: Cluster, demand: Demand) -> float:
    """The part of the busiest server's traffic that servers have on average."""
    shape = (cluster.servers, cluster.gpus_per_server)
    between = demand.bytes_matrix.reshape(*shape, *shape).sum(axis=(1, 3))
    np.fill_diagonal(between, 0)
    load = np.maximum(between.sum(axis=0), between.sum(axis=1))
    return float(load.mean() / max(1, load.max()))


def _trial(ranks: RankProcesses, cluster: Cluster, demand: Demand) -> float:
    """Predicted over measured time of a demand."""
    told = ranks.call(measure, cluster, demand.bytes_matrix, [TRIAL_ALGORITHM], TRIALS, 1)[0][TRIAL_ALGORITHM]
    plan = solve(demand_problem(cluster, demand), TRIAL_ALGORITHM)
    return float(plan.simulate().makespan_s / statistics.median(told.measured_s))
