"""Call every function of the compiled core with arguments that no algorithm gives it: none may crash, hang or overrun.

python tools/fuzz_core.py --seconds 60 [--module build/_core.abi3.so] [--seed 0] [--only route_paths]

First small problems are planned, proven, simulated and exported, and what the core is called with is written down; then
copies of those arguments with a few changes are given to the same functions. A call may return, or raise one of
`ALLOWED`. `--module` takes another build of the core: with AddressSanitizer, whose library is then loaded first.

    cmake -S . -B build -G Ninja -DINTERLOCK_MODULE=ON -DINTERLOCK_SANITIZE=ON && cmake --build build --target _core
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib.util
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

MOST_KEPT = 6  # real calls of each function
MOST_ENTRIES = 5_000  # of an argument that is kept: larger ones make slow calls
HANGS_S = 120.0
MEMORY_BYTES = 4 << 30
ODD_FLOATS = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e300, -1e300, 5e-324)
ODD_INTS = (-1, 0, 1, 2, 255, 10**6, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))
METHODS = ("rows", "program", "scaled", "in_rounds")  # of a decision


def main() -> None:
    """Run children, each until it ends badly or time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--module", type=Path, help="another build of interlock._native._core")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one function")
    parser.add_argument("--calls", type=int, default=sys.maxsize, help="stop after so many")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--diary", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.diary is not None:
        attack(options)
        return
    until, first, faults = time.monotonic() + options.seconds, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        diary = Path(folder) / "diary"
        while time.monotonic() < until:
            words = [sys.executable, __file__, *sys.argv[1:], "--diary", str(diary), "--first", str(first)]
            words += ["--seconds", str(until - time.monotonic())]
            done = subprocess.run(words, env=environment(options.module), capture_output=True, text=True)
            print(done.stdout, end="", flush=True)
            if done.returncode == 0:
                break
            faults += 1
            number, call = diary.read_text().split(maxsplit=1) if diary.exists() else ("-1", "nothing was called yet")
            print(f"call {number} of {call}: exit {done.returncode}\n{shortened(done.stderr)}", flush=True)
            if number == "-1":
                break
            first = int(number) + 1
    print(f"{faults} calls ended badly")
    sys.exit(bool(faults))


def environment(module: Path | None) -> dict[str, str]:
    """With the sanitizer's library loaded first, for a build that needs it."""
    if module is None:
        return dict(os.environ)
    names = ("libasan.so", "libubsan.so", "libstdc++.so")
    found = [
        subprocess.run(["c++", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
        for name in names
    ]
    asan = "detect_leaks=0:abort_on_error=0:exitcode=97:allocator_may_return_null=1:max_allocation_size_mb=4096"
    return {**os.environ, "LD_PRELOAD": " ".join(found), "ASAN_OPTIONS": asan, "PYTHONMALLOC": "malloc"}


def shortened(report: str) -> str:
    """What a sanitizer or Python said, without the tail."""
    lines = [line for line in report.splitlines() if line.strip()]
    start = next(
        (k for k, line in enumerate(lines) if "ERROR" in line or "runtime error" in line), max(0, len(lines) - 14)
    )
    return "\n".join(line[:160] for line in lines[start : start + 14])


def attack(options: argparse.Namespace) -> None:
    """Call after call with changed arguments; the diary says which one is under way."""
    until = time.monotonic() + options.seconds
    if options.module is not None:
        load(options.module)
    else:  # what asks for more is refused, and does not take the machine's memory
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    from interlock._native import _core
    from interlock.errors import InterlockError

    allowed = (InterlockError, TypeError, ValueError, OverflowError, MemoryError)
    kept = record(_core)
    missing = sorted(name for name in functions(_core) if name not in kept and not name.startswith("build_"))
    if missing:
        raise SystemExit(f"no real call of {', '.join(missing)} was seen: let `work` make one")
    names = [options.only] if options.only else sorted(kept)
    number, said = options.first, defaultdict[str, list[int]](lambda: [0, 0])
    with options.diary.open("w") as diary:
        # On a slow machine the real calls may take all the time: every function is tried at least once.
        while (time.monotonic() < until or number < len(names)) and number < options.calls:
            name = names[number % len(names)]
            rng = random.Random(f"{options.seed}.{number}")
            call, arguments, named = rng.choice(kept[name])
            arguments, named = changed_call(rng, arguments, named)
            diary.seek(0)
            diary.write(f"{number} {name} seed {options.seed}".ljust(100))
            diary.flush()
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            try:
                call(*arguments, **named)
                said[name][0] += 1
            except allowed:
                said[name][1] += 1
            number += 1
    faulthandler.cancel_dump_traceback_later()
    total = sum(borne + refused for borne, refused in said.values())
    print(f"{total} calls of {len(said)} functions; borne and refused:")
    print(", ".join(f"{name} {borne} {refused}" for name, (borne, refused) in sorted(said.items())))


def load(module: Path) -> None:
    """Put this build of the core where the package will look for it."""
    spec = importlib.util.spec_from_file_location("interlock._native._core", module)
    assert spec is not None and spec.loader is not None
    core = importlib.util.module_from_spec(spec)
    sys.modules["interlock._native._core"] = core
    spec.loader.exec_module(core)


# --- Real calls ---

Call = tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]


def functions(core: ModuleType) -> list[str]:
    """All that the module offers to call."""
    return [name for name in dir(core) if callable(getattr(core, name)) and name[0].islower()]


def record(core: ModuleType) -> dict[str, list[Call]]:
    """Real calls of every function, and of the methods of a decision."""
    kept: dict[str, list[Call]] = defaultdict(list)
    originals = {name: getattr(core, name) for name in functions(core)}

    def watched(name: str) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            if len(kept[name]) < MOST_KEPT and entries((arguments, named)) <= MOST_ENTRIES:
                kept[name].append((originals[name], copied(arguments), copied(named)))
            return originals[name](*arguments, **named)

        return call

    for name in originals:
        setattr(core, name, watched(name))
    work()
    for name, original in originals.items():
        setattr(core, name, original)
    for plan, arguments, named in kept["plan_two_tier"]:
        decision, matrix = plan(*arguments, **named), arguments[0]
        nothing = np.zeros(0, np.int64)
        given = {"program": (matrix, 0, nothing, nothing, 0, 0, 0), "in_rounds": (matrix, 3)}
        for method in METHODS:
            kept[f"decision.{method}"].append((getattr(decision, method), given.get(method, (matrix,)), {}))
    return {name: calls for name, calls in kept.items() if calls}


def work() -> None:
    """Something of everything, small."""
    import interlock as il
    from interlock._native import _core
    from interlock.algorithms.adaptive import network_of
    from interlock.cost import lower_bound

    with tempfile.TemporaryDirectory() as folder:
        for servers, gpus, faults in ((2, 2, []), (3, 4, [il.slow_nic(0, 1, "5 GB/s"), il.dead_nic(1, 2)])):
            cluster = il.cluster("h200", servers=servers, gpus_per_server=gpus, faults=faults)
            demand = il.traffic.zipf(cluster, skew=1.0, bytes_per_gpu="1 MB", seed=1)
            _core.direct_seconds(demand.bytes_matrix, network_of(cluster))
            for name in ("adaptive", "fast", "rails-split", "guided"):
                if name != "fast" or not faults:
                    plan = il.plan(cluster, demand, name)
                    plan.certificate()
                    result = plan.simulate()
                    result.utilisation(8)
                    _core.record_rates(*result.arrays.arguments, 0.0)
                    level = np.arange(plan.schedule.num_messages, dtype=np.int32) % 3
                    end_s = np.zeros(len(level))
                    _core.admit_flows(*result.arrays.arguments, 0.0, level, end_s, True, result.makespan_s)
                    plan.program(0)
            il.plan(cluster, demand, "adaptive", scratch_bytes=10**6)
            il.synthesize(cluster, il.all_reduce("1 MB"), "tiers")
            il.planner(cluster)(demand, il.plan(cluster, demand, "adaptive"))
        export(
            il.plan(il.cluster("h200", servers=2, gpus_per_server=2), il.traffic.matrix(np.full((4, 4), 4096)), "fast"),
            folder,
        )
        for shape in (il.topology.ring(4, bandwidth="1 GB/s"), il.topology.torus(3, 3, bandwidth="1 GB/s")):
            for made in (il.all_gather("90 kB"), il.all_reduce("90 kB"), il.all_to_all("90 kB"), il.broadcast("90 kB")):
                for name in ("guided", "tacos"):
                    with suppress(il.InvalidInput):  # TACOS relays nothing
                        plan = il.synthesize(shape, made, name)
                        lower_bound(plan.problem)
                        plan.certificate()
        rest()


def export(plan: Any, folder: str) -> None:
    """What only exports call."""
    for name in ("msccl-xml", "mscclpp-json"):
        plan.export(name, Path(folder) / f"plan.{name}")


def rest() -> None:
    """Functions that those problems do not reach, with arguments as their callers make them."""
    from interlock._native import _core

    narrow, wide = (lambda *entries: np.array(entries, np.int32)), (lambda *entries: np.array(entries, np.int64))
    ring = narrow(0, 1, 2, 3), narrow(1, 2, 3, 0)
    links = narrow(0, 1, 2, 3, 0, 2, 1, 3), narrow(2, 3, 0, 1, 1, 3, 0, 2)
    held = wide(*range(9)), narrow(*range(8))
    graph = 4, 8, *links, *held, wide(*[10] * 8), np.full(8, 1000.0), np.linspace(0.3, 1.0, 8)
    _core.alike_trees(graph, narrow(0, 1, 2, 3), 1000, False)
    _core.eccentricities(graph, 1000)
    _core.sweep_trees(graph, narrow(0, 1), wide(100, 50), narrow(), np.full(8, 9e5), 2, 1.0, 0)
    _core.share_trees(
        graph,
        narrow(*range(4)),
        wide(*[225] * 4),
        np.ones(4, np.uint8),
        narrow(*[0] * 4),
        narrow(),
        np.full(8, 9e5),
        1.0,
        0.01,
        9,
    )
    _core.route_paths(graph, narrow(0, 0, 1), narrow(1, 2, 3), wide(113, 112, 9), 6, 1, 1.0, 0, wide(*[0] * 8))
    _core.decompose(np.array([[0, 5, 2], [1, 0, 4], [6, 1, 0]], np.int64))
    _core.rail_shares(np.array([0, 5, 7], np.int64), np.full((3, 2), 5e9), 0)
    _core.align_cuts(wide(0, 1, 2), wide(100, 156), narrow(0, 0), wide(0, 100), wide(100, 156), 16)
    for slots in (np.uint16, np.uint32):
        table = np.array([[0, 1, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1]], slots)
        goal = narrow(0, 1, 2, 3), wide(0, 3, 6, 9, 12), narrow(1, 2, 3, 0, 2, 3, 0, 1, 3, 0, 1, 2), *ring, 4
        _core.check_slot_table(table, *goal, False)
        _core.replay_slots(table, *ring, 4, 4)
        _core.slot_table_roots(table, ring[0], 4, 4)
    _core.run_tasks(
        narrow(0, 0, 1), np.ones(3), np.zeros(3), wide(0, 1, 2), wide(0, 0, 1, 2), narrow(0, 1), narrow(1, 2)
    )
    _core.shortest_routes(4, 4, *ring, wide(1, 2, 3, 4), narrow(0, 1), narrow(1, 2))
    _core.sum_tiles(np.arange(16, dtype=np.int64).reshape(4, 4), 2)
    _core.step_makespan_s(
        np.array([[1.0, 3.0, 0.0], [0.0, 1.0, 2.0]]),
        np.ones(3),
        np.zeros(3),
        narrow(0, 1, 1),
        wide(0, 0, 0, 1),
        narrow(0),
    )
    _core.check_step_order(
        wide(0, 0, 1, 2), narrow(0, 1), narrow(0, -1, 1), np.array([0.0, 1e-5, 0.0]), wide(0, 0, 1), narrow(0)
    )
    _core.step_makespan_s(
        np.array([[1e-3, 2e-3, 0.0], [0.0, 1e-3, 3e-3]]),
        np.array([1e-3, 2e-3, 3e-3]),
        np.array([0.0, 1e-4, 0.0]),
        narrow(0, 0, 1),
        wide(0, 0, 0, 1),
        narrow(0),
    )
    _core.translations(np.array([[1, 2, 3, 0]], np.int32), 4)


# --- Changes ---


def changed_call(
    rng: random.Random, arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """One to three changes of a copy."""
    everything = [*copied(arguments), *copied(tuple(named.values()))]
    for _ in range(rng.choice((1, 1, 2, 3))):
        place = rng.randrange(len(everything))
        everything[place] = changed(rng, everything[place])
    count = len(arguments)
    return tuple(everything[:count]), dict(zip(named, everything[count:], strict=True))


def changed(rng: random.Random, value: Any) -> Any:
    """Something near it, of the same type."""
    if isinstance(value, tuple):
        place = rng.randrange(len(value))
        return (*value[:place], changed(rng, value[place]), *value[place + 1 :])
    if isinstance(value, np.ndarray):
        return changed_array(rng, value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return rng.choice((*ODD_FLOATS, value * 2, value / 3))
    if isinstance(value, int):
        return rng.choice((*ODD_INTS, value + 1, value - 1, value * 2, rng.randrange(100)))
    return value


def changed_array(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """Shorter, longer, empty, in another order, or with odd entries."""
    how = rng.randrange(8)
    if how == 0:
        return array[: rng.randrange(len(array) + 1)].copy()
    if how == 1:
        return np.concatenate([array, array[: rng.randrange(1, 3)]])
    if how == 2 and array.ndim == 2:
        return np.ascontiguousarray(array[:, : rng.randrange(array.shape[1] + 1)])
    if how == 3 and array.size:
        return np.ascontiguousarray(array[np.random.default_rng(rng.getrandbits(32)).permutation(len(array))])
    if array.size:
        flat = array.reshape(-1)
        for _ in range(rng.choice((1, 1, 2, 5))):
            flat[rng.randrange(array.size)] = odd_entry(rng, array)
    return array


def odd_entry(rng: random.Random, array: np.ndarray) -> Any:
    if array.dtype.kind == "f":
        return rng.choice(ODD_FLOATS)
    if array.dtype.kind == "b":
        return rng.random() < 0.5
    limits = np.iinfo(array.dtype)
    near = int(rng.choice(array.reshape(-1))) + rng.choice((-1, 1))
    return min(max(rng.choice((*ODD_INTS, near, rng.randrange(50))), limits.min), limits.max)


def copied(value: Any) -> Any:
    """The arrays in it with memory of their own."""
    if isinstance(value, tuple):
        return tuple(map(copied, value))
    if isinstance(value, dict):
        return {name: copied(part) for name, part in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value


def entries(value: Any) -> int:
    """Numbers in its arrays."""
    if isinstance(value, tuple):
        return sum(map(entries, value))
    if isinstance(value, dict):
        return sum(map(entries, value.values()))
    return value.size if isinstance(value, np.ndarray) else 0


if __name__ == "__main__":
    main()
