"""Every algorithm on one problem, side by side."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from interlock.algorithms import registry
from interlock.algorithms.auto import Chosen
from interlock.algorithms.compared import compare as contest
from interlock.algorithms.detours import has_dead_nics
from interlock.algorithms.synthesis.budget import in_order
from interlock.collectives import Collective
from interlock.errors import InvalidInput
from interlock.files import FilePath, check_target, show_page
from interlock.html_text import table_html
from interlock.interrupts import interruptions
from interlock.planning import SIMULATE, Plan, check_effort, fastest_simulated, solve
from interlock.planning import plan as plan_step
from interlock.problem import Problem, Step, Task, collective_problem, demand_problem
from interlock.schedule import CompactSchedule
from interlock.topology import Cluster, Topology
from interlock.traffic import Demand
from interlock.traffic.generators import check_seed
from interlock.units import Quantity, format_bandwidth, format_bytes, format_seconds, parse_bytes

__all__ = [
    "BANDWIDTHS",
    "Choice",
    "Comparison",
    "Row",
    "SizeComparison",
    "bandwidths",
    "candidates",
    "choice_in",
    "compare",
    "compare_problem",
    "compare_sizes",
    "csv_text",
    "problem_of",
    "row_of",
    "tolerance_of",
    "unevenness_of",
]

STEP_WAYS = ("serial", "concurrent", "joint")
EXACT_ROWS = 20_000  # above this many messages, comparisons simulate with GRID_TOLERANCE
GRID_TOLERANCE = 1e-3
# Where "350 GB/s" stands beside NICs of 50: what stays inside a server counts too.
BANDWIDTHS = (
    "algbw: bytes of the rank that moves most / time, what stays in its server included; busbw: algbw x "
    "(ranks - 1) / ranks, or as nccl-tests say for the collective."
)
_HEADER = ("algbw", "busbw", "stages", "planning", "scratch", "valid")


@dataclass(frozen=True, slots=True)
class Row:
    """One algorithm's result; field names are those of `--json`."""

    algorithm: str
    valid: bool
    makespan_s: float  # simulated
    lower_bound_s: float
    gap: float
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    stages: int
    plan_s: float  # until a rank can run
    decide_s: float  # the decision alone
    total_s: float  # planning + makespan
    scratch_bytes: int
    detours: bool = False  # a NIC is dead, and what it would carry goes through a neighbour's


@dataclass(frozen=True, slots=True)
class Choice:
    """The algorithm that `auto` takes for a problem, and why."""

    algorithm: str
    reason: str  # begins with the algorithm

    def __str__(self) -> str:
        return f"auto takes {self.reason}."


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows by algorithm, fastest first; prints as a table."""

    problem: Problem
    results: tuple[Row, ...]
    refused: tuple[tuple[str, str], ...]  # (algorithm, reason)
    binds: str
    plans: tuple[Plan, ...]  # one per row, in the same order
    baseline: str | None = None  # the algorithm that a column "faster than" sets the others against
    # None where `auto` would have to build what is not compared here, or supports nothing.
    auto: Choice | None = None

    def best(self) -> Row:
        """The fastest valid row."""
        return next(row for row in self.results if row.valid)

    def to_html(self, path: FilePath) -> None:
        """Write the report page, as `interlock compare --html` does."""
        from interlock.report.compare_page import save_compare_page

        save_compare_page(self, check_target(path), "il.compare(...).to_html(...)")

    def show(self) -> None:
        """Open the report page in a browser."""
        show_page(self.to_html, self.problem.name)

    def _repr_html_(self) -> str:
        bound = self.results[0].lower_bound_s if self.results else 0.0
        notes = [] if self.auto is None else [str(self.auto)]
        notes += [f"Simulated; no schedule can take less than {format_seconds(bound)}: {self.binds}.", *self.remarks()]
        return table_html(self.problem.name, self.header(), self.cells(), notes)

    def times_faster(self, row: Row, than: str | None = None) -> float | None:
        """How many times as long `than`, or the baseline, takes; None where it is not among the rows."""
        name = than or self.baseline
        other = next((each for each in self.results if each.algorithm == name), None)
        return None if other is None or row.makespan_s <= 0 else other.makespan_s / row.makespan_s

    def to_dict(self) -> dict[str, object]:
        """What `interlock compare --json` prints."""
        return {
            "problem": describe(self.problem) | {"binds": self.binds},
            "auto": None if self.auto is None else asdict(self.auto),
            "results": self.rows(),
            "refused": [{"algorithm": name, "reason": reason} for name, reason in self.refused],
            "times_are": "simulated",
        }

    def remarks(self) -> list[str]:
        """What a reader of the table should know beside its numbers."""
        demand = self.problem.demand
        traffic = [] if demand is None else [f"Traffic: {demand.unevenness.summary}."]
        if not any(row.detours for row in self.results):
            return traffic
        return [*traffic, "* a NIC is dead: what it would carry goes through the next GPU of its server that has one."]

    def rows(self) -> list[dict[str, object]]:
        """One row per algorithm by column name, SI units."""
        faster = "times_faster_than_" + str(self.baseline)
        return [asdict(row) | ({faster: self.times_faster(row)} if self.baseline else {}) for row in self.results]

    def to_csv(self) -> str:
        """The same rows as CSV text, as `interlock compare --csv` prints them."""
        return csv_text(self.rows())

    def header(self) -> list[str]:
        """Column titles."""
        faster = [f"faster than {self.baseline}"] if self.baseline else []
        return ["algorithm", "time", "over bound", *faster, *_HEADER]

    def cells(self) -> list[list[str]]:
        """One row of words per algorithm."""
        made = []
        for row in self.results:
            times = self.times_faster(row)
            faster = ["-" if times is None else f"{times:.2f}x"] if self.baseline else []
            name = row.algorithm + "*" * row.detours
            made.append([name, format_seconds(row.makespan_s), f"{1 + row.gap:.3f}", *faster, *_cells(row)])
        return made

    def __str__(self) -> str:
        bound = self.results[0].lower_bound_s if self.results else 0.0
        title = f"{self.problem.name} (simulated; lower bound {format_seconds(bound)}: {self.binds})"
        return "\n".join([title, *_aligned([self.header(), *self.cells()])])

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class SizeComparison:
    """One collective over sizes, as nccl-tests print it; prints as a table."""

    comparisons: tuple[Comparison, ...]  # one per size, ascending

    @property
    def name(self) -> str:
        """The problem without its size."""
        return self.comparisons[0].problem.name

    def to_dict(self) -> dict[str, object]:
        """What `interlock compare --sizes --json` prints."""
        facts = describe(self.comparisons[0].problem)
        return {
            "problem": {name: fact for name, fact in facts.items() if name not in ("size_bytes", "total_bytes")},
            "sizes": [{"size_bytes": _size(made), **made.to_dict()} for made in self.comparisons],
            "times_are": "simulated",
        }

    def to_csv(self) -> str:
        """A line per size and algorithm, as `interlock compare --sizes --csv` prints them."""
        return csv_text([{"size_bytes": _size(made)} | row for made in self.comparisons for row in made.rows()])

    def header(self) -> list[str]:
        """Column titles."""
        return ["size (B)", "algorithm", "time", "algbw", "busbw", "over bound", "valid"]

    def cells(self) -> list[list[str]]:
        """A row of words per size and algorithm, fastest first."""
        rows = []
        for made in self.comparisons:
            for place, row in enumerate(made.results):
                size, rates = str(_size(made)) if place == 0 else "", _cells(row)[:2]
                over, valid = f"{1 + row.gap:.3f}", "yes" if row.valid else "NO"
                rows.append([size, row.algorithm, format_seconds(row.makespan_s), *rates, over, valid])
        return rows

    def busbw_by_algorithm(self) -> dict[str, list[tuple[int, float]]]:
        """Size and bus bandwidth of every algorithm, and of the bound."""
        lines: dict[str, list[tuple[int, float]]] = {}
        for made in self.comparisons:
            size, factor = nccl_size(made.problem)
            for row in sorted(made.results, key=lambda row: row.algorithm):
                lines.setdefault(row.algorithm, []).append((size, row.busbw_bytes_per_s))
            if made.results and made.results[0].lower_bound_s > 0:
                lines.setdefault("bound", []).append((size, size * factor / made.results[0].lower_bound_s))
        return lines

    def __str__(self) -> str:
        return "\n".join([f"{self.name} (simulated)", *_aligned([self.header(), *self.cells()], left=2)])

    __repr__ = __str__


def compare(
    cluster: Cluster | Topology | Step,
    traffic: Demand | Collective | None = None,
    algorithms: Sequence[str] | None = None,
    *,
    seed: int = 0,
    baseline: str | None = None,
    effort: str = "predict",
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Plan, prove and simulate one All-to-Allv, collective or step with every algorithm that supports it.

    `baseline` names the algorithm that a column "faster than" sets the others against; `effort` is as for `plan`.

    Examples
    --------
    >>> import interlock as il
    >>> cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    >>> table = il.compare(cluster, il.traffic.uniform(cluster), ["direct", "spreadout"])
    >>> [row.valid for row in table.results]
    [True, True]
    >>> il.compare(cluster, il.all_reduce("1 GiB"), ["ring", "direct"]).best().algorithm
    'ring'
    """
    if isinstance(cluster, Step):
        return compare_step(cluster, algorithms, seed=seed, baseline=baseline, progress=progress)
    problem = problem_of(cluster, traffic)
    return compare_problem(problem, algorithms, seed=seed, baseline=baseline, effort=effort, progress=progress)


def compare_step(
    step: Step,
    algorithms: Sequence[str] | None = None,
    *,
    seed: int = 0,
    baseline: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """One step in every way, or in those named."""
    if isinstance(algorithms, str):
        raise InvalidInput(f"algorithms={algorithms[:64]!r} must be a list of names, like ['serial', 'joint']")
    names = list(dict.fromkeys(STEP_WAYS if algorithms is None else algorithms))
    if baseline is not None and baseline not in names:
        raise InvalidInput(f"baseline={baseline!r} is not among {', '.join(names)}")
    made: list[tuple[Row, Plan]] = []
    for name in names:
        if progress is not None:
            progress(name)
        plan = plan_step(step, algorithm=name, seed=seed)
        made.append((row_of(plan), plan))
    made.sort(key=lambda pair: (not pair[0].valid, pair[0].makespan_s))
    rows, plans = tuple(row for row, _ in made), tuple(plan for _, plan in made)
    return Comparison(step.problem(), rows, (), plans[0].bound.binds, plans, baseline)


def compare_sizes(
    cluster: Cluster | Topology,
    collective: Collective,
    sizes: Sequence[Quantity],
    algorithms: Sequence[str] | None = None,
    *,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> SizeComparison:
    """One collective at several sizes, whatever its own.

    Without `algorithms`, those whose work may be long (they search) are left out.

    Examples
    --------
    >>> import interlock as il
    >>> graph = il.topology.ring(4, bandwidth="50 GB/s")
    >>> made = il.compare_sizes(graph, il.all_gather(0), ["1 KiB", "1 MiB"], ["ring"])
    >>> [len(comparison.results) for comparison in made.comparisons]
    [1, 1]
    """
    if not isinstance(collective, Collective):
        raise InvalidInput(f"collective={str(collective)[:64]!r} must be like il.all_gather('1 GiB')")
    if len(sizes) == 0:
        raise InvalidInput("sizes is empty; it must name at least one size")
    wanted = sorted({parse_bytes(size, f"sizes[{place}]") for place, size in enumerate(sizes)})
    problems = [problem_of(cluster, replace(collective, size_bytes=size)) for size in wanted]
    names = algorithms
    if names is None:
        quick = [name for name in registry.names() if name != "auto" and not registry.get(name).reports]
        names = [name for name in quick if registry.get(name).supports(problems[0]) is None]
        if not names:
            raise InvalidInput(f"no algorithm that does not search long supports {problems[0].name}; name algorithms")
    made = []
    for size, problem in zip(wanted, problems, strict=True):
        if progress is not None:
            progress(format_bytes(size))
        made.append(compare_problem(problem, names, seed=seed))
    return SizeComparison(tuple(made))


def problem_of(where: Cluster | Topology, what: Demand | Collective | None) -> Problem:
    """An All-to-Allv or a collective on a cluster or a graph."""
    if not isinstance(where, Topology | Cluster):
        raise InvalidInput(f"cluster={str(where)[:64]!r} must be a cluster or a graph; see il.cluster, il.topology")
    if isinstance(what, Demand):
        return demand_problem(where, what)
    if not isinstance(what, Collective):
        raise InvalidInput(f"traffic={str(what)[:64]!r} must be a demand, or like il.all_reduce('1 GiB')")
    if isinstance(where, Cluster):
        return collective_problem(where.topology, what, cluster=where)
    return collective_problem(where, what)


def _size(comparison: Comparison) -> int:
    return nccl_size(comparison.problem)[0]


def compare_problem(
    problem: Problem,
    algorithms: Sequence[str] | None = None,
    *,
    seed: int = 0,
    baseline: str | None = None,
    effort: str = "predict",
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """The same for any problem; algorithms named explicitly must support it.

    `effort` as for `plan`, for "adaptive" and "auto".
    """
    check_effort(effort)
    check_seed(seed)
    names, refused = candidates(problem, algorithms)
    if baseline is not None and baseline not in names:
        registry.get(baseline)
        why = dict(refused).get(baseline, "it is not among the algorithms compared")
        raise InvalidInput(f"baseline={baseline!r} does not run on {problem.name}: {why}")
    tell = progress or (lambda what: None)
    unproven: list[Plan] = []
    for name in names:
        tell(f"planning {name}")
        with interruptions() as seen:
            if effort == "simulate" and name in SIMULATE:
                made = fastest_simulated(problem, name, seed=seed)
            else:
                made = solve(problem, name, seed=seed, is_supported=True)
            _ = made.plan_s  # timed now, while nothing else runs
            unproven.append(made)
        if seen:  # a search answers Ctrl-C with the best it has; a comparison ends
            raise KeyboardInterrupt
    made_rows = sorted(_proven(unproven, tell), key=lambda pair: (not pair[0].valid, pair[0].makespan_s))
    rows, plans = tuple(row for row, _ in made_rows), tuple(made for _, made in made_rows)
    chosen = _choice_of_auto(problem, made_rows, seed, all_compared=algorithms is None)
    return Comparison(problem, rows, refused, plans[0].bound.binds if plans else "", plans, baseline, chosen)


def _proven(plans: Sequence[Plan], tell: Callable[[str], None]) -> list[tuple[Row, Plan]]:
    """Each plan with its row, in their order; large ones are proven on all cores, those that take longest first."""

    def prove(plan: Plan) -> Row:
        tell(f"proving {plan.algorithm}")
        return row_of(plan)

    sizes = [made.compact.num_messages for made in plans]
    order = sorted(range(len(plans)), key=lambda place: -sizes[place])
    threads = (os.cpu_count() or 1) if sum(sizes) > EXACT_ROWS else 1
    rows = dict(zip(order, in_order([partial(prove, plans[place]) for place in order], threads), strict=True))
    return [(rows[place], made) for place, made in enumerate(plans)]


def choice_in(plan: Plan) -> Choice | None:
    """What `auto` took, where the plan is its."""
    return Choice(plan.compact.algorithm, plan.reason) if isinstance(plan.compact, Chosen) else None


def _choice_of_auto(
    problem: Problem, compared: Sequence[tuple[Row, Plan]], seed: int, *, all_compared: bool
) -> Choice | None:
    """An All-to-Allv on a cluster is predicted, which takes no time; elsewhere `auto` builds and times, and is given
    the plans and times that are here. What else it asks for is built only where all algorithms were compared."""
    if registry.get("auto").supports(problem) is not None:
        return None
    own = next((plan for _, plan in compared if plan.algorithm == "auto"), None)
    if own is not None:
        return choice_in(own)
    if problem.demand is not None and problem.cluster is not None:
        return choice_in(solve(problem, "auto", seed=seed, is_supported=True))
    plans = {plan.algorithm: plan for _, plan in compared}
    seconds = {id(plan.compact): row.makespan_s for row, plan in compared}

    def build(name: str, of: Problem) -> CompactSchedule:
        if name not in plans:
            if not all_compared:
                raise LookupError(name)
            plans[name] = plan = solve(of, name, seed=seed)
            seconds[id(plan.compact)] = plan.simulate(tolerance_of(plan)).makespan_s
        return plans[name].compact

    try:
        best = contest(problem, lambda compact: seconds[id(compact)], build)
    except LookupError:
        return None
    return Choice(best.name, best.reason())


def candidates(
    problem: Problem, algorithms: Sequence[str] | None = None
) -> tuple[list[str], tuple[tuple[str, str], ...]]:
    """The algorithms that a comparison runs, and those that it would but cannot, each with the reason."""
    if isinstance(algorithms, str):
        raise InvalidInput(f"algorithms={algorithms[:64]!r} must be a list of names, like ['direct', 'adaptive']")
    if algorithms is not None:
        for name in algorithms:
            reason = registry.get(name).supports(problem)
            if reason is not None:
                raise InvalidInput(f"algorithm {name!r} does not support {problem.name}: {reason}")
        return list(dict.fromkeys(algorithms)), ()
    # Not "auto": it would repeat the row of the algorithm it picks.
    known = {name: registry.get(name) for name in registry.names() if name != "auto"}
    # That an algorithm is for another kind of problem is no news to anyone.
    reasons = {name: each.supports(problem) for name, each in known.items() if each.other_kind(problem) is None}
    refused = tuple((name, why) for name, why in reasons.items() if why is not None)
    return [name for name, why in reasons.items() if why is None], refused


def row_of(plan: Plan) -> Row:
    """A plan's certificate and bandwidths as one row."""
    plan_s = plan.plan_s  # before anything is written out for the proof
    tolerance = tolerance_of(plan)
    proof = plan.certificate(tolerance)
    algbw, busbw = bandwidths(plan.problem, proof.makespan_s)
    return Row(
        algorithm=plan.algorithm,
        valid=proof.valid,
        makespan_s=proof.makespan_s,
        lower_bound_s=proof.lower_bound_s,
        gap=proof.gap,
        algbw_bytes_per_s=algbw,
        busbw_bytes_per_s=busbw,
        stages=plan.num_stages,
        plan_s=plan_s,
        decide_s=plan.decide_s,
        total_s=plan_s + proof.makespan_s,
        scratch_bytes=proof.scratch_bytes,
        detours=_takes_detours(plan),
    )


def _takes_detours(plan: Plan) -> bool:
    cluster = plan.problem.cluster
    is_registered = plan.algorithm in registry.names() and registry.get(plan.algorithm).detours
    return is_registered and cluster is not None and has_dead_nics(cluster)


def tolerance_of(plan: Plan) -> float | None:
    """Exact times, except for plans so large that a comparison would take long."""
    return GRID_TOLERANCE if plan.compact.num_messages > EXACT_ROWS else None


def nccl_size(problem: Problem) -> tuple[int, float]:
    """The size nccl-tests divide by the time, and busbw / algbw."""
    if problem.collective is not None:
        members = problem.collective.group
        num_ranks = problem.num_ranks if members is None else len(members)
        return problem.collective.size_bytes, problem.collective.bus_factor(num_ranks)
    if problem.demand is not None:
        return problem.demand.largest_rank_bytes, (problem.num_ranks - 1) / problem.num_ranks
    return int(problem.items.size_bytes.sum()), 1.0


def bandwidths(problem: Problem, makespan_s: float) -> tuple[float, float]:
    """algbw and busbw, as nccl-tests define them."""
    size_bytes, factor = nccl_size(problem)
    algbw = size_bytes / makespan_s if makespan_s > 0 else 0.0
    return algbw, algbw * factor


def describe(problem: Problem) -> dict[str, object]:
    """The problem in a few words and numbers, for `--json`."""
    total = int(problem.items.size_bytes.sum())
    made: dict[str, object] = {"name": problem.name, "num_ranks": problem.num_ranks, "total_bytes": total}
    if problem.cluster is not None:
        made |= {"cluster": problem.cluster.name, "servers": problem.cluster.servers}
        made |= {"gpus_per_server": problem.cluster.gpus_per_server}
    if problem.demand is not None:
        made |= {"traffic": problem.demand.name, "seed": problem.demand.seed}
        made |= {"unevenness": asdict(problem.demand.unevenness)}
    if problem.step is not None:
        made |= {"tasks": [_described(task) for task in problem.step.tasks]}
    if problem.collective is not None:
        made |= {"collective": str(problem.collective.kind), "size_bytes": problem.collective.size_bytes}
    return made


def unevenness_of(problem: Problem) -> dict[str, str]:
    """How uneven the bytes are that a problem owes, by whose they are; none of a collective's, which are its own."""
    if problem.demand is not None:
        return {"traffic": problem.demand.unevenness.summary}
    names: dict[str, list[str]] = {}
    for task in () if problem.step is None else problem.step.tasks:
        if isinstance(task.what, Demand):
            names.setdefault(task.what.unevenness.summary, []).append(task.name)
    return {f"traffic of {', '.join(tasks)}": words for words, tasks in names.items()}


def _described(task: Task) -> dict[str, object]:
    made: dict[str, object] = {"name": task.name, "kind": task.kind, "after": task.after}
    return made | ({"unevenness": asdict(task.what.unevenness)} if isinstance(task.what, Demand) else {})


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows by column name as CSV, numbers as they are."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _aligned(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Lines of words in columns, the first `left` of them flush left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _cells(row: Row) -> list[str]:
    return [
        format_bandwidth(row.algbw_bytes_per_s),
        format_bandwidth(row.busbw_bytes_per_s),
        str(row.stages),
        format_seconds(row.plan_s),
        format_bytes(row.scratch_bytes),
        "yes" if row.valid else "NO",
    ]
