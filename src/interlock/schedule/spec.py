"""The law of schedules: what every producer's output and every reader's result must satisfy.

Form (checked here, cheaply, column by column):

1. Columns have one entry per message; sources and destinations are ranks; stages and slices are not negative.
2. Only an in-switch reduction has several sources, only a multicast several destinations, and no message goes from a
   rank to itself.
3. A message's pieces lie inside their items, have at least one byte each, and add up to at most its size; the excess
   is padding.
4. Dependencies name other messages, ascending and without repetition.
5. Paths name links of the topology that carry data and lead from source to destination, through no other rank (a
   relay needs a message of its own); a multicast's or in-switch reduction's links are a tree that branches only at
   switches with the ability. An empty path is the topology's route.
6. `barriers` ascend.
7. A row of kind wait has no bytes and no links, and one rank, at both ends. Only a step's schedule has such rows, and
   `tasks`, which gives every row a task of the step (-1: of none) and says how many seconds a wait takes.

Meaning (checked by `interlock.validate`, which executes the schedule symbolically):

8. Dependencies, orders and barriers together have no cycle.
9. A message carries only bytes that its source contributed, or that a message it directly depends on, by itself or at
   a wait, or one before a barrier that it stands behind, brought there.
10. A link with an exclusive message carries only exclusive messages, each with its own place in the order. Messages
    of one slice from one rank to one rank that are not exclusive and have an `order` above 0 have their own places too,
    in the order of their connection, which sends one when the one before has left. In a step both hold within each
    task; messages of other tasks share the link.
11. A copy replaces the receiver's accumulator and a reduce adds to it. At every rank, destination or not, and whether
    anyone uses the result or not: the same bytes are copied there at most once; bytes of one contributor reach it at
    most once, and never that contributor; no contribution enters a sum twice. In the end every destination holds
    every byte with every contribution exactly once.
12. A write to bytes that other messages read at that rank is ordered after those reads.
13. In a step a message carries items of its own task, and opens stages that no other task opens. At each rank of a
    computation there is one wait of its task, as long as that takes; elsewhere, and in moves, there is none. Every row
    of a task waits, by dependencies alone, for a row that lists all rows of the earlier task which no other row of that
    task lists, for each task its own is after; and for waits that take together at least until its earliest start.
    Computations that are to be alone and share a
    rank are ordered likewise, the whole of one before the other. A task without rows is passed over: what is after it
    is after what it is after, and no earlier than it.

Scratch (`interlock.schedule.scratch` lists it): bytes brought to a rank that is neither contributor nor destination of
their item wait in its scratch from the stage of the message that brings them to the stage of the last message that
takes them away, both included; bytes that nobody takes away count in the stage that brings them. The high-water mark
is the largest sum over stages.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.ragged import Ragged
from interlock.schedule.model import Kind, Phase, Schedule

__all__ = ["check_form"]


def check_form(schedule: Schedule, problem: Problem) -> None:
    """Raise InvalidInput at the first row that breaks rules 1 to 6."""
    _check_columns(schedule)
    _check_ends(schedule, problem.num_ranks)
    _check_pieces(schedule, problem)
    _check_dependencies(schedule)
    _check_ids(schedule.path, problem.topology.num_links, "path", "link")
    _check_tasks(schedule, problem)


def _check_columns(schedule: Schedule) -> None:
    count = schedule.num_messages
    for name in ("src", "dst", "kind", "phase", "stage", "slice", "path", "exclusive", "order", "deps"):
        if len(getattr(schedule, name)) != count:
            raise InvalidInput(f"column {name!r} has {len(getattr(schedule, name))} rows; the schedule has {count}")
    for name in ("src", "dst", "path", "deps"):
        ragged: Ragged = getattr(schedule, name)
        if ragged.offsets[0] != 0 or ragged.offsets[-1] != len(ragged.values) or (np.diff(ragged.offsets) < 0).any():
            raise InvalidInput(f"column {name!r}: offsets must rise from 0 to the number of values")
    _first_bad(schedule.kind > max(Kind), "kind", schedule.kind, "a known kind")
    _first_bad(schedule.phase > max(Phase), "phase", schedule.phase, "a known phase")
    _first_bad(schedule.stage < 0, "stage", schedule.stage, "at least 0")
    _first_bad(schedule.slice < 0, "slice", schedule.slice, "at least 0")
    _first_bad(schedule.size_bytes < 0, "size_bytes", schedule.size_bytes, "at least 0")
    if (np.diff(schedule.barriers) <= 0).any():
        raise InvalidInput("barriers must ascend")


def _check_ends(schedule: Schedule, num_ranks: int) -> None:
    for name in ("src", "dst"):
        _check_ids(getattr(schedule, name), num_ranks, name, "rank")
    num_src, num_dst = schedule.src.counts, schedule.dst.counts
    _first_bad((num_src == 0) | (num_dst == 0), "src", num_src, "ranks on both sides")
    _first_bad((num_src > 1) & (num_dst > 1), "src", num_src, "one rank on at least one side")
    many_to_one = (num_src > 1) & (schedule.kind != Kind.REDUCE)
    _first_bad(many_to_one, "kind", schedule.kind, "reduce where several ranks send")
    one_to_many = (num_dst > 1) & (schedule.kind != Kind.COPY)
    _first_bad(one_to_many, "kind", schedule.kind, "copy where several ranks receive")
    single = (num_src == 1) & (num_dst == 1)
    src = schedule.src.values[schedule.src.offsets[:-1]]
    dst = schedule.dst.values[schedule.dst.offsets[:-1]]
    is_wait = schedule.kind == Kind.WAIT
    _first_bad(single & (src == dst) & ~is_wait, "dst", dst, "another rank than src")
    _first_bad(is_wait & ((src != dst) | ~single), "dst", dst, "the rank of src, as it is a wait")


def _check_tasks(schedule: Schedule, problem: Problem) -> None:
    is_wait = schedule.kind == Kind.WAIT
    if schedule.tasks is None or problem.step is None:
        if schedule.tasks is not None or problem.step is not None or is_wait.any():
            raise InvalidInput("waits and tasks belong to the schedule of a step, which has both, and to no other")
        return
    tasks = schedule.tasks
    for name, column in (("task", tasks.task), ("seconds", tasks.seconds)):
        if len(column) != schedule.num_messages:
            raise InvalidInput(f"column {name!r} has {len(column)} rows; the schedule has {schedule.num_messages}")
    count = len(problem.step.tasks)
    _first_bad((tasks.task < -1) | (tasks.task >= count), "task", tasks.task, f"below {count}, or -1")
    _first_bad((tasks.task < 0) & ~is_wait, "task", tasks.task, "a task, as it is a message")
    bad = ~np.isfinite(tasks.seconds) | (tasks.seconds < 0) | ((tasks.seconds > 0) & ~is_wait)
    _first_bad(bad, "seconds", tasks.seconds, "at least 0, and 0 for a message")
    _first_bad(is_wait & (schedule.size_bytes > 0), "size_bytes", schedule.size_bytes, "0, as it is a wait")
    _first_bad(is_wait & (schedule.path.counts > 0), "path", schedule.path.counts, "empty, as it is a wait")


def _check_pieces(schedule: Schedule, problem: Problem) -> None:
    pieces = schedule.pieces
    if len(pieces.offsets) != schedule.num_messages + 1 or pieces.offsets[0] != 0 or pieces.offsets[-1] != len(pieces):
        raise InvalidInput(f"pieces.offsets must rise from 0 to {len(pieces)} over {schedule.num_messages} messages")
    if (np.diff(pieces.offsets) < 0).any() or not len(pieces.item) == len(pieces.offset) == len(pieces.length):
        raise InvalidInput("pieces must be listed message by message, with item, offset and length each")
    if len(pieces) == 0:
        return
    num_items = len(problem.items)
    if pieces.item.min() < 0 or pieces.item.max() >= num_items:
        raise InvalidInput(f"a piece names item {pieces.item.min()}..{pieces.item.max()}; there are {num_items}")
    size = problem.items.size_bytes[pieces.item]
    bad = (pieces.length <= 0) | (pieces.offset < 0) | (pieces.offset > size - pieces.length)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InvalidInput(
            f"message {pieces.message[row]}: bytes {pieces.offset[row]}+{pieces.length[row]} do not lie inside "
            f"item {pieces.item[row]} of {size[row]} bytes"
        )
    sums = np.add.reduceat(np.append(pieces.length, 0), np.minimum(pieces.offsets[:-1], len(pieces)))
    sums[np.diff(pieces.offsets) == 0] = 0
    _first_bad(sums > schedule.size_bytes, "size_bytes", schedule.size_bytes, "at least the sum of its pieces")


def _check_dependencies(schedule: Schedule) -> None:
    _check_ids(schedule.deps, schedule.num_messages, "deps", "message")
    row = schedule.deps.row_of_value
    if (schedule.deps.values == row).any():
        raise InvalidInput(f"message {row[schedule.deps.values == row][0]} depends on itself")
    descends = (np.diff(schedule.deps.values) <= 0) & (row[1:] == row[:-1])
    if descends.any():
        raise InvalidInput(f"message {row[1:][descends][0]}: dependencies must ascend without repetition")


def _check_ids(ragged: Ragged, limit: int, column: str, what: str) -> None:
    if len(ragged.values) and (ragged.values.min() < 0 or ragged.values.max() >= limit):
        place = int(np.flatnonzero((ragged.values < 0) | (ragged.values >= limit))[0])
        message = int(np.searchsorted(ragged.offsets, place, side="right")) - 1
        raise InvalidInput(f"message {message}: {column} names {what} {ragged.values[place]}; there are {limit}")


def _first_bad(bad: NDArray[np.bool_], column: str, values: NDArray[np.generic], rule: str) -> None:
    if bad.any():
        message = int(np.flatnonzero(bad)[0])
        raise InvalidInput(f"message {message}: {column}={values[message]} must be {rule}")
