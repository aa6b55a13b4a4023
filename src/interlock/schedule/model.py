"""The schedule: frozen columns, one row per message, and beside them one row per piece.

What is legal is said in `interlock.schedule.spec`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from interlock.errors import LimitExceeded
from interlock.ragged import Ragged, ranges

__all__ = ["MAX_ROWS", "CompactSchedule", "Kind", "Message", "Phase", "Pieces", "Schedule", "TaskRows", "check_rows"]

MAX_ROWS = 10_000_000


class Kind(IntEnum):
    """What the receiver does with the bytes."""

    COPY = 0  # they replace its accumulator
    REDUCE = 1  # they are added to it
    WAIT = 2  # there are none: computation at a rank, or a point where others meet


class Phase(IntEnum):
    """Named group of stages."""

    LOCAL = 0  # traffic that stays inside a server
    BALANCE = 1  # scale-up, before the wire
    SCALE_OUT = 2  # between servers
    REDISTRIBUTE = 3  # scale-up, after the wire
    REDUCE = 4  # towards a root or owner
    SPREAD = 5  # from a root or owner


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """What messages carry: message m holds rows ``offsets[m]:offsets[m + 1]``."""

    offsets: NDArray[np.int64]  # [num_messages + 1]
    item: NDArray[np.int32]
    offset: NDArray[np.int64]  # first byte within the item
    length: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.item)

    @property
    def message(self) -> NDArray[np.int64]:
        """The message each piece belongs to."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @property
    def message_bytes(self) -> NDArray[np.int64]:
        """Bytes each message carries."""
        running: NDArray[np.int64] = np.append(0, np.cumsum(self.length))
        return running[self.offsets[1:]] - running[self.offsets[:-1]]

    def take(self, messages: NDArray[np.integer]) -> Pieces:
        """Those of the chosen messages, in the order given."""
        counts = np.diff(self.offsets)[messages]
        rows = ranges(self.offsets[:-1][messages], counts)
        offsets = np.append(0, np.cumsum(counts))
        return Pieces(offsets, self.item[rows], self.offset[rows], self.length[rows])


@dataclass(frozen=True, slots=True, eq=False)
class TaskRows:
    """Which task of a step each row belongs to, and how long rows without bytes take."""

    task: NDArray[np.int32]  # [num_messages]; -1: of none, a point where others meet
    seconds: NDArray[np.float64]  # [num_messages]; 0 where the row is a message

    def __post_init__(self) -> None:
        self.task.flags.writeable = False
        self.seconds.flags.writeable = False


@dataclass(frozen=True, slots=True)
class Message:
    """One row of a schedule, for reading one at a time."""

    index: int
    src: tuple[int, ...]
    dst: tuple[int, ...]
    kind: Kind
    phase: Phase
    stage: int
    slice: int
    size_bytes: int
    path: tuple[int, ...]
    deps: tuple[int, ...]
    pieces: tuple[tuple[int, int, int], ...]  # (item, offset, length)


class CompactSchedule(ABC):
    """A schedule kept in a shorter form than its rows; every `Schedule` is one too."""

    __slots__ = ()

    @property
    def reason(self) -> str:
        """Why it is as it is, where the algorithm says; empty where it does not."""
        return ""

    @property
    def predicted_s(self) -> float | None:
        """Seconds that it is predicted to take, without simulating; None where nothing was predicted."""
        return None

    @property
    def num_messages(self) -> int:
        """Rows that `expand` would make."""
        return self.expand().num_messages

    @property
    def num_pieces(self) -> int:
        """Piece rows that `expand` would make."""
        return self.expand().num_pieces

    @property
    @abstractmethod
    def num_stages(self) -> int:
        """Distinct stages that carry traffic."""

    @abstractmethod
    def expand(self) -> Schedule:
        """Write out all rows; refuses above MAX_ROWS."""

    def iter_messages(self) -> Iterator[Message]:
        """Row after row, without writing out all of them where the form allows."""
        return self.expand().iter_messages()

    def rows_of(self, rank: int) -> Schedule:
        """At least the rows that a rank sends or receives, in order; others may be missing, and waits for them."""
        return self.expand()

    @abstractmethod
    def decided(self) -> tuple[NDArray[np.generic], ...]:
        """What the rows follow from, as arrays that are equal where the schedules are."""


class Wrapped(CompactSchedule):
    """Another schedule, with more said about it or its rows changed."""

    __slots__ = ()
    compact: CompactSchedule

    @property
    def reason(self) -> str:
        return self.compact.reason

    @property
    def predicted_s(self) -> float | None:
        return self.compact.predicted_s

    @property
    def num_messages(self) -> int:
        return self.compact.num_messages

    @property
    def num_pieces(self) -> int:
        return self.compact.num_pieces

    @property
    def num_stages(self) -> int:
        return self.compact.num_stages


@dataclass(frozen=True, slots=True, eq=False)
class Schedule(CompactSchedule):
    """Messages in columns; see the module for what each row means.

    `exclusive` messages hold every link of their path alone, in ascending `order` on each link; of others, those with
    an `order` above 0 leave one after the other on their connection. Messages of stage b or later, for each b in
    `barriers`, wait for all messages of earlier stages. Only a step has `tasks`; orders are then each task's own.
    """

    src: Ragged
    dst: Ragged
    kind: NDArray[np.uint8]
    phase: NDArray[np.uint8]
    stage: NDArray[np.int32]
    slice: NDArray[np.int32]
    size_bytes: NDArray[np.int64]
    path: Ragged  # link ids; an empty row is routed by the topology
    exclusive: NDArray[np.bool_]
    order: NDArray[np.int64]
    deps: Ragged  # message ids, ascending
    pieces: Pieces
    barriers: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    tasks: TaskRows | None = None

    def __post_init__(self) -> None:
        for column in (self.kind, self.phase, self.stage, self.slice, self.size_bytes, self.exclusive, self.order):
            column.setflags(write=False)

    @property
    def num_messages(self) -> int:
        return len(self.size_bytes)

    @property
    def num_pieces(self) -> int:
        return len(self.pieces)

    @property
    def num_stages(self) -> int:
        return len(np.unique(self.stage))

    def expand(self) -> Schedule:
        """Itself; compact forms write out their rows here."""
        return self

    def message(self, index: int) -> Message:
        """One row."""
        first, last = self.pieces.offsets[index], self.pieces.offsets[index + 1]
        held = zip(
            self.pieces.item[first:last].tolist(),
            self.pieces.offset[first:last].tolist(),
            self.pieces.length[first:last].tolist(),
            strict=True,
        )
        return Message(
            index=index,
            src=tuple(self.src[index].tolist()),
            dst=tuple(self.dst[index].tolist()),
            kind=Kind(int(self.kind[index])),
            phase=Phase(int(self.phase[index])),
            stage=int(self.stage[index]),
            slice=int(self.slice[index]),
            size_bytes=int(self.size_bytes[index]),
            path=tuple(self.path[index].tolist()),
            deps=tuple(self.deps[index].tolist()),
            pieces=tuple(held),
        )

    def iter_messages(self) -> Iterator[Message]:
        return (self.message(index) for index in range(self.num_messages))

    def decided(self) -> tuple[NDArray[np.generic], ...]:
        columns = (self.src.values, self.dst.values, self.size_bytes, self.stage, self.order, self.deps.values)
        tasks = () if self.tasks is None else (self.tasks.task, self.tasks.seconds)
        return (*columns, self.pieces.offsets, self.pieces.item, self.pieces.offset, self.pieces.length, *tasks)

    def column(self, name: str) -> NDArray[np.generic]:
        """A message column by name; `src` and `dst` only where every message is one-to-one."""
        value = getattr(self, name)
        if isinstance(value, Ragged):
            if not value.is_single:
                raise LimitExceeded(f"column {name!r} has rows of several ranks; read schedule.{name} instead")
            return value.values
        assert isinstance(value, np.ndarray)
        return value


def check_rows(num_rows: int) -> None:
    """Refuse to write out more rows than fit comfortably in memory."""
    if num_rows > MAX_ROWS:
        raise LimitExceeded(f"the schedule has {num_rows} rows, above {MAX_ROWS}; read it with iter_messages()")
