"""The exact fluid optimum of small problems, by linear programming (HiGHS, the `lp` extra).

Fluid: bytes are split at will and latency and overhead cost nothing. Each stream reserves a rate on every link; rates
that suffice are told by cuts (Edmonds and Frank: trees that reach every destination can be packed into the rates
exactly when no cut is too narrow), found by maximum flow and added as rows until none is violated.

For sums that go to several ranks the optimum is taken over all ways to add up along trees and then spread along
trees, from roots of any weights; that is proven to be the best way wherever a lower bound meets it, nearly always where
every node is a rank (docs/reference/bounds.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.cost.network import Network, usable_network
from interlock.cost.streams import Stream, sort_into_streams
from interlock.errors import InterlockError, LimitExceeded, MissingDependency
from interlock.problem import Problem

__all__ = ["MAX_COLUMNS", "fluid_optimum_s"]

MAX_COLUMNS = 200_000
TOLERANCE = 1e-7  # of a stream's bytes: a cut that lacks less is wide enough
SCALE = 2**44  # whole numbers for the flow kernel


def fluid_optimum_s(problem: Problem) -> float:
    """Least seconds in which all bytes can move if they flow like a fluid.

    Examples
    --------
    >>> from interlock.collectives import all_gather
    >>> from interlock.problem import collective_problem
    >>> from interlock.topology import ring
    >>> problem = collective_problem(ring(4, bandwidth="1 GB/s"), all_gather("4 GB"))
    >>> round(fluid_optimum_s(problem), 6)
    1.5
    """
    if len(problem.items) == 0:
        return 0.0
    network = usable_network(problem)
    streams = sort_into_streams(problem.items, problem.num_ranks)
    program = _Program(network, streams)
    program.solve()
    for _ in range(1000):
        if not program.add_violated_cuts():
            return program.seconds
        program.solve()
    raise InterlockError("the linear program did not settle after 1000 rounds of cuts")


@dataclass
class _Rows:
    """Sparse rows under construction."""

    start: list[int] = field(default_factory=lambda: [0])
    column: list[NDArray[np.int64]] = field(default_factory=list)
    value: list[NDArray[np.float64]] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)

    def add(self, columns: NDArray[np.int64], values: NDArray[np.float64], lower: float, upper: float) -> None:
        self.column.append(columns)
        self.value.append(values)
        self.start.append(self.start[-1] + len(columns))
        self.lower.append(lower)
        self.upper.append(upper)


@dataclass(frozen=True)
class _Tree:
    """Rates that one stream reserves for spreading (towards its ends) or adding up (from them): one column per link."""

    stream: int
    first_column: int
    spreads: bool
    ends: NDArray[np.int32]
    root_bytes: NDArray[np.float64] | None  # as a share of the largest stream
    first_root_column: int  # where the roots are free
    total: float


class _Program:
    """Columns: the time, then rates per tree and link, then free root weights."""

    def __init__(self, network: Network, streams: list[Stream]) -> None:
        self.network = network
        self.byte_unit = max(stream.total_bytes for stream in streams)
        self.rate_unit = float(network.bandwidth_bytes_per_s.max(initial=1.0))
        self.rate = network.bandwidth_bytes_per_s / self.rate_unit
        self.rows = _Rows()
        self.num_columns = 1
        self.trees = [tree for number, stream in enumerate(streams) for tree in self._trees(number, stream)]
        self._add_capacities()
        for tree in self.trees:
            self._add_conservation(tree, streams[tree.stream].is_unicast)
        self.highs = _highs()
        self._pass_model()
        self.unicast = [streams[tree.stream].is_unicast for tree in self.trees]

    def _trees(self, number: int, stream: Stream) -> list[_Tree]:
        first_root = 0
        root_bytes = stream.root_bytes
        if root_bytes is None:
            first_root = self.num_columns
            self.num_columns += self.network.num_ranks
            columns = first_root + np.arange(self.network.num_ranks)
            total = stream.total_bytes / self.byte_unit
            self.rows.add(columns, np.ones(self.network.num_ranks), total, total)
        made = []
        for ends, spreads in ((stream.destinations, True), (stream.contributors, False)):
            if ends is None:
                continue
            shares = None if root_bytes is None else root_bytes / self.byte_unit
            total = stream.total_bytes / self.byte_unit
            made.append(_Tree(number, self.num_columns, spreads, ends, shares, first_root, total))
            self.num_columns += self.network.num_links
        if self.num_columns > MAX_COLUMNS:
            raise LimitExceeded(f"the linear program has more than {MAX_COLUMNS} columns; the problem is too large")
        return made

    def _add_capacities(self) -> None:
        """All trees together keep every channel busy for at most the whole time."""
        first = np.array([tree.first_column for tree in self.trees])
        for channel in np.unique(self.network.channel):
            links = np.flatnonzero(self.network.channel == channel)
            columns = (first[:, None] + links).reshape(-1)
            values = np.tile(-1.0 / self.rate[links], len(first))
            self.rows.add(np.append(columns, 0), np.append(values, 1.0), 0.0, np.inf)

    def _add_conservation(self, tree: _Tree, is_unicast: bool) -> None:
        """What enters a node leaves it: one-to-one bytes everywhere, others where nothing is copied or added."""
        network = self.network
        free = network.copies if tree.spreads else network.adds
        surplus = np.zeros(network.num_nodes)
        if is_unicast:
            assert tree.root_bytes is not None
            surplus[: network.num_ranks] = tree.root_bytes
            surplus[tree.ends[0]] -= tree.total
            surplus *= 1.0 if tree.spreads else -1.0
            free = np.zeros_like(free)
        for node in np.flatnonzero(~free):
            out, into = np.flatnonzero(network.src == node), np.flatnonzero(network.dst == node)
            columns = tree.first_column + np.concatenate([out, into])
            values = np.concatenate([np.ones(len(out)), -np.ones(len(into))])
            self.rows.add(columns, values, float(surplus[node]), float(surplus[node]))

    def _pass_model(self) -> None:
        import highspy

        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self.num_columns, len(self.rows.lower)
        cost = np.zeros(self.num_columns)
        cost[0] = 1.0
        model.col_cost_ = cost
        model.col_lower_ = np.zeros(self.num_columns)
        model.col_upper_ = np.full(self.num_columns, highspy.kHighsInf)
        model.row_lower_ = np.array(self.rows.lower)
        model.row_upper_ = np.array(self.rows.upper)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.array(self.rows.start)
        model.a_matrix_.index_ = np.concatenate(self.rows.column)
        model.a_matrix_.value_ = np.concatenate(self.rows.value)
        self.highs.passModel(model)

    def solve(self) -> None:
        self.highs.run()
        status = str(self.highs.getModelStatus())
        if "kOptimal" not in status:
            raise InterlockError(f"the linear program has no optimum ({status}); some bytes cannot reach their ranks")
        self.solution = np.array(self.highs.getSolution().col_value)

    @property
    def seconds(self) -> float:
        return float(self.solution[0]) * self.byte_unit / self.rate_unit

    def add_violated_cuts(self) -> bool:
        """Ask each tree's every end whether its rates suffice."""
        found = False
        for tree, is_unicast in zip(self.trees, self.unicast, strict=True):
            if is_unicast:
                continue
            for end in tree.ends.tolist():
                found |= self._add_cut(tree, end)
        return found

    def _add_cut(self, tree: _Tree, end: int) -> bool:
        network = self.network
        rates = self.solution[tree.first_column : tree.first_column + network.num_links]
        ranks = np.arange(network.num_ranks, dtype=np.int32)
        roots = tree.root_bytes
        if roots is None:
            roots = self.solution[tree.first_root_column : tree.first_root_column + network.num_ranks]
        hub = np.full(network.num_ranks, network.num_nodes, np.int32)
        src, dst = (network.src, network.dst) if tree.spreads else (network.dst, network.src)
        capacity = np.concatenate([rates, roots]).clip(0.0) * (SCALE / tree.total)
        value, side = _core.narrowest_cut_between(
            network.num_nodes + 1,
            np.concatenate([src, hub]),
            np.concatenate([dst, ranks]),
            np.minimum(capacity, SCALE).astype(np.int64),
            network.num_nodes,
            end,
        )
        if value >= SCALE * (1.0 - TOLERANCE):
            return False
        inside = side[:-1] == 1
        crossing = np.flatnonzero(inside[src] & ~inside[dst])
        rooted = np.flatnonzero(inside[: network.num_ranks])
        columns, values = tree.first_column + crossing, np.ones(len(crossing))
        needed = 0.0
        if tree.root_bytes is None:
            columns = np.concatenate([columns, tree.first_root_column + rooted])
            values = np.concatenate([values, -np.ones(len(rooted))])
        else:
            needed = float(tree.root_bytes[rooted].sum())
        self.highs.addRow(needed, np.inf, len(columns), columns.astype(np.int32), values)
        return True


def _highs() -> Any:
    try:
        import highspy
    except ImportError:
        raise MissingDependency("exact optima need highspy; install it with: pip install 'interlock[lp]'") from None
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    return solver
