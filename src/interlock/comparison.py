"""Every algorithm on one problem, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from interlock.algorithms import registry
from interlock.errors import InvalidInput
from interlock.planning import Plan, solve
from interlock.problem import Problem, demand_problem
from interlock.topology import Cluster
from interlock.traffic import Demand
from interlock.units import format_bandwidth, format_bytes, format_seconds

__all__ = ["Comparison", "Row", "compare", "compare_problem", "row_of", "tolerance_of"]

EXACT_ROWS = 20_000  # above this many messages, comparisons simulate with GRID_TOLERANCE
GRID_TOLERANCE = 1e-3


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
    plan_s: float
    total_s: float  # planning + makespan
    scratch_bytes: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows by algorithm, fastest first; prints as a table."""

    problem: Problem
    results: tuple[Row, ...]
    refused: tuple[tuple[str, str], ...]  # (algorithm, reason)
    binds: str
    plans: tuple[Plan, ...]  # one per row, in the same order

    def best(self) -> Row:
        """The fastest valid row."""
        return next(row for row in self.results if row.valid)

    def to_dict(self) -> dict[str, object]:
        """What `interlock compare --json` prints."""
        return {
            "problem": describe(self.problem) | {"binds": self.binds},
            "results": [asdict(row) for row in self.results],
            "refused": [{"algorithm": name, "reason": reason} for name, reason in self.refused],
            "times_are": "simulated",
        }

    def header(self) -> list[str]:
        """Column titles."""
        return ["algorithm", "time", "over bound", "algbw", "busbw", "stages", "planning", "scratch", "valid"]

    def cells(self) -> list[list[str]]:
        """One row of words per algorithm."""
        return [_cells(row) for row in self.results]

    def __str__(self) -> str:
        lines = [self.header(), *self.cells()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [
            "  ".join(
                [line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))]
            )
            for line in lines
        ]
        bound = self.results[0].lower_bound_s if self.results else 0.0
        title = f"{self.problem.name} (simulated; lower bound {format_seconds(bound)}: {self.binds})"
        return "\n".join([title, *(line.rstrip() for line in text)])

    __repr__ = __str__


def compare(
    cluster: Cluster,
    traffic: Demand,
    algorithms: Sequence[str] | None = None,
    *,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Plan, prove and simulate one All-to-Allv with every algorithm that supports it.

    Examples
    --------
    >>> import interlock as il
    >>> cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    >>> table = il.compare(cluster, il.traffic.uniform(cluster), ["direct", "spreadout"])
    >>> [row.valid for row in table.results]
    [True, True]
    """
    return compare_problem(demand_problem(cluster, traffic), algorithms, seed=seed, progress=progress)


def compare_problem(
    problem: Problem,
    algorithms: Sequence[str] | None = None,
    *,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """The same for any problem; algorithms named explicitly must support it."""
    made_rows: list[tuple[Row, Plan]] = []
    refused, binds = [], ""
    # Not "auto": it would repeat the row of the algorithm it picks.
    for name in [name for name in registry.names() if name != "auto"] if algorithms is None else algorithms:
        reason = registry.get(name).supports(problem)
        if reason is not None and algorithms is not None:
            raise InvalidInput(f"algorithm {name!r} does not support {problem.name}: {reason}")
        if reason is not None:
            # "it plans ..." says that the algorithm is for another kind of problem: no news to anyone.
            refused += [] if reason.startswith("it plans ") else [(name, reason)]
            continue
        if progress is not None:
            progress(name)
        made = solve(problem, name, seed=seed)
        binds = made.bound.binds
        made_rows.append((row_of(made), made))
    made_rows.sort(key=lambda pair: (not pair[0].valid, pair[0].makespan_s))
    rows, plans = tuple(row for row, _ in made_rows), tuple(made for _, made in made_rows)
    return Comparison(problem, rows, tuple(refused), binds, plans)


def row_of(made: Plan) -> Row:
    """A plan's certificate and bandwidths as one row."""
    tolerance = tolerance_of(made)
    proof = made.certificate(tolerance)
    size_bytes, factor = nccl_size(made.problem)
    algbw = size_bytes / proof.makespan_s if proof.makespan_s > 0 else 0.0
    return Row(
        algorithm=made.algorithm,
        valid=proof.valid,
        makespan_s=proof.makespan_s,
        lower_bound_s=proof.lower_bound_s,
        gap=proof.gap,
        algbw_bytes_per_s=algbw,
        busbw_bytes_per_s=algbw * factor,
        stages=made.num_stages,
        plan_s=made.plan_s,
        total_s=made.plan_s + proof.makespan_s,
        scratch_bytes=proof.scratch_bytes,
    )


def tolerance_of(made: Plan) -> float | None:
    """Exact times, except for plans so large that a comparison would take long."""
    return GRID_TOLERANCE if made.compact.num_messages > EXACT_ROWS else None


def nccl_size(problem: Problem) -> tuple[int, float]:
    """The size nccl-tests divide by the time, and busbw / algbw."""
    if problem.collective is not None:
        members = problem.collective.group
        num_ranks = problem.num_ranks if members is None else len(members)
        return problem.collective.size_bytes, problem.collective.bus_factor(num_ranks)
    if problem.demand is not None:
        return problem.demand.largest_rank_bytes, (problem.num_ranks - 1) / problem.num_ranks
    return int(problem.items.size_bytes.sum()), 1.0


def describe(problem: Problem) -> dict[str, object]:
    """The problem in a few words and numbers, for `--json`."""
    total = int(problem.items.size_bytes.sum())
    made: dict[str, object] = {"name": problem.name, "num_ranks": problem.num_ranks, "total_bytes": total}
    if problem.cluster is not None:
        made |= {"cluster": problem.cluster.name, "servers": problem.cluster.servers}
        made |= {"gpus_per_server": problem.cluster.gpus_per_server}
    if problem.demand is not None:
        made |= {"traffic": problem.demand.name, "seed": problem.demand.seed}
    if problem.collective is not None:
        made |= {"collective": str(problem.collective.kind), "size_bytes": problem.collective.size_bytes}
    return made


def _cells(row: Row) -> list[str]:
    return [
        row.algorithm,
        format_seconds(row.makespan_s),
        f"{1 + row.gap:.3f}",
        format_bandwidth(row.algbw_bytes_per_s),
        format_bandwidth(row.busbw_bytes_per_s),
        str(row.stages),
        format_seconds(row.plan_s),
        format_bytes(row.scratch_bytes),
        "yes" if row.valid else "NO",
    ]
