"""Reads SimAI's and AICB's workload text: layers with what each pass computes and communicates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from interlock.errors import InvalidInput, LimitExceeded
from interlock.files import lines_of, read_text
from interlock.interchange.shared.files import MAX_FILE_BYTES

__all__ = ["Communication", "Workload", "read_simai_workload"]

MAX_ROWS = 1_000_000
COLUMNS = 12
KINDS = ("NONE", "ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "ALLTOALL", "BROADCAST", "ALLTOALLV")
PASSES = ("forward", "input gradient", "weight gradient")


@dataclass(frozen=True, slots=True)
class Communication:
    """One collective of a layer."""

    layer: str
    during: str  # one of PASSES
    kind: str  # as the file names it, e.g. ALLTOALL_EP
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Header values and every collective, in file order."""

    model: str
    settings: dict[str, int]
    num_layers: int
    communications: tuple[Communication, ...]


def read_simai_workload(path: Path) -> Workload:
    """The workload in a file."""
    lines = [line for line in lines_of(read_text(path, MAX_FILE_BYTES), path) if line.strip()]
    words = lines[0].split() if lines else []
    if len(lines) < 2 or not re.fullmatch(r"[A-Z][A-Z_]{2,63}", words[0] if words else ""):
        raise InvalidInput(f"{path} is no SimAI workload: it starts with neither a model type nor MICRO")
    pairs = re.findall(r"([a-z_]{1,40}):?\s+([0-9]{1,18})\b", lines[0][:4096])
    count = lines[1].strip()
    if not count.isdigit() or len(count) > 9 or int(count) > MAX_ROWS:
        raise LimitExceeded(f"{path}, line 2: {count[:20]!r} is not a number of layers up to {MAX_ROWS}")
    rows = lines[2:]
    if len(rows) != int(count):
        raise InvalidInput(f"{path} says {count} layers but lists {len(rows)}")
    found: list[Communication] = []
    for place, line in enumerate(rows, 3):
        cells = line.split()
        if len(cells) != COLUMNS:
            raise InvalidInput(f"{path}, line {place} has {len(cells)} columns; a layer has {COLUMNS}")
        for number, during in enumerate(PASSES):
            kind, size = cells[3 + 3 * number], cells[4 + 3 * number]
            if kind.split("_")[0] not in KINDS:
                raise InvalidInput(f"{path}, line {place}: {kind[:40]!r} is not one of {', '.join(KINDS)}")
            if not size.isdigit() or len(size) > 18:
                raise InvalidInput(f"{path}, line {place}: {size[:40]!r} is not a number of bytes")
            if kind != "NONE" and int(size):
                found.append(Communication(cells[0][:64], during, kind, int(size)))
    return Workload(words[0], {key: int(value) for key, value in pairs}, len(rows), tuple(found))
