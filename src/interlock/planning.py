"""Plan: a problem and its schedule, with validator, simulator and bounds at hand."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms import adaptive, registry
from interlock.algorithms.auto import Chosen
from interlock.algorithms.two_tier_plan import TwoTierPlan, Way, check_fit
from interlock.certificate import Certificate
from interlock.collectives import Collective
from interlock.errors import InterlockError, InvalidInput, nearest
from interlock.files import as_path, check_target, show_page
from interlock.html_text import facts_html
from interlock.problem import Problem, Step, check_chunks, collective_problem, demand_problem
from interlock.schedule import (
    MAX_ROWS,
    Aligned,
    CompactSchedule,
    Layout,
    PortLoads,
    Program,
    Schedule,
    SlotSchedule,
    Wrapped,
    check_align,
    levels,
    lower,
    read_schedule,
    reverse_copies,
    write_schedule,
)
from interlock.topology import Cluster, Topology
from interlock.topology.graph import DEAD_BANDWIDTH
from interlock.traffic import Demand
from interlock.traffic.generators import check_seed
from interlock.units import format_seconds

if TYPE_CHECKING:
    from interlock.cost import Bound
    from interlock.interchange import ExportReport
    from interlock.simulate import Result
    from interlock.validate import Report

__all__ = [
    "Certificate",
    "Plan",
    "check_effort",
    "fastest_simulated",
    "load",
    "plan",
    "planner",
    "solve",
    "synthesize",
]

MESSAGE_COLUMNS = ("src", "dst", "kind", "phase", "stage", "slice", "size_bytes", "exclusive", "order")
CACHED_PLANS = 64
SIMULATE = ("adaptive", "auto")  # algorithms with ways that effort="simulate" compares
MOST_GUIDED = 16  # ranks up to which effort="simulate" tries synthesis
SIMULATED = 1e-3  # tolerance with which it compares
TIMING_TOLERANCE = 1e-3  # of candidates that are compared
PIECE_COLUMNS = ("message", "item", "offset", "length")


class Plan:
    """A schedule for a problem. Rows, proof and simulation are computed when asked for, and kept."""

    def __init__(
        self,
        problem: Problem | Callable[[], Problem],
        compact: CompactSchedule,
        algorithm: str,
        *,
        seed: int = 0,
        parameters: Mapping[str, object] = MappingProxyType({}),
        decide_s: float = 0.0,
    ) -> None:
        self._problem = problem
        self.compact = compact
        self.algorithm = algorithm
        self.seed = seed
        self.parameters = dict(parameters)
        self.decide_s = decide_s
        self._certificates: dict[float | None, Certificate] = {}
        self._program: tuple[tuple[int, bool], Program] | None = None
        self._results: dict[tuple[float | None, bool], Result] = {}

    @property
    def problem(self) -> Problem:
        """What is moved, and on what."""
        if not isinstance(self._problem, Problem):
            self._problem = self._problem()
        return self._problem

    @property
    def cluster(self) -> Cluster | None:
        """The cluster it was made for; None where that is any other graph."""
        made = _unwrapped(self.compact)
        return made.cluster if isinstance(made, TwoTierPlan) else self.problem.cluster

    @cached_property
    def schedule(self) -> Schedule:
        """All rows; refuses above ten million (see `compact.iter_messages`)."""
        return self.compact.expand()

    @cached_property
    def messages(self) -> Mapping[str, NDArray[np.generic]]:
        """Message columns by name, one row per message."""
        return _Columns(self.schedule.column, MESSAGE_COLUMNS)

    @cached_property
    def pieces(self) -> Mapping[str, NDArray[np.generic]]:
        """Piece columns by name: which bytes of which item each message carries."""
        pieces = self.schedule.pieces
        return _Columns(lambda name: np.asarray(getattr(pieces, name)), PIECE_COLUMNS)

    @property
    def num_stages(self) -> int:
        """Distinct stages that carry traffic."""
        return self.compact.num_stages

    @property
    def reason(self) -> str:
        """Why the plan is as it is, where the algorithm says; empty where it does not."""
        return self.compact.reason

    @property
    def predicted_s(self) -> float | None:
        """Seconds that the plan is predicted to take, without simulating; None where its algorithm predicts nothing."""
        return self.compact.predicted_s

    def reversed(self) -> Plan:
        """The same messages backwards: combine from dispatch, or the backward pass, for free.

        Only for an All-to-Allv; the result moves the transposed demand.
        """
        demand, cluster = self.problem.demand, self.problem.cluster
        if demand is None or cluster is None:
            raise InvalidInput(f"{self.problem.name} cannot be reversed: only an All-to-Allv on a cluster can")
        start = time.perf_counter()
        problem = demand_problem(cluster, demand.transposed())
        schedule = reverse_copies(self.schedule, self.problem, problem)
        took = time.perf_counter() - start
        return Plan(problem, schedule, f"{self.algorithm}, reversed", seed=self.seed, decide_s=took)

    def program(
        self, rank: int, layout: Layout | None = None, *, rounds: bool = False, previous: Plan | None = None
    ) -> Program:
        """What one rank runs, in columns. The last one is kept, where it has no layout of its own.

        Parameters
        ----------
        layout
            Where its bytes lie; None: end to end in item order, as collectives order their buffers.
        rounds
            Also say what a backend that works in batches does together.
        previous
            An earlier plan: where nothing has changed since, which costs a digest, its program is taken over.

        Examples
        --------
        >>> import interlock as il
        >>> cluster = il.cluster("h200", servers=2)
        >>> program = il.plan(cluster, il.traffic.uniform(cluster), algorithm="direct").program(0)
        >>> program.columns["send_peer"].tolist() == list(range(1, 16))
        True
        """
        if layout is not None:
            return self._lowered(rank, layout, rounds)
        key = (rank, rounds)
        if self._program is None or self._program[0] != key:
            kept = None if previous is None else previous._program
            if kept is None or kept[0] != key or previous is None or previous.digest != self.digest:
                kept = key, self._lowered(rank, None, rounds)
            self._program = kept
        return self._program[1]

    def _lowered(self, rank: int, layout: Layout | None, rounds: bool) -> Program:
        made = _unwrapped(self.compact)
        num_ranks = made.cluster.num_ranks if isinstance(made, TwoTierPlan) else self.problem.num_ranks
        if not 0 <= rank < num_ranks:
            raise InvalidInput(f"rank={rank} must be between 0 and {num_ranks - 1}")
        # Needs no other rank's rows; only a message's round, how deep it stands, takes all of them where any wait.
        is_alone = (
            isinstance(made, TwoTierPlan)
            and made.align == 1
            and not made.is_timed
            and (not rounds or made.way is Way.DIRECT)
        )
        if isinstance(made, TwoTierPlan) and is_alone and (layout is None or layout.pairs is not None):
            return made.program(rank) if layout is None else made.program(rank, layout.pairs, layout.own)
        if not isinstance(made, TwoTierPlan) and self.problem.step is not None:
            raise InvalidInput("a step has no program of one collective; interlock.torch.Step runs it task by task")
        rows = self.schedule if rounds else self.compact.rows_of(rank)
        where = Layout.packed(self.problem, rank) if layout is None else layout
        return lower(rows, self.problem, where, rounds=rounds, known_levels=self._levels if rounds else None)

    @cached_property
    def _levels(self) -> NDArray[np.int64]:
        """How deep each message stands: the same for every rank's rounds."""
        return levels(self.schedule, self.problem.topology)

    @cached_property
    def plan_s(self) -> float:
        """Seconds until a rank can run: deciding, and making a rank's program, which is done for this once more.

        The decision alone is `decide_s`. To be asked before rows are written out for anything else.
        """
        start = time.perf_counter()
        try:
            self.program(0)
        except InvalidInput:  # nobody can run it
            return self.decide_s
        return self.decide_s + time.perf_counter() - start

    @cached_property
    def port_loads(self) -> PortLoads:
        """What every NIC of the cluster sends and receives."""
        made = _unwrapped(self.compact)
        if isinstance(made, TwoTierPlan):
            return made.port_loads
        assert self.problem.cluster is not None
        return PortLoads.of(self.schedule, self.problem.cluster)

    @cached_property
    def digest(self) -> int:
        """A 64-bit number that differs, all but certainly, from that of any other plan."""
        digest = 1
        for column in self.compact.decided():
            digest = _core.digest64(np.ascontiguousarray(column).reshape(-1).view(np.uint8), digest)
        return digest

    def simulate(self, tolerance: float | None = None, *, gpu: bool = False) -> Result:
        """How long it takes and why; `tolerance` trades exactness for speed.

        With `gpu`, what the program costs on the cluster's devices is counted: launch, hops, messages and packing.
        """
        if (tolerance, gpu) not in self._results:
            from interlock.simulate import simulate

            self._results[tolerance, gpu] = simulate(self.schedule, self.problem, tolerance=tolerance, gpu=gpu)
        return self._results[tolerance, gpu]

    @cached_property
    def bound(self) -> Bound:
        """The proven least makespan, and what binds."""
        from interlock.cost import lower_bound

        return lower_bound(self.problem)

    @cached_property
    def report(self) -> Report:
        """What the independent validator found."""
        from interlock.validate import check

        # Slot tables are checked as they are; other forms are written out once and kept.
        return check(self.slots or self.schedule, self.problem)

    @property
    def slots(self) -> SlotSchedule | None:
        """The slot table that the plan is, if it is one; `auto` keeps it beside the reason for its choice."""
        made = self.compact.compact if isinstance(self.compact, Wrapped) else self.compact
        return made if isinstance(made, SlotSchedule) else None

    @cached_property
    def is_huge(self) -> bool:
        """Whether it is a slot table of more messages than can be written out: it is proven and saved as it is."""
        return self.slots is not None and self.slots.num_messages > MAX_ROWS

    def certificate(self, tolerance: float | None = None) -> Certificate:
        """Validity, simulated time and proven bound side by side.

        Examples
        --------
        >>> import interlock as il
        >>> cluster = il.cluster("h200", servers=2)
        >>> il.plan(cluster, il.traffic.uniform(cluster), algorithm="direct").certificate().valid
        True
        """
        if tolerance not in self._certificates:
            self._certificates[tolerance] = Certificate(
                algorithm=self.algorithm,
                valid=self.report.valid,
                violations=tuple(str(violation) for violation in self.report.violations),
                makespan_s=self._makespan_s(tolerance),
                lower_bound_s=self.bound.seconds,
                binds=self.bound.binds,
                scratch_bytes=int(self.report.scratch_bytes.max(initial=0)),
                method=self.report.method,
                tolerance=tolerance,
                reason=self.reason,
            )
        return self._certificates[tolerance]

    def _makespan_s(self, tolerance: float | None) -> float:
        if self.slots is not None and self.is_huge:
            from interlock.simulate import slot_makespan_s

            return slot_makespan_s(self.slots, self.problem)
        return self.simulate(tolerance).makespan_s

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schedule and its problem to a `.ilk` file, whole or not at all."""
        schedule = self.slots if self.slots is not None and self.is_huge else self.schedule
        write_schedule(
            path,
            schedule,
            self.problem,
            algorithm=self.algorithm,
            seed=self.seed,
            parameters=self.parameters,
            reason=self.reason,
        )

    def export(self, format_name: str, path: str | os.PathLike[str], **options: object) -> ExportReport:
        """Write the schedule in another tool's format, whole or not at all.

        Parameters
        ----------
        format_name
            "msccl-xml", "mscclpp-json", "chakra", "tacos-csv", "htsim", "nccl-tests" or "chrome-trace".
        options
            ``chunk_bytes`` fixes the chunk size of formats that know only equal chunks; ``flavor`` names the reader of
            MSCCL XML: "rccl" (default), "azure" or "msccl".
        """
        from interlock.interchange import export_schedule, get_format

        if get_format(format_name).needs_times:
            times = self.simulate()
            options = {"start_s": times.start_s, "finish_s": times.finish_s} | options
        return export_schedule(format_name, self.schedule, self.problem, Path(path), **options)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report page, as `interlock plan --html` does."""
        from interlock.comparison import row_of
        from interlock.report.compare_page import save_plan_page

        save_plan_page(self, row_of(self), check_target(path), "plan.to_html(...)")

    def show(self) -> None:
        """Open the report page in a browser."""
        show_page(self.to_html, f"{self.algorithm} {self.problem.name}")

    def _repr_html_(self) -> str:
        """What needs no simulation: a notebook shows a plan at once."""
        facts = {"reason": self.reason} if self.reason else {}
        facts |= {"problem": self.problem.name, "messages": str(self.compact.num_messages)}
        facts |= {"stages": str(self.num_stages), "planned in": format_seconds(self.plan_s)}
        return facts_html(f"Plan by {self.algorithm}", facts | {"more": "plan.certificate(), plan.show()"})

    def __repr__(self) -> str:
        reason = f"; {self.reason}" if self.reason else ""
        return f"Plan({self.algorithm!r}, {self.problem.name}, {self.compact.num_messages} messages{reason})"


class _Columns(Mapping[str, NDArray[np.generic]]):
    """Columns looked up by name."""

    def __init__(self, column: Callable[[str], NDArray[np.generic]], names: tuple[str, ...]) -> None:
        self._column, self._names = column, names

    def __getitem__(self, name: str) -> NDArray[np.generic]:
        if name not in self._names:
            raise KeyError(f"no column {name!r}; there are {', '.join(self._names)}")
        return self._column(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"columns {', '.join(self._names)} of {len(self[self._names[-1]])} rows"


def load(path: str | os.PathLike[str]) -> Plan:
    """The plan in a `.ilk` file."""
    saved = read_schedule(as_path(path))
    made = Chosen(saved.schedule, saved.algorithm, lambda: saved.reason) if saved.reason else saved.schedule
    return Plan(saved.problem, made, saved.algorithm, seed=saved.seed, parameters=saved.parameters)


def plan(
    cluster: Cluster | Step,
    traffic: Demand | None = None,
    algorithm: str = "auto",
    *,
    previous: Plan | None = None,
    seed: int = 0,
    effort: str = "predict",
    align: int = 1,
    **parameters: object,
) -> Plan:
    """Plan an All-to-Allv on a cluster, or a step.

    Parameters
    ----------
    cluster, traffic
        Where, and what: see `il.cluster` and `il.traffic`; or a step (see `il.step`) and nothing.
    algorithm
        A name from the registry; "auto" picks by predicted time. Of a step "serial", "concurrent" or "joint", which is
        what "auto" takes.
    previous
        An earlier plan of this algorithm on this cluster. Where traffic has only drifted since, its decisions are kept
        and fitted to the new bytes; after a jump, or by an algorithm that cannot, all is planned anew.
    effort
        "predict" takes what is predicted to be fastest (with faults, "auto" times other algorithms where "adaptive"
        stays far above the bound); "simulate" tries every way of "adaptive" (the choice of "auto"
        too), "rails-split", "no-stage", and up to `MOST_GUIDED` ranks "guided", and takes the fastest by simulation.
    align
        Bytes on whose multiples the bytes of a pair are cut, like the length of a row: 16 or more is what a GPU copies
        fastest. Cuts that would leave nothing between them go to multiples of 16, or stay. 1 cuts anywhere.
    seed, parameters
        Passed to the algorithm.
    """
    check_effort(effort)
    if isinstance(cluster, Step):
        return _plan_step(cluster, traffic, algorithm, previous, seed, parameters)
    if traffic is None:
        raise InvalidInput("traffic is missing; it must be a demand (see il.traffic), or the first argument a step")
    if effort == "simulate":
        return fastest_simulated(demand_problem(cluster, traffic), algorithm, seed=seed, align=align, **parameters)
    return solve(
        demand_problem(cluster, traffic),
        algorithm,
        previous=previous,
        seed=seed,
        align=align,
        **parameters,  # type: ignore[arg-type]
    )


def _plan_step(
    step: Step,
    traffic: Demand | None,
    algorithm: str,
    previous: Plan | None,
    seed: int,
    parameters: Mapping[str, object],
) -> Plan:
    from interlock.steps import WAYS, LonePlans

    given = {"traffic": traffic, "previous": previous, **parameters}
    unknown = next((name for name, value in given.items() if value is not None), None)
    if unknown is not None:
        raise InvalidInput(f"a step is planned without {unknown!r}; its tasks say what is moved")
    name = "joint" if algorithm == "auto" else algorithm
    if name not in WAYS:
        raise InvalidInput(f"algorithm={str(algorithm)[:64]!r} does not plan a step; {nearest(str(algorithm), WAYS)}")
    check_seed(seed)
    problem = step.problem()
    start = time.perf_counter()
    has_others = sum(task.is_move for task in step.tasks) > 1
    way = WAYS[name](problem, LonePlans(problem, partial(move_of_step, seed=seed, has_others=has_others)))
    took = time.perf_counter() - start
    return Plan(problem, Chosen(way.schedule, name, lambda: way.reason), name, seed=seed, decide_s=took)


def move_of_step(problem: Problem, *, seed: int = 0, has_others: bool = True) -> CompactSchedule:
    """A move's own plan; where it has others beside it, collectives by the quick planner, and no timetable of ports
    that the others use too."""
    if has_others and problem.demand is None and registry.get("tiers").supports(problem) is None:
        return registry.get("tiers").build(problem, seed=seed)
    cluster = problem.cluster
    if has_others and problem.demand is not None and cluster is not None and not cluster.faults:
        return adaptive.prepare(cluster)(problem.demand)
    return solve(problem, "auto", seed=seed).compact


def check_effort(effort: str) -> None:
    """Raise for any other than there are."""
    if effort not in ("predict", "simulate"):
        raise InvalidInput(f"effort={str(effort)[:64]!r} must be 'predict' or 'simulate'")


def fastest_simulated(problem: Problem, algorithm: str, *, seed: int = 0, align: int = 1, **parameters: object) -> Plan:
    """The fastest by simulation of all ways to plan, with what was planned by default among them."""
    if algorithm not in SIMULATE or parameters:
        given = f"algorithm={algorithm!r}" if algorithm not in SIMULATE else f"the parameter {next(iter(parameters))!r}"
        raise InvalidInput(f"effort='simulate' chooses among the ways of {' or '.join(SIMULATE)}, not with {given}")
    first = solve(problem, algorithm, seed=seed, align=align)
    chosen = _unwrapped(first.compact)
    made = {chosen.way.name.lower() if isinstance(chosen, TwoTierPlan) else algorithm: first}
    for way in Way:
        if way.name.lower() not in made:
            with suppress(InvalidInput):  # a way that cannot carry this
                made[way.name.lower()] = solve(problem, "adaptive", seed=seed, align=align, way=way.name.lower())
    # Others whose plans are quick to make and now and then better.
    for name in ("rails-split", "no-stage", *(["guided"] if problem.num_ranks <= MOST_GUIDED else [])):
        if registry.get(name).supports(problem) is None:
            made[name] = solve(problem, name, seed=seed, align=align)
    times = {name: plan.simulate(SIMULATED).makespan_s for name, plan in made.items()}
    best = min(times, key=times.__getitem__)
    reason = f"{best}: simulated {', '.join(f'{name} {seconds * 1e6:.0f} us' for name, seconds in times.items())}"
    made[best].compact = Chosen(_unwrapped(made[best].compact), made[best].algorithm, lambda: reason, times[best])
    return made[best]


def _unwrapped(compact: CompactSchedule) -> CompactSchedule:
    return compact.compact if isinstance(compact, Chosen) else compact


def _aligned(compact: CompactSchedule, align: int) -> CompactSchedule:
    """A schedule cut on multiples of `align` bytes."""
    if isinstance(compact, TwoTierPlan):  # the plan it was warm-started from may have been cut elsewhere
        return compact if compact.align == align else replace(compact, align=align)
    if align == 1:
        return compact
    if isinstance(compact, Chosen):
        return replace(compact, compact=_aligned(compact.compact, align))
    return Aligned(compact, align)


def solve(
    problem: Problem,
    algorithm: str,
    *,
    previous: Plan | None = None,
    seed: int = 0,
    report: Callable[[float], None] | None = None,
    align: int = 1,
    is_supported: bool = False,
    **parameters: object,
) -> Plan:
    """Plan any problem with a named algorithm; `previous` and `align` as for `plan`, `report` as for `synthesize`.

    `is_supported`: the caller knows that the algorithm supports the problem, which takes long to find out of a graph.
    """
    chosen = registry.get(algorithm)
    check_seed(seed)
    if check_align(align) > 1 and "scratch_bytes" in parameters:
        raise InvalidInput(f"align={align} cannot be combined with scratch_bytes: cuts that move may need more scratch")
    if previous is not None and not isinstance(previous, Plan):
        raise InvalidInput(f"previous={str(previous)[:64]!r} must be a plan, or None")
    chosen.check_parameters(parameters)
    reason = None if is_supported else chosen.supports(problem)
    if reason is not None:
        raise InvalidInput(f"algorithm {algorithm!r} does not support {problem.name}: {reason}")
    start = time.perf_counter()
    if previous is not None and not parameters and problem.demand and problem.cluster and chosen.prepare:
        compact = chosen.prepare(problem.cluster)(problem.demand, previous.compact)
    else:
        watched: dict[str, object] = {"report": report} if report is not None and chosen.reports else {}
        if chosen.times:
            watched["time_of"] = lambda compact: Plan(problem, compact, algorithm)._makespan_s(TIMING_TOLERANCE)
        compact = chosen.build(problem, seed=seed, **parameters, **watched)
    compact = _aligned(compact, align)
    _check_ends(compact, problem.cluster)
    took = time.perf_counter() - start
    told = parameters if align == 1 else {**parameters, "align": align}
    return Plan(problem, compact, algorithm, seed=seed, parameters=told, decide_s=took)


def _check_ends(compact: CompactSchedule, cluster: Cluster | None) -> None:
    """Refuse rows to or from a GPU that is not there, or between servers by a NIC that carries nothing.

    Decisions of `adaptive` are checked where they are made.
    """
    rows = compact.compact if isinstance(compact, Wrapped) else compact
    if cluster is None or not cluster.faults or not isinstance(rows, Schedule):
        return
    for ends in (rows.src.values, rows.dst.values):
        check_fit(ends, cluster.present, "a GPU that is missing")
    if len(rows.path.values):
        is_dead = cluster.topology.bandwidth_bytes_per_s[rows.path.values] <= DEAD_BANDWIDTH
        if is_dead.any():
            link = rows.path.values[is_dead][0]
            raise InterlockError(f"the plan takes the dead link {link}: refused; please report cluster and demand")
    if len(rows.src.values) == len(rows.dst.values) == rows.num_messages:
        width = cluster.gpus_per_server
        leaves = rows.src.values // width != rows.dst.values // width
        for ends in (rows.src.values, rows.dst.values):
            check_fit(ends[leaves], cluster.nic_bandwidth_bytes_per_s > 0, "a NIC that is dead")


class DemandPlan(Protocol):
    """A reusable callable from demand to plan."""

    def __call__(self, traffic: Demand, previous: Plan | None = None) -> Plan:
        """Warm-starts from `previous`, an earlier plan on the same cluster, where that helps."""
        ...


def planner(cluster: Cluster, algorithm: str = "auto", *, cache: bool = True, align: int = 1) -> DemandPlan:
    """A reusable callable from demand to plan, with what depends only on the cluster done once.

    With `cache`, a demand that was planned before gets the same plan again, found by a digest of its bytes; the last
    `CACHED_PLANS` are kept. Given the last step's plan as `previous`, it warm-starts. `align` is as for `plan`.

    >>> import interlock as il
    >>> cluster = il.cluster("h200", servers=2)
    >>> replan = il.planner(cluster, algorithm="direct")
    >>> replan(il.traffic.uniform(cluster)).algorithm
    'direct'
    """
    if not isinstance(cluster, Cluster):
        raise InvalidInput(f"cluster={str(cluster)[:64]!r} must be a cluster; see il.cluster")
    plan_once = _planner(cluster, algorithm, check_align(align))
    if not cache:
        return plan_once
    kept: OrderedDict[int, Plan] = OrderedDict()

    def plan_cached(traffic: Demand, previous: Plan | None = None) -> Plan:
        if not isinstance(traffic, Demand):
            raise InvalidInput(f"traffic={str(traffic)[:64]!r} must be a demand; see il.traffic")
        key = _core.digest64(traffic.bytes_matrix.reshape(-1).view(np.uint8), traffic.num_ranks)
        found = kept.get(key)
        if found is not None and found.problem.demand == traffic:
            kept.move_to_end(key)
            return found
        kept[key] = made = plan_once(traffic, previous)
        if len(kept) > CACHED_PLANS:
            kept.popitem(last=False)
        return made

    return plan_cached


def _planner(cluster: Cluster, algorithm: str, align: int) -> DemandPlan:
    chosen = registry.get(algorithm)
    if chosen.prepare is None:
        return lambda traffic, previous=None: plan(cluster, traffic, algorithm, align=align)
    build = chosen.prepare(cluster)

    def plan_demand(traffic: Demand, previous: Plan | None = None) -> Plan:
        start = time.perf_counter()
        compact = _aligned(build(traffic, None if previous is None else previous.compact), align)
        took = time.perf_counter() - start
        return Plan(lambda: demand_problem(cluster, traffic), compact, algorithm, decide_s=took)

    return plan_demand


def synthesize(
    topology: Topology | Cluster,
    collective: Collective | Demand,
    algorithm: str = "auto",
    *,
    chunks: int | None = None,
    seed: int = 0,
    report: Callable[[float], None] | None = None,
    align: int = 1,
    **parameters: object,
) -> Plan:
    """Make a schedule for a collective on any topology.

    Parameters
    ----------
    collective
        What to do, like ``il.all_reduce("1 GiB")``; a demand (see `il.traffic`) is an All-to-Allv.
    chunks
        Chunks per rank, or per pair of an All-to-Allv; None lets the algorithm choose.
    report
        Told the share of the work done, by algorithms whose work may be long. An interruption ends it with the best
        schedule so far.
    align
        Bytes on whose multiples chunks are cut, as for `plan`.
    parameters
        The algorithm's own; `guided` keeps the table of a huge All-Gather in ``table_file``.

    Examples
    --------
    >>> import interlock as il
    >>> ring = il.topology.ring(4, bandwidth="50 GB/s")
    >>> il.synthesize(ring, il.all_gather("4 MB"), algorithm="ring").certificate().valid
    True
    """
    if not isinstance(topology, Topology | Cluster):
        raise InvalidInput(f"topology={str(topology)[:64]!r} must be a graph or a cluster; see il.topology, il.cluster")
    if not isinstance(collective, Collective | Demand):
        raise InvalidInput(f"collective={str(collective)[:64]!r} must be like il.all_gather('1 GiB'), or a demand")
    cuts = registry.get(algorithm).cuts_items
    if isinstance(collective, Demand):
        problem = demand_problem(topology, collective)
        if chunks is not None and not cuts:
            raise InvalidInput(f"chunks={chunks!r}: algorithm {algorithm!r} does not cut an All-to-Allv into chunks")
        parts = {} if chunks is None else {"parts": check_chunks(chunks)}
    else:
        cluster = topology if isinstance(topology, Cluster) else None
        graph = topology.topology if isinstance(topology, Cluster) else topology
        problem = collective_problem(graph, collective, 1 if chunks is None else chunks, cluster)
        parts = {"parts": 1} if chunks is not None and cuts else {}
    return solve(problem, algorithm, seed=seed, report=report, align=align, **(parts | parameters))  # type: ignore[arg-type]
