"""A slot table as columns of a schedule file, and back; links are those of the problem's topology."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.schedule.problem_columns import Columns
from interlock.schedule.slots import SlotSchedule, resting
from interlock.schedule.transfers import Chunks

__all__ = ["columns_of_slots", "slots_of_columns"]

ENTRIES_AT_ONCE = 1 << 26
_DTYPES = {"item": np.int32, "offset": np.int64, "length": np.int64}


def columns_of_slots(schedule: SlotSchedule) -> Columns:
    """The chunks, and the table row by row."""
    columns: Columns = {f"chunks.{name}": getattr(schedule.chunks, name).astype(t) for name, t in _DTYPES.items()}
    return columns | {"table": np.ascontiguousarray(schedule.table).reshape(-1)}


def slots_of_columns(columns: Columns, described: Mapping[str, object], problem: Problem) -> SlotSchedule:
    """The inverse; every chunk must exist and lie within its item. The table stays a memory map."""
    num_slots, num_reducing = (described.get(key) for key in ("num_slots", "num_reducing"))
    if not isinstance(num_slots, int) or not isinstance(num_reducing, int) or not 0 <= num_reducing <= num_slots:
        raise InvalidInput("the schedule file's slots lack num_slots, or num_reducing between 0 and it")
    chunks = _chunks(columns, problem)
    topology, table = problem.topology, columns.get("table")
    num_links = topology.num_links
    if topology.num_nodes != topology.num_ranks:
        raise InvalidInput("the schedule file has a slot table for a graph with switches; all nodes must be ranks")
    if table is None or table.dtype not in (np.uint16, np.uint32) or len(table) != num_slots * num_links:
        raise InvalidInput(f"the schedule file lacks a table of {num_slots} slots of {num_links} links")
    for first in range(0, len(table), ENTRIES_AT_ONCE):
        block = table[first : first + ENTRIES_AT_ONCE]
        unknown = np.flatnonzero((block >= len(chunks)) & (block != resting(table)))
        if len(unknown):
            slot, link = divmod(first + int(unknown[0]), num_links)
            raise InvalidInput(f"slot {slot}, link {link}: chunk {block[unknown[0]]} is not one of {len(chunks)}")
    return SlotSchedule(chunks, topology.link_src, topology.link_dst, table.reshape(num_slots, -1), num_reducing)


def _chunks(columns: Columns, problem: Problem) -> Chunks:
    found: dict[str, NDArray[Any]] = {}
    for name, dtype in _DTYPES.items():
        column = columns.get(f"chunks.{name}")
        if column is None or column.dtype != dtype:
            raise InvalidInput(f"the schedule file lacks column 'chunks.{name}' of type {np.dtype(dtype)}")
        found[name] = column
    chunks = Chunks(found["item"], found["offset"], found["length"])
    if len({len(column) for column in found.values()}) != 1 or len(chunks) == 0:
        raise InvalidInput("the schedule file's chunks must have an item, an offset and a length each")
    if int(chunks.item.min()) < 0 or int(chunks.item.max()) >= len(problem.items):
        raise InvalidInput(f"the schedule file's chunks must be of items between 0 and {len(problem.items) - 1}")
    room = problem.items.size_bytes[chunks.item]
    if (chunks.offset < 0).any() or (chunks.length < 1).any() or (chunks.length > room - chunks.offset).any():
        raise InvalidInput("the schedule file's chunks must lie within their items")
    return chunks
