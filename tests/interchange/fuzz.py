"""A coverage-guided fuzzer for the readers: mutates seeds, keeps what reaches lines not seen before.

Run as a script for long hunts: ``python tests/interchange/fuzz.py --seconds 120``, or until every reader was fed a
number of bytes: ``--bytes 10000000 --json benchmarks/results/fuzz.json``. A reader may accept or refuse its
input (InvalidInput); anything else is a finding: another exception, too long, too much memory. Findings are kept in
a folder when --keep is given. What digests or checksums protect is mostly changed inside them, and sealed again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import io
import json
import random
import resource
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import interlock as il
from interlock.interchange import Intent, import_topology, read_foreign
from interlock.interchange.routing_traces import read_expert_counts, read_routing_trace
from interlock.schedule import Schedule, read_schedule
from interlock.schedule.files import MAGIC
from interlock.traffic import read_routing
from interlock.validate import check

SEEDS = Path(__file__).parent / "seeds"
SLOWEST_S = 20.0
MAX_INPUT = 1 << 16

DEMAND = il.traffic.matrix([[0, 3, 2, 1], [1, 0, 2, 3], [3, 1, 0, 2], [2, 2, 2, 0]])


def _foreign(name: str, intent: Intent, file_name: str) -> Callable[[Path, bytes], None]:
    def read(folder: Path, data: bytes) -> None:
        (folder / file_name).write_bytes(data)
        read_foreign(folder / file_name, intent, name)

    return read


def _chakra(folder: Path, data: bytes) -> None:
    """Rank 0 is hostile, rank 1 is sound."""
    (folder / "a.0.et").write_bytes(data)
    (folder / "a.1.et").write_bytes((SEEDS / "peer-of-chakra.et").read_bytes())
    read_foreign(folder, Intent(collective="all-gather"), "chakra")


def _topology(file_name: str) -> Callable[[Path, bytes], None]:
    def read(folder: Path, data: bytes) -> None:
        (folder / file_name).write_bytes(data)
        import_topology([folder / file_name])

    return read


def _npz(folder: Path, data: bytes) -> None:
    (folder / "a.npz").write_bytes(data)
    read_routing(folder / "a.npz", 4)


def _ours(folder: Path, data: bytes) -> None:
    """What is accepted is also checked, as `interlock verify` does."""
    (folder / "a.ilk").write_bytes(data)
    made = read_schedule(folder / "a.ilk")
    if isinstance(made.schedule, Schedule):
        check(made.schedule, made.problem)


def _trace(file_name: str) -> Callable[[Path, bytes], None]:
    def read(folder: Path, data: bytes) -> None:
        (folder / file_name).write_bytes(data)
        if file_name.endswith(".pt"):
            with contextlib.suppress(il.InvalidInput):
                read_expert_counts(folder / file_name)
        read_routing_trace(folder / file_name, 4, max_tokens=1 << 16)

    return read


READERS: dict[str, Callable[[Path, bytes], None]] = {
    "msccl-xml": _foreign("msccl-xml", Intent(), "a.xml"),
    "msccl-xml-demand": _foreign("msccl-xml", Intent(demand=DEMAND), "a.xml"),
    "mscclpp-json": _foreign("mscclpp-json", Intent(), "a.json"),
    "mscclpp-json-demand": _foreign("mscclpp-json", Intent(demand=DEMAND), "a.json"),
    "chakra": _chakra,
    "tacos-csv": _foreign("tacos-csv", Intent(), "a.csv"),
    "htsim": _foreign("htsim", Intent(demand=DEMAND), "a.cm"),
    "nccl-tests": _foreign("nccl-tests", Intent(), "a.txt"),
    "nccl-topology": _topology("a.xml"),
    "smi-topology": _topology("a.txt"),
    "astra-network": _topology("a.yml"),
    "npz": _npz,
    "ilk": _ours,
}
if importlib.util.find_spec("pyarrow") is not None:
    READERS["parquet"] = _trace("a.parquet")
if importlib.util.find_spec("torch") is not None:
    READERS["pt"] = _trace("a.pt")
Change = Callable[[bytes], bytes]


def _inside_ilk(data: bytes, change: Change, generator: random.Random) -> bytes:
    """Change the header or the columns of a schedule file, then seal all of it again."""
    start = len(MAGIC) + 24
    length = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    text, body = data[start : start + length], data[start + length + -(start + length) % 64 :]
    if generator.randrange(3) == 0:
        text = change(text)
    else:
        changed = change(body)
        body = changed if generator.randrange(4) == 0 else changed[: len(body)].ljust(len(body), b"\0")
        header = json.loads(text)
        for column in header["columns"]:
            end = column["place"] + column["length"] * np.dtype(column["dtype"]).itemsize
            column["digest"] = hashlib.blake2b(body[column["place"] : end], digest_size=16).hexdigest()
        text = json.dumps(header).encode()
    digest = hashlib.blake2b(text, digest_size=16).digest()
    head = MAGIC + len(text).to_bytes(8, "little") + digest + text
    return head + b"\0" * (-len(head) % 64) + body


def _inside_zip(data: bytes, change: Change, generator: random.Random) -> bytes:
    """Change one member of an archive, and pack all of them again."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(made, "w") as packed:
        names = archive.namelist()
        chosen = generator.choice(names)
        for name in names:
            member = archive.read(name)
            packed.writestr(name, change(member) if name == chosen else member)
    return made.getvalue()


FOLLOWED = ("interchange", "traffic", "schedule", "problem", "topology", "validate")
INSIDE = {"ilk": _inside_ilk, "npz": _inside_zip, "pt": _inside_zip}
WORDS = [b"-1", b"0", b"1", b"4294967296", b"99999999999999999999", b"NaN", b"null", b'"', b"<", b">", b"[", b"]", b"{"]
WORDS += [
    b"}",
    b",",
    b"\n",
    b"\t",
    b"\x00",
    b"\xff",
    b"i",
    b"o",
    b"s",
    b"nop",
    b"rrc",
    b"<!ENTITY a 'b'>",
    b"None",
    b"->",
]


@dataclass(slots=True)
class Finding:
    """An input that broke the rules."""

    reader: str
    data: bytes
    what: str


@dataclass(slots=True)
class Hunt:
    """One reader's corpus and what it has reached."""

    reader: str
    corpus: list[bytes]
    generator: random.Random
    lines: set[tuple[str, int]] = field(default_factory=set)
    num_bytes: int = 0
    num_inputs: int = 0

    def run(self, seconds: float, least_bytes: int, folder: Path) -> Finding | None:
        """Hunt for a while and at least for so many bytes; the first finding ends it."""
        for data in list(self.corpus):
            found = self._try(data, folder)
            if found is not None:
                return found
        end = time.process_time() + seconds
        while time.process_time() < end or self.num_bytes < least_bytes:
            data = self._mutated()
            before = len(self.lines)
            found = self._try(data, folder)
            if found is not None:
                return found
            if len(self.lines) > before:
                self.corpus.append(data)
        return None

    def _try(self, data: bytes, folder: Path) -> Finding | None:
        self.num_bytes += len(data)
        self.num_inputs += 1
        traced = self.num_inputs % 4 == 1  # tracing costs tenfold: follow coverage on every fourth input
        start = time.process_time()
        if traced:
            sys.settrace(self._trace)
        try:
            READERS[self.reader](folder, data)
        except il.InvalidInput:
            pass
        except Exception as error:
            return Finding(self.reader, data, f"{type(error).__name__}: {error}")
        finally:
            sys.settrace(None)
        took = time.process_time() - start
        return Finding(self.reader, data, f"took {took:.0f} s") if took > SLOWEST_S else None

    def _trace(self, frame, event: str, argument: object):  # type: ignore[no-untyped-def]
        name = frame.f_code.co_filename
        if not any(f"interlock/{part}" in name for part in FOLLOWED):
            return None
        short = name.rsplit("/", 1)[-1]

        def line(frame, event: str, argument: object):  # type: ignore[no-untyped-def]
            self.lines.add((short, frame.f_lineno))
            return line

        return line

    def _mutated(self) -> bytes:
        generator = self.generator
        size = generator.choice((256, 4096, MAX_INPUT))
        if generator.randrange(24) == 0:
            return generator.randbytes(size)
        data = generator.choice(self.corpus)
        if self.reader in INSIDE and generator.randrange(4):
            with contextlib.suppress(ValueError, KeyError, TypeError, LookupError, zipfile.BadZipFile, OSError):
                return INSIDE[self.reader](data, lambda part: self._changed(part, size), generator)[:MAX_INPUT]
        return self._changed(data, size)

    def _changed(self, given: bytes, size: int) -> bytes:
        generator = self.generator
        data = bytearray(given)
        while generator.randrange(8) == 0 and len(data) < size:
            data += generator.choice(self.corpus) + data
        for _ in range(generator.choice((1, 1, 2, 4, 8))):
            place = generator.randrange(len(data) + 1)
            end = min(len(data), place + generator.choice((1, 2, 4, 16, 64)))
            kind = generator.randrange(7)
            if kind == 0 and data:
                data[min(place, len(data) - 1)] ^= 1 << generator.randrange(8)
            elif kind == 1:
                data[place:place] = generator.randbytes(generator.choice((1, 2, 8)))
            elif kind == 2:
                del data[place:end]
            elif kind == 3:
                data[place:place] = generator.choice(WORDS)
            elif kind == 4:
                data[place:end] = generator.choice(WORDS)
            elif kind == 5:
                other = generator.choice(self.corpus)
                first = generator.randrange(len(other) + 1)
                data[place:place] = other[first : first + generator.choice((8, 64, 512))]
            else:
                data[place:place] = data[place:end] * generator.choice((1, 2, 30))
        return bytes(data[:MAX_INPUT])


def seeds_of(reader: str) -> list[bytes]:
    """Stored inputs of a reader, and nothing at all."""
    kind = reader.removesuffix("-demand")
    return [b"", *(file.read_bytes() for file in sorted(SEEDS.glob(f"{kind}.*")))]


def hunt_one(reader: str, seconds: float, least_bytes: int, seed: int) -> tuple[Finding | None, Hunt, float]:
    """Hunt in one reader; with the most memory that was used, in MiB."""
    hunt = Hunt(reader, seeds_of(reader), random.Random(f"{reader}/{seed}"))
    with tempfile.TemporaryDirectory() as folder:
        found = hunt.run(seconds, least_bytes, Path(folder))
    return found, hunt, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def hunt_all(
    readers: list[str], seconds: float, least_bytes: int, seed: int, jobs: int = 1
) -> tuple[list[Finding], dict[str, Hunt], float]:
    """Hunt in every reader for an equal share of the time, and at least for so many bytes; `jobs` at a time."""
    words = [(reader, seconds / len(readers), least_bytes, seed) for reader in readers]
    if jobs == 1:
        made = [hunt_one(*given) for given in words]
    else:
        with ProcessPoolExecutor(jobs) as pool:
            made = list(pool.map(hunt_one, *zip(*words, strict=True)))
    hunts = {hunt.reader: hunt for _, hunt, _ in made}
    return [found for found, _, _ in made if found is not None], hunts, max(peak for _, _, peak in made)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--bytes", type=int, default=0, help="feed every reader at least so many bytes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", choices=list(READERS))
    parser.add_argument("--jobs", type=int, default=1, help="readers at a time")
    parser.add_argument("--keep", type=Path, help="folder for findings")
    parser.add_argument("--json", type=Path, help="file for what was tried")
    words = parser.parse_args()
    readers = [words.reader] if words.reader else list(READERS)
    findings, hunts, peak = hunt_all(readers, words.seconds, words.bytes, words.seed, words.jobs)
    for name, hunt in hunts.items():
        print(f"{name:22} {hunt.num_inputs:8} inputs {hunt.num_bytes:12} bytes {len(hunt.lines):6} lines")
    print(f"peak memory {peak:.0f} MiB")
    if words.json:
        tried = [
            {"reader": name, "inputs": hunt.num_inputs, "bytes": hunt.num_bytes, "lines_reached": len(hunt.lines)}
            for name, hunt in hunts.items()
        ]
        sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
        from common import machine

        summary = {"seed": words.seed, "findings": len(findings), "peak_memory_MiB": round(peak), "readers": tried}
        summary["machine"] = machine()
        words.json.write_text(json.dumps(summary, indent=1) + "\n")
    for k, finding in enumerate(findings):
        print(f"FOUND in {finding.reader}: {finding.what[:300]}")
        if words.keep:
            words.keep.mkdir(exist_ok=True)
            (words.keep / f"{finding.reader}.{k}").write_bytes(finding.data)
    return bool(findings) or peak > 1024


if __name__ == "__main__":
    sys.exit(main())
