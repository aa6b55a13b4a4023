"""Schedule files (`.ilk`): versioned, checksummed, memory-mappable, safe to read from strangers.

Layout, little-endian: 8 bytes of magic, uint64 length of the header, 16 bytes of its BLAKE2b digest, the header (JSON),
then the columns, each at a multiple of 64 bytes: those of all rows, or a slot table. The header names every column with
its dtype, length, place and digest, and carries the problem, the algorithm, its parameters, the seed, the reason and
the version. Nothing in a file is executed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from interlock.errors import InvalidInput
from interlock.files import write_atomically
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule.model import Pieces, Schedule, TaskRows
from interlock.schedule.problem_columns import (
    Columns,
    column_of,
    columns_of_problem,
    columns_of_slots,
    entry,
    problem_from_columns,
    slots_of_columns,
)
from interlock.schedule.slots import SlotSchedule
from interlock.schedule.spec import check_form

__all__ = ["SavedSchedule", "is_schedule_file", "read_schedule", "write_atomically", "write_schedule"]

MAGIC = b"ILK\x00\x01\r\n\x1a"
VERSION = 2
ORDERS_OF_LINKS_ONLY = 1  # version in which what shares its links has no place, whatever its order
ALIGNMENT = 64
MAX_HEADER_BYTES = 1 << 20
MAX_FILE_BYTES = 1 << 40
MAX_COLUMNS = 64

_COLUMN_DTYPES = {
    "kind": np.uint8,
    "phase": np.uint8,
    "stage": np.int32,
    "slice": np.int32,
    "size_bytes": np.int64,
    "exclusive": np.bool_,
    "order": np.int64,
}
_PIECE_DTYPES = {"offsets": np.int64, "item": np.int32, "offset": np.int64, "length": np.int64}
_RAGGED = ("src", "dst", "path", "deps")
_DTYPES = ("uint8", "uint16", "uint32", "int32", "int64", "float64", "bool")


@dataclass(frozen=True, slots=True)
class SavedSchedule:
    """What a schedule file holds."""

    schedule: Schedule | SlotSchedule
    problem: Problem
    algorithm: str
    seed: int
    parameters: dict[str, object]
    version: str  # of the package that wrote it
    reason: str = ""  # why the plan is as it is; files written before it was kept say nothing


def write_schedule(
    path: str | os.PathLike[str],
    schedule: Schedule | SlotSchedule,
    problem: Problem,
    *,
    algorithm: str,
    seed: int = 0,
    parameters: Mapping[str, object] | None = None,
    version: str = "",
    reason: str = "",
) -> None:
    """Write a schedule, its rows or its slot table, and its problem, whole or not at all."""
    columns, described = columns_of_problem(problem)
    mine = columns_of_slots(schedule) if isinstance(schedule, SlotSchedule) else _columns_of_schedule(schedule)
    columns = mine | columns
    place, table = 0, []
    for name, column in columns.items():
        place = -(-place // ALIGNMENT) * ALIGNMENT
        table.append(
            {
                "name": name,
                "dtype": str(column.dtype),
                "length": len(column),
                "place": place,
                "digest": _digest(column.view(np.uint8).data),
            }
        )
        place += column.nbytes
    header = {
        "version": VERSION,
        "written_by": f"interlock {version}".strip(),
        "algorithm": algorithm,
        "reason": reason,
        "seed": seed,
        "parameters": {key: _plain(value) for key, value in (parameters or {}).items()},
        "problem": described,
        "columns": table,
    }
    if isinstance(schedule, SlotSchedule):
        header["slots"] = {"num_slots": len(schedule.table), "num_reducing": schedule.num_reducing}
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    if len(text) > MAX_HEADER_BYTES:
        raise InvalidInput(f"the header would have {len(text)} bytes; at most {MAX_HEADER_BYTES} are allowed")

    def write(file: BinaryIO) -> None:
        start = MAGIC + len(text).to_bytes(8, "little") + bytes.fromhex(_digest(text)) + text
        file.write(start + b"\0" * (-len(start) % ALIGNMENT))
        at = 0
        for column in columns.values():
            file.write(b"\0" * (-at % ALIGNMENT))
            file.write(column.view(np.uint8).data)
            at += -at % ALIGNMENT + column.nbytes

    write_atomically(path, write)


def read_schedule(path: str | os.PathLike[str]) -> SavedSchedule:
    """Read a schedule file; columns are memory-mapped, digests and form are checked."""
    file = Path(path)
    header, start = _read_header(file)
    columns = _read_columns(file, header, start)
    problem = problem_from_columns(columns, entry(header, "problem", dict))
    schedule: Schedule | SlotSchedule
    if "slots" in header:
        schedule = slots_of_columns(columns, entry(header, "slots", dict), problem)
    else:
        schedule = _schedule_of_columns(columns)
        check_form(schedule, problem)
        if header["version"] == ORDERS_OF_LINKS_ONLY:
            schedule = replace(schedule, order=np.where(schedule.exclusive, schedule.order, 0))
    return SavedSchedule(
        schedule,
        problem,
        algorithm=entry(header, "algorithm", str),
        seed=entry(header, "seed", int),
        parameters=entry(header, "parameters", dict),
        version=entry(header, "written_by", str),
        reason=entry({"reason": ""} | header, "reason", str),
    )


def is_schedule_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file starts like a schedule file."""
    with Path(path).open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _read_header(file: Path) -> tuple[dict[str, object], int]:
    if not file.is_file():
        raise InvalidInput(f"{file} is not a file")
    size = file.stat().st_size
    if size > MAX_FILE_BYTES:
        raise InvalidInput(f"{file} has {size} bytes; at most {MAX_FILE_BYTES} are read")
    with file.open("rb") as handle:
        fixed = handle.read(len(MAGIC) + 24)
        if fixed[: len(MAGIC)] != MAGIC:
            raise InvalidInput(f"{file} is not an Interlock schedule (its first bytes are wrong)")
        length = int.from_bytes(fixed[len(MAGIC) : len(MAGIC) + 8], "little")
        if len(fixed) < len(MAGIC) + 24 or length > MAX_HEADER_BYTES or length > size:
            raise InvalidInput(f"{file} is truncated or its header of {length} bytes is too long")
        text = handle.read(length)
    if _digest(text) != fixed[len(MAGIC) + 8 :].hex():
        raise InvalidInput(f"{file} is corrupted: its header does not match its digest")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput(f"{file}: its header is not JSON") from None
    version = header.get("version") if isinstance(header, dict) else None
    if version not in (ORDERS_OF_LINKS_ONLY, VERSION):
        raise InvalidInput(f"{file} has format version {version}; this program reads versions 1 and {VERSION}")
    start = len(MAGIC) + 24 + length
    return header, start + -start % ALIGNMENT


def _read_columns(file: Path, header: dict[str, object], start: int) -> Columns:
    table = entry(header, "columns", list)
    if len(table) > MAX_COLUMNS:
        raise InvalidInput(f"{file} names {len(table)} columns; at most {MAX_COLUMNS} are read")
    size = file.stat().st_size
    columns: Columns = {}
    end = start
    for row in table:
        name, dtype = (entry(row, key, str, "column") for key in ("name", "dtype"))
        length, place = (entry(row, key, int, "column") for key in ("length", "place"))
        if dtype not in _DTYPES or name in columns:
            raise InvalidInput(f"{file}: column {name!r} has dtype {dtype!r} or is named twice")
        nbytes = length * np.dtype(dtype).itemsize
        if min(length, place) < 0 or place % ALIGNMENT or start + place + nbytes > size:
            raise InvalidInput(f"{file} is truncated: column {name!r} would end at byte {start + place + nbytes}")
        end = max(end, start + place + nbytes)
        if length == 0:
            columns[name] = np.zeros(0, dtype)
            continue
        mapped = np.memmap(file, mode="r", dtype=np.uint8, offset=start + place, shape=(nbytes,))
        if _digest(mapped.data) != entry(row, "digest", str, "column"):
            raise InvalidInput(f"{file} is corrupted: column {name!r} does not match its digest")
        if dtype == "bool" and int(mapped.max()) > 1:
            raise InvalidInput(f"{file}: column {name!r} holds values other than true and false")
        columns[name] = np.asarray(mapped).view(dtype)
    if end != size:
        raise InvalidInput(f"{file} goes on after its last column, from byte {end} to {size}")
    return columns


def _columns_of_schedule(schedule: Schedule) -> Columns:
    made: Columns = {name: np.ascontiguousarray(getattr(schedule, name), t) for name, t in _COLUMN_DTYPES.items()}
    for name in _RAGGED:
        ragged: Ragged = getattr(schedule, name)
        made |= {f"{name}.offsets": ragged.offsets, f"{name}.values": ragged.values}
    made |= {f"pieces.{name}": getattr(schedule.pieces, name) for name in _PIECE_DTYPES}
    if schedule.tasks is not None:
        made |= {"task": schedule.tasks.task, "seconds": schedule.tasks.seconds}
    return made | {"barriers": schedule.barriers}


def _schedule_of_columns(columns: Columns) -> Schedule:
    made: dict[str, Any] = {name: column_of(columns, name, dtype) for name, dtype in _COLUMN_DTYPES.items()}
    for name in _RAGGED:
        made[name] = Ragged(
            column_of(columns, f"{name}.offsets", np.int64), column_of(columns, f"{name}.values", np.int32)
        )
    pieces = Pieces(*(column_of(columns, f"pieces.{name}", dtype) for name, dtype in _PIECE_DTYPES.items()))
    if any(len(rows.offsets) == 0 for rows in (pieces, *(made[name] for name in _RAGGED))):
        raise InvalidInput("the schedule file has an offsets column without entries")
    tasks = None
    if "task" in columns:
        tasks = TaskRows(column_of(columns, "task", np.int32), column_of(columns, "seconds", np.float64))
    return Schedule(**made, pieces=pieces, barriers=column_of(columns, "barriers", np.int32), tasks=tasks)


def _digest(data: bytes | memoryview) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
