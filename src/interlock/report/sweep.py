"""A grid of problems, point by point: each finished point is a file, so a sweep can be stopped and taken up again."""

from __future__ import annotations

import hashlib
import importlib
import json
import multiprocessing
import os
import signal
import threading
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import product
from pathlib import Path

from interlock.algorithms import registry
from interlock.comparison import row_of
from interlock.errors import InvalidInput, LimitExceeded, MissingDependency
from interlock.files import read_text, write_text
from interlock.interrupts import starting_processes
from interlock.planning import solve
from interlock.problem import Problem, check_demand, demand_problem
from interlock.topology import Cluster
from interlock.topology.cluster_files import cluster_from_table, cluster_to_toml
from interlock.topology.toml_text import check_keys, read_toml, table
from interlock.traffic import parse
from interlock.units import parse_bytes

__all__ = ["Grid", "Point", "read_grid", "run_point", "sweep"]

MAX_GRID_BYTES = 1 << 20
MAX_POINTS = 100_000
MAX_CHECKED_PAIRS = 1 << 24  # of ranks, in all demands together: 2 s
MEASURED = ("plan_s", "decide_s", "total_s")  # differ from run to run; kept in the points, not in the table
KEYS = {"clusters", "traffic", "sizes", "algorithms", "seeds"}

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Point:
    """One algorithm on one problem, in plain words that travel to any worker."""

    label: str  # of the cluster
    cluster_toml: str
    traffic: str
    size_bytes: int
    algorithm: str
    seed: int
    traffic_digest: str = ""  # of the file, where the traffic is one

    @property
    def key(self) -> str:
        """Names the point's file: equal only where the result must be equal."""
        facts = json.dumps([version("interlock"), asdict(self)], sort_keys=True)
        return hashlib.sha256(facts.encode()).hexdigest()[:32]

    @property
    def columns(self) -> Row:
        """The columns of the table that say which point this is."""
        return {
            "cluster": self.label,
            "traffic": self.traffic,
            "size_bytes": self.size_bytes,
            "seed": self.seed,
            "algorithm": self.algorithm,
        }


@dataclass(frozen=True, slots=True)
class Grid:
    """Clusters x traffic x sizes x seeds x algorithms."""

    clusters: dict[str, Cluster]  # by label
    traffic: tuple[str, ...]
    sizes_bytes: tuple[int, ...]
    algorithms: tuple[str, ...]
    seeds: tuple[int, ...]

    def points(self) -> list[Point]:
        """Every combination, algorithms innermost."""
        texts = {label: cluster_to_toml(cluster) for label, cluster in self.clusters.items()}
        digests = {words: _digest(words) for words in self.traffic}
        axes = product(texts, self.traffic, self.sizes_bytes, self.seeds, self.algorithms)
        return [
            Point(label, texts[label], words, size_bytes, algorithm, seed, digests[words])
            for label, words, size_bytes, seed, algorithm in axes
        ]


def read_grid(path: Path) -> Grid:
    """A grid from a TOML file, checked before anything is run; demands of very many ranks only when they are."""
    values = read_toml(path, MAX_GRID_BYTES)
    check_keys(values, KEYS, str(path))
    clusters = _clusters(_list(values, "clusters", str(path), [{"preset": "h200", "servers": 4}]), str(path))
    traffic = _texts(values, "traffic", str(path), ["zipf:0.8"])
    sizes = tuple(parse_bytes(text, f"{path}: sizes") for text in _texts(values, "sizes", str(path), ["512 MB"]))
    algorithms = _texts(values, "algorithms", str(path), ["direct", "fast", "adaptive"])
    seeds = _list(values, "seeds", str(path), [0])
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InvalidInput(f"{path}: seeds: {seed!r} must be a whole number, 0 or more")
    for name in algorithms:
        registry.get(name)
    count = len(clusters) * len(traffic) * len(sizes) * len(algorithms) * len(seeds)
    if count > MAX_POINTS:
        raise LimitExceeded(f"{path} has {count} points; at most {MAX_POINTS} are run")
    pairs = 0
    for cluster, words in sorted(product(clusters.values(), traffic), key=lambda point: point[0].num_ranks):
        pairs += cluster.num_ranks**2
        if pairs > MAX_CHECKED_PAIRS:
            break
        check_demand(cluster, parse(words, cluster, sizes[0]))
    return Grid(clusters, traffic, sizes, algorithms, tuple(int(str(seed)) for seed in seeds))


def sweep(
    grid: Grid,
    folder: Path,
    *,
    workers: int | None = None,
    dask: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[Row]:
    """Run what is not yet in `folder`, write `table.json` there, and return its rows.

    Parameters
    ----------
    workers
        Local processes; None takes one per processor.
    dask
        Address of a Dask scheduler, whose workers are used instead.
    """
    points = grid.points()
    kept = folder / "points"
    kept.mkdir(parents=True, exist_ok=True)
    rows = {point.key: row for point in points if (row := _finished(kept, point)) is not None}
    for key in rows:
        _tell(progress, key)
    missing = list({point.key: point for point in points if point.key not in rows}.values())
    if missing:
        with _executor(workers, dask) as pool:
            for point, row in _run(pool, missing):
                write_text(kept / f"{point.key}.json", json.dumps(row, indent=1) + "\n")
                rows[point.key] = row
                _tell(progress, f"{point.label} {point.traffic} {point.algorithm}")
    made = [{name: value for name, value in rows[p.key].items() if name not in MEASURED} for p in points]
    write_text(folder / "table.json", json.dumps({"rows": made, "times_are": "simulated"}, indent=1) + "\n")
    return made


def run_point(point: Point) -> Row:
    """Plan, prove and simulate one point; an algorithm that does not support it gives the reason."""
    problem = _problem(point.cluster_toml, point.traffic, point.size_bytes, point.seed, point.traffic_digest)
    reason = registry.get(point.algorithm).supports(problem)
    if reason is not None:
        return point.columns | {"refused": reason}
    assert problem.demand is not None
    found = asdict(row_of(solve(problem, point.algorithm, seed=point.seed)))
    return point.columns | asdict(problem.demand.unevenness) | found


@lru_cache(maxsize=2)
def _problem(cluster_toml: str, traffic: str, size_bytes: int, seed: int, digest: str) -> Problem:
    if _digest(traffic) != digest:
        raise InvalidInput(f"traffic {traffic!r} is another file here than where the sweep was started")
    cluster = cluster_from_table(tomllib.loads(cluster_toml), "cluster")
    return demand_problem(cluster, parse(traffic, cluster, size_bytes, seed))


def _run(pool: Executor, points: Sequence[Point]) -> Iterator[tuple[Point, Row]]:
    """Points and rows as they finish; what has not begun is called off when the caller stops."""
    point_by_future: dict[Future[Row], Point] = {}
    try:
        with starting_processes():
            point_by_future.update((pool.submit(run_point, point), point) for point in points)
        for future in as_completed(point_by_future):
            yield point_by_future[future], future.result()
    finally:
        for future in point_by_future:
            future.cancel()


@contextmanager
def _executor(workers: int | None, dask: str | None) -> Iterator[Executor]:
    if dask is None:
        if workers is not None and not 1 <= workers <= 1024:
            raise InvalidInput(f"workers={workers} must be between 1 and 1024")
        # Spawned, not forked: the parent may hold threads and locks.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_work) as pool:
            yield pool
        return
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise MissingDependency(
            "sweeps on a Dask cluster need `distributed` (pip install 'interlock[sweep]')"
        ) from None
    try:
        client = distributed.Client(dask, timeout="20s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"dask={dask!r}: no scheduler answers there ({error})") from None
    with client, client.get_executor() as pool:
        yield pool


def _begin_work() -> None:
    """End by Ctrl-C, silently, and let no worker outlive a sweep that was killed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sweeping = parent

    def watch() -> None:
        sweeping.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _finished(folder: Path, point: Point) -> Row | None:
    file = folder / f"{point.key}.json"
    if not file.is_file():
        return None
    try:
        row = json.loads(read_text(file, MAX_GRID_BYTES))
    except (ValueError, RecursionError):  # not ours, or damaged: run it again
        return None
    return row if isinstance(row, dict) and point.columns.items() <= row.items() else None


def _clusters(entries: Sequence[object], where: str) -> dict[str, Cluster]:
    """Clusters by label; a list of server counts stands for one cluster each."""
    made: dict[str, Cluster] = {}
    for place, entry in enumerate(entries):
        values = table(entry, f"{where}: clusters[{place}]")
        counts = values.get("servers", 4)
        for servers in counts if isinstance(counts, list) else [counts]:
            built = cluster_from_table(values | {"servers": servers}, f"{where}: clusters[{place}]")
            label = f"{built.servers}x{built.gpus_per_server} {built.name}"
            if label in made:
                raise InvalidInput(f"{where}: two clusters are called {label!r}; give one another name")
            made[label] = built
    return made


def _list(values: dict[str, object], key: str, where: str, default: list[object]) -> list[object]:
    held = values.get(key, default)
    if not isinstance(held, list) or not held:
        raise InvalidInput(f"{where}: {key} must be a list with at least one entry")
    return held


def _texts(values: dict[str, object], key: str, where: str, default: list[object]) -> tuple[str, ...]:
    held = _list(values, key, where, default)
    for word in held:
        if not isinstance(word, str):
            raise InvalidInput(f"{where}: {key}: {word!r} must be a word in quotes")
    return tuple(dict.fromkeys(map(str, held)))


def _digest(traffic: str) -> str:
    file = Path(traffic[:200])
    if not file.is_file():
        return ""
    with file.open("rb") as held:
        return hashlib.file_digest(held, "sha256").hexdigest()


def _tell(progress: Callable[[str], None] | None, line: str) -> None:
    if progress is not None:
        progress(line)
