"""Hostile files for every reader: each attack must end within 5 s of processor time and 1 GB.

`PYTHONPATH=tests python tests/hostile_files.py --bytes 50000000` tries files of that size, and prints what was over and
the most that each reader took; tests try small ones. A reader may accept a file or refuse it in words (InvalidInput).
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import os
import random
import re
import resource
import signal
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import interlock as il
from interchange.fuzz import READERS as FOREIGN
from interchange.fuzz import seeds_of
from interlock.interchange import Intent, import_topology, read_foreign
from interlock.interchange.machines import smi_topo
from interlock.problem import step_files
from interlock.problem.step_files import read_step
from interlock.report import sweep
from interlock.report.sweep import read_grid
from interlock.schedule import read_schedule
from interlock.topology import cluster_files, graph_files, read_cluster, read_topology
from interlock.traffic import read_demand, read_expert_loads, read_routing
from interlock.traffic.readers import read_npy

SECONDS, BYTES = 5, 1 << 30


def _reader(file_name: str, read: Callable[[Path], object]) -> Callable[[Path, bytes], None]:
    def write_and_read(folder: Path, data: bytes) -> None:
        (folder / file_name).write_bytes(data)
        read(folder / file_name)

    return write_and_read


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _written(write: Callable[[Path], object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "a.json")
        return (Path(folder) / "a.json").read_bytes()


def _trace() -> bytes:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    return _written(lambda path: il.plan(cluster, il.traffic.uniform(cluster)).export("chrome-trace", path))


def _slots() -> bytes:
    ring = il.topology.ring(4, bandwidth="1 GB/s")
    return _written(il.synthesize(ring, il.all_gather("4 kB"), "guided").save)


def _routing(folder: Path, data: bytes) -> None:
    (folder / "a.npy").write_bytes(data)
    read_routing(folder / "a.npy", 4)


EXPERTS = np.array([[0, 1], [2, 3], [1, 2]], np.int32)
LINKS = b'num_ranks = 2\n[links]\nsrc = [0, 1]\ndst = [1, 0]\nbandwidth = "1 GB/s"\n'
SWITCH = (
    b'name = "s"\nnum_ranks = 2\nnum_nodes = 4\nnics = [2]\nmulticasts = [3]\nreduces = [3]\nstage_overhead = "1 us"\n'
    b'symmetries = [[0, 1, 2, 3]]\n[fabric]\nname = "roce"\n'
    b"[links]\nsrc = [0, 2, 2, 3, 1, 3]\ndst = [2, 0, 3, 2, 3, 1]\n"
    b'bandwidth = ["1 GB/s", 2e9, 1e9, 1e9, 1e9, 1e9]\nlatency = "1 us"\nchannel = [0, 1, 2, 3, 4, 5]\n'
)
CLUSTER = b'preset = "h200"\nservers = 2\n[[faults]]\nkind = "dead-nic"\nserver = 0\ngpu = 1\n'
GROUPS = (
    b'preset = "h200"\n[[servers]]\ncount = 2\nscale_out_bandwidth = "50 GB/s"\n'
    b'[[servers]]\ncount = 1\nscale_out_bandwidth = "25 GB/s"\n[fabric]\nname = "roce"\n'
)
RATES = (
    b'servers = 2\ngpus_per_server = 2\nnic_rates = [["1 GB/s"], ["2 GB/s"]]\nscale_up_rates = ["9 GB/s", "8 GB/s"]\n'
)
STEP = (
    b'name = "s"\n[cluster]\npreset = "h200"\nservers = 2\n[[task]]\nname = "a"\ncompute = "1 ms"\nranks = [0, 1]\n'
    b'[[task]]\nname = "b"\nmove = "moe:0.8"\nsize = "1 MB"\nseed = 1\nafter = ["a"]\n'
    b'[[task]]\nname = "c"\ntransposed = "b"\ntimes = 2\nafter = ["b"]\n'
    b'[[task]]\nname = "d"\nmove = "all-reduce"\nsize = "1 MB"\ngroups = "rails"\n'
)
SWEEP = (
    b'traffic = ["uniform", "zipf:0.8"]\nsizes = ["1 MB", "2 MB"]\nalgorithms = ["direct", "fast"]\nseeds = [0, 1]\n'
    b'[[clusters]]\npreset = "h200"\nservers = [2, 4]\n'
)
SIMAI = b"5 2 1 2 4 H100\n2 3 4\n0 2 400Gbps 0.0005ms\n1 2 400Gbps 0.0005ms\n2 3 400Gbps 0.0005ms\n3 4 1Gbps 1us\n"
TREE = (
    b"Nodes 4\nTiers 2\nTier 0\nDownlink_speed_Gbps 400\nRadix_Down 2\nRadix_Up 2\nDownlink_Latency_ns 500\n"
    b"Tier 1\nDownlink_speed_Gbps 400\nRadix_Down 2\n"
)
OURS: dict[str, tuple[Callable[[Path, bytes], None], list[bytes]]] = {
    "matrix": (_reader("a.txt", read_demand), [b"0 1\n2 0\n"]),
    "matrix-csv": (_reader("a.csv", read_demand), [b"0,1\n2,0\n", b"0; 1\n+2; 0\n"]),
    "matrix-npz": (_reader("a.npz", read_demand), [_npz(demand=np.ones((2, 2), np.int64))]),
    "npy": (_reader("a.npy", read_npy), [_npy(np.eye(3, dtype=np.int64))]),
    "routing-npy": (_routing, [_npy(EXPERTS), _npy(EXPERTS[None])]),
    "expert-loads": (_reader("l.txt", read_expert_loads), [b"1 2 3\n4 5 6\n"]),
    "expert-loads-npz": (_reader("l.npz", read_expert_loads), [_npz(loads=np.ones((2, 2), np.int64))]),
    "cluster": (_reader("c.toml", read_cluster), [CLUSTER, GROUPS, RATES]),
    "topology": (_reader("t.toml", read_topology), [LINKS, SWITCH, b'shape = "ring:4"\nbandwidth = "1 GB/s"\n']),
    "edges": (_reader("t.csv", read_topology), [b"src,dst,bandwidth\n0,1,1 GB/s\n1,0,1 GB/s\n"]),
    "simai-topology": (_reader("t.txt", lambda path: import_topology([path])), [SIMAI]),
    "htsim-topology": (_reader("t.topo", lambda path: import_topology([path])), [TREE]),
    "step": (_reader("s.toml", read_step), [STEP]),
    "sweep": (_reader("g.toml", read_grid), [SWEEP]),
    "slots": (_reader("s.ilk", read_schedule), [_slots()]),
    "chrome-trace": (_reader("a.json", lambda path: read_foreign(path, Intent(), "chrome-trace")), [_trace()]),
}
READERS = {
    **{name: (read, seeds_of(name)[1:]) for name, read in FOREIGN.items() if not name.endswith("-demand")},
    **OURS,
}
MOST_BYTES = {
    "cluster": cluster_files.MAX_FILE_BYTES,
    "topology": graph_files.MAX_FILE_BYTES,
    "step": step_files.MAX_FILE_BYTES,
    "sweep": sweep.MAX_GRID_BYTES,
    "smi-topology": smi_topo.MAX_BYTES,
}


# --- Attacks: files of about so many bytes, made from a sound one ---


def _filled(unit: bytes) -> Callable[[bytes, int], bytes]:
    return lambda seed, size: unit * (size // len(unit))


def _counted(pattern: str) -> Callable[[bytes, int], bytes]:
    """Numbered, so that no two are alike."""

    def made(seed: bytes, size: int) -> bytes:
        return "".join(pattern.format(number) for number in range(size // (len(pattern) + 4))).encode()

    return made


def _repeated(seed: bytes, size: int) -> bytes:
    return seed * (size // max(1, len(seed)))


def _unit_repeated(ends: bytes, which: float) -> Callable[[bytes, int], bytes]:
    """One line, element or entry of the sound file again and again, in its place."""

    def made(seed: bytes, size: int) -> bytes:
        cuts = [found.end() for found in re.finditer(re.escape(ends), seed)]
        if len(cuts) < 2:
            return b""
        place = min(int(which * len(cuts)), len(cuts) - 2)
        unit = seed[cuts[place] : cuts[place + 1]]
        return seed[: cuts[place]] + unit * (size // len(unit)) + seed[cuts[place] :]

    return made


def _grown(pattern: bytes, character: bytes, which: float) -> Callable[[bytes, int], bytes]:
    """One word or number of the sound file, as long as the file may be."""

    def made(seed: bytes, size: int) -> bytes:
        found = list(re.finditer(pattern, seed))
        if not found:
            return b""
        one = found[min(int(which * len(found)), len(found) - 1)]
        return seed[: one.start(1)] + character * size + seed[one.end(1) :]

    return made


def _counting(pattern: bytes, opening: bytes, closing: bytes, which: float) -> Callable[[bytes, int], bytes]:
    """A list or table of the sound file with as many entries as fit, no two alike."""

    def made(seed: bytes, size: int) -> bytes:
        found = list(re.finditer(pattern, seed, re.DOTALL))
        if not found:
            return b""
        one = found[min(int(which * len(found)), len(found) - 1)]
        entries = [opening + str(number).encode() + closing for number in range(size // (len(opening + closing) + 8))]
        return seed[: one.start(1)] + b"".join(entries) + seed[one.end(1) :]

    return made


def _numbers_set(number: bytes, only: int | None = None) -> Callable[[bytes, int], bytes]:
    """Every number of the sound file, or one of them, set to one that asks for much."""

    def made(seed: bytes, size: int) -> bytes:
        found = list(re.finditer(rb"\d+", seed))
        for one in reversed(found if only is None else found[only : only + 1]):
            seed = seed[: one.start()] + number + seed[one.end() :]
        return seed

    return made


def _archive(seed: bytes, size: int) -> bytes:
    """Zeros that take a thousandth of their size, in every entry of an archive."""
    if not zipfile.is_zipfile(io.BytesIO(seed)):
        return b""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(seed)) as sound, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for name in sound.namelist():
            with made.open(name, "w", force_zip64=True) as entry:
                data = sound.read(name)
                entry.write(data[:128])
                for _ in range(max(1, size // 1_000_000)):
                    entry.write(bytes(100_000_000 if size > 10_000_000 else 1_000_000))
    return file.getvalue()


def _many_entries(seed: bytes, size: int) -> bytes:
    if not zipfile.is_zipfile(io.BytesIO(seed)):
        return b""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for number in range(min(size // 120, 200_000)):
            made.writestr(f"e{number}", b"")
    return file.getvalue()


HUGE = (65_535, 10**9, 2**62, 10**30)
ATTACKS: dict[str, Callable[[bytes, int], bytes]] = {
    "nothing": lambda seed, size: b"",
    "zeros": _filled(b"\0"),
    "random bytes": lambda seed, size: random.Random(0).randbytes(size),
    "random bytes within": lambda seed, size: seed[: len(seed) // 2] + random.Random(1).randbytes(size),
    "a digit": _filled(b"1"),
    "digits": _filled(b"1 "),
    "digits with commas": _filled(b"1,"),
    "a column": _filled(b"1\n"),
    "spaces": _filled(b" "),
    "lines": _filled(b"\n"),
    "open lists": _filled(b"["),
    "open objects": _filled(b'{"a":'),
    "open elements": _filled(b"<a>"),
    "open braces of TOML": _filled(b"a={"),
    "flat elements": lambda seed, size: b"<a>" + b"<b/>" * (size // 4) + b"</a>",
    "a list": lambda seed, size: b"[" + b"0," * (size // 2) + b"0]",
    "lists": lambda seed, size: b"[" + b"[]," * (size // 3) + b"[]]",
    "a list of TOML": lambda seed, size: b"a = [" + b"0," * (size // 2) + b"0]",
    "keys of JSON": lambda seed, size: b"{" + _counted('"k{}":0,')(seed, size) + b'"z":0}',
    "keys of TOML": _counted("k{} = 0\n"),
    "dotted keys": _counted("a.k{}.b.c = 0\n"),
    "tables of TOML": _counted("[k{}]\n"),
    "arrays of tables": _filled(b"[[a]]\n"),
    "comments": _filled(b"# a\n"),
    "quotes": _filled(b'"'),
    "backslashes": lambda seed, size: b'{"a": "' + b"\\\\" * (size // 2) + b'"}',
    "not UTF-8": _filled(b"\xff"),
    "again and again": _repeated,
    **{
        f"one {name} repeated, {round(which * 100)} % in": _unit_repeated(ends, which)
        for name, ends in (("line", b"\n"), ("element", b">"), ("object", b"}"), ("entry", b","), ("word", b" "))
        for which in (0.0, 0.5, 0.99)
    },
    **{
        f"a long {name}, {round(which * 100)} % in": _grown(pattern, character, which)
        for name, pattern, character in (
            ("word", rb'"([^"\n]*)"', b"x"),
            ("number", rb"(\d+)", b"9"),
            ("space", rb"(\s)", b" "),
        )
        for which in (0.0, 0.5, 0.99)
    },
    **{
        f"a list of {name}, {round(which * 100)} % in": _counting(rb"\[([^\[\]\n]+)\]", opening, closing, which)
        for name, opening, closing in (("numbers that count", b"", b","), ("words that count", b'"', b'",'))
        for which in (0.0, 0.5, 0.99)
    },
    "tasks that count": _counting(rb"()\[\[task\]\]", b'[[task]]\ncompute = 1\nname = "n', b'"\n', 0.0),
    **{f"numbers are {number}": _numbers_set(str(number).encode()) for number in HUGE},
    **{
        f"number {place} is {number}": _numbers_set(str(number).encode(), place)
        for number in (1_000, 65_535)
        for place in range(12)
    },
    "an archive of zeros": _archive,
    "an archive of many": _many_entries,
}


@dataclass(frozen=True, slots=True)
class Taken:
    """What a reader did with a file."""

    reader: str
    attack: str
    size: int
    fault: str  # empty where it accepted the file or refused it in words
    seconds: float
    more_bytes: int


def attack(reader: str, name: str, data: bytes) -> Taken:
    """In a process of its own, which ends beyond its limits."""
    read = READERS[reader][0]
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os._exit(_attacked(read, data, tell))
    os.close(tell)
    with os.fdopen(told) as words:
        fault = words.read()
    _, status, used = os.wait4(pid, 0)
    if os.WIFSIGNALED(status):
        fault = "too long" if os.WTERMSIG(status) == signal.SIGXCPU else f"signal {os.WTERMSIG(status)}"
    more = max(0, used.ru_maxrss * 1024 - _held())
    return Taken(reader, name, len(data), fault, used.ru_utime + used.ru_stime, more)


def _held() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _attacked(read: Callable[[Path, bytes], None], data: bytes, tell: int) -> int:
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + BYTES, mapped + BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    with tempfile.TemporaryDirectory() as folder:
        try:
            read(Path(folder), data)
        except il.InvalidInput as refused:
            if len(str(refused)) > 1000:
                os.write(tell, b"an error of more than 1,000 characters")
        except BaseException as error:
            os.write(tell, f"{type(error).__name__}: {error}"[:300].encode())
    return 0


def attack_all(reader: str, size: int) -> list[Taken]:
    """Every attack on one reader, from each of its sound files."""
    for module in ("torch", "pyarrow.parquet"):  # here, and not once for every file
        if reader in ("pt", "parquet") and importlib.util.find_spec(module.partition(".")[0]):
            importlib.import_module(module)
    size = min(size, MOST_BYTES.get(reader, size) * 99 // 100)  # larger ones are refused for that alone
    taken, tried = [], set()
    for name in ATTACKS:
        for seed in READERS[reader][1]:
            data = ATTACKS[name](seed, size)
            if hash(data) not in tried:
                tried.add(hash(data))
                taken.append(attack(reader, name, data))
    return taken


def main() -> None:
    """Print what went wrong, and the most of each reader."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=50_000_000)
    parser.add_argument("--reader", choices=list(READERS))
    options = parser.parse_args()
    num_faults = 0
    for reader in [options.reader] if options.reader else READERS:
        taken = attack_all(reader, options.bytes)
        for one in taken:
            if one.fault:
                print(f"{one.reader}: {one.attack} ({one.size} bytes): {one.fault}", flush=True)
        slowest, largest = max(taken, key=lambda one: one.seconds), max(taken, key=lambda one: one.more_bytes)
        num_faults += sum(bool(one.fault) for one in taken)
        print(
            f"{reader}: {len(taken)} files, {slowest.seconds:.2f} s at most ({slowest.attack}), "
            f"{largest.more_bytes / 1e6:.0f} MB at most ({largest.attack})",
            flush=True,
        )
    print(f"{num_faults} faults")
    sys.exit(bool(num_faults))


if __name__ == "__main__":
    main()
