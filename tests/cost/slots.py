"""The exact least number of slots in which chunks can move on a small cluster with latency, by integer programming.

In a slot every NIC and every scale-up port sends and receives one chunk at most. What is sent in a slot can be used
after the slot and the latency of the way, a whole number of slots. Ranks hold values: the sum of some contributions to
a chunk; two values without a common contribution can be added. Every answer is a schedule, so no bound may be above.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

Value = frozenset[int]


@dataclass(frozen=True)
class Chunk:
    """Who contributes, and who needs the sum of all; one contributor: copies."""

    contributors: tuple[int, ...]
    destinations: tuple[int, ...]

    def values(self) -> list[Value]:
        """All sums of some contributions, the smaller ones first."""
        members = self.contributors
        return [frozenset(some) for size in range(1, len(members) + 1) for some in combinations(members, size)]


@dataclass(frozen=True)
class Way:
    """From rank to rank, over two ports."""

    src: int
    dst: int
    latency: int
    ports: tuple[str, str]


def ways(servers: int, gpus: int, nic_latency: int, hop_latency: int) -> Iterator[Way]:
    """Every pair of ranks: by NICs between servers, by ports inside."""
    for src in range(servers * gpus):
        for dst in range(servers * gpus):
            if src != dst:
                kind, latency = ("port", hop_latency) if src // gpus == dst // gpus else ("nic", nic_latency)
                yield Way(src, dst, latency, (f"{kind} out {src}", f"{kind} in {dst}"))


@dataclass
class _Rows:
    """Constraints ``sum(coefficient * column) <= limit`` under construction."""

    row: list[int] = field(default_factory=list)
    column: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    limit: list[float] = field(default_factory=list)

    def add(self, terms: Sequence[tuple[int, float]], limit: float) -> None:
        for column, value in terms:
            self.row.append(len(self.limit))
            self.column.append(column)
            self.value.append(value)
        self.limit.append(limit)


def fits(chunks: Sequence[Chunk], all_ways: Sequence[Way], slots: int) -> bool:
    """Whether everything can be where it must be after so many slots."""
    ranks = sorted({way.src for way in all_ways})
    has: dict[tuple[int, Value, int, int], int] = {}
    sends: dict[tuple[int, Value, int, int], int] = {}
    joins: dict[tuple[int, Value, Value, int, int], int] = {}
    columns = 0
    for number, chunk in enumerate(chunks):
        for value in chunk.values():
            for slot in range(slots + 1):
                for rank in ranks:
                    has[number, value, rank, slot] = columns
                    columns += 1
                for place in range(len(all_ways)) if slot < slots else ():
                    sends[number, value, place, slot] = columns
                    columns += 1
                for part in (part for part in chunk.values() if part < value and min(value) in part):
                    for rank in ranks:
                        joins[number, part, value - part, rank, slot] = columns
                        columns += 1
    rows = _Rows()
    for (number, value, place, slot), column in sends.items():
        rows.add([(column, 1.0), (has[number, value, all_ways[place].src, slot], -1.0)], 0.0)
    for (number, one, other, rank, slot), column in joins.items():
        for part in (one, other):
            rows.add([(column, 1.0), (has[number, part, rank, slot], -1.0)], 0.0)
    least, most = np.zeros(columns), np.ones(columns)
    for (number, value, rank, slot), column in has.items():
        chunk = chunks[number]
        sources = [(joins[key], -1.0) for key in _joins_into(chunk, number, value, rank, slot)]
        if slot == 0:
            if value == {rank}:
                continue
        else:
            sources.append((has[number, value, rank, slot - 1], -1.0))
        for place, way in enumerate(all_ways):
            sent = slot - 1 - way.latency
            if way.dst == rank and sent >= 0:
                sources.append((sends[number, value, place, sent], -1.0))
        rows.add([(column, 1.0), *sources], 0.0)
        if slot == slots and value == set(chunk.contributors) and rank in chunk.destinations:
            least[column] = 1.0
    for slot in range(slots):
        for port in sorted({port for way in all_ways for port in way.ports}):
            users = [key for key in sends if key[3] == slot and port in all_ways[key[2]].ports]
            rows.add([(sends[key], 1.0) for key in users], 1.0)
    matrix = coo_array((rows.value, (rows.row, rows.column)), shape=(len(rows.limit), columns)).tocsr()
    found = milp(
        np.zeros(columns),
        integrality=np.ones(columns),
        bounds=Bounds(least, most),
        constraints=LinearConstraint(matrix, ub=np.array(rows.limit)),
    )
    assert found.status in (0, 2), found.message  # optimal, or infeasible
    return bool(found.status == 0)


def _joins_into(
    chunk: Chunk, number: int, value: Value, rank: int, slot: int
) -> Iterator[tuple[int, Value, Value, int, int]]:
    for part in chunk.values():
        if part < value and min(value) in part:
            yield number, part, value - part, rank, slot


def least_slots(chunks: Sequence[Chunk], all_ways: Sequence[Way], first: int) -> int:
    """The least number from `first` on."""
    return next(slots for slots in range(first, first + 100) if fits(chunks, all_ways, slots))
