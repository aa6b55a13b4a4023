"""A slow, obvious validator: every byte by itself, every pair of messages compared, nothing clever.

It shares nothing with the native one. Ordering is a full transitive closure, kept as sets of message numbers.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np

from interlock.errors import InvalidInput
from interlock.topology import Topology
from validate.rows import COPY, REDUCE, Case, Row


def is_valid(case: Case) -> bool:
    """Whether the schedule surely delivers everything exactly once."""
    return (
        all(_has_form(case, number, row) for number, row in enumerate(case.rows))
        and all(later > earlier for earlier, later in pairwise(case.barriers))
        and all(_path_leads(case.topology, row) for row in case.rows)
        and _delivers(case)
    )


def _has_form(case: Case, number: int, row: Row) -> bool:
    ranks = row.src + row.dst
    inside = all(
        0 <= item < len(case.sizes) and offset >= 0 and length > 0 and offset + length <= case.sizes[item]
        for item, offset, length in row.pieces
    )
    return (
        inside
        and all(0 <= rank < case.topology.num_ranks for rank in ranks)
        and len(set(ranks)) == len(ranks)
        and bool(row.src and row.dst)
        and row.kind in (COPY, REDUCE)
        and (len(row.src) == 1 or row.kind == REDUCE)
        and (len(row.dst) == 1 or row.kind == COPY)
        and row.stage >= 0
        and row.padding >= 0
        and row.deps == sorted(set(row.deps))
        and all(0 <= dep < len(case.rows) and dep != number for dep in row.deps)
    )


def _path_leads(topology: Topology, row: Row) -> bool:
    if not row.path:
        return len(row.src) == len(row.dst) == 1 and _route(topology, row) is not None
    if len(set(row.path)) < len(row.path) or not all(0 <= link < topology.num_links for link in row.path):
        return False
    links = [(int(topology.link_src[link]), int(topology.link_dst[link])) for link in row.path]
    root, ends, able = row.src[0], row.dst, topology.multicasts
    if len(row.src) > 1:
        links = [(b, a) for a, b in links]
        root, ends, able = row.dst[0], row.src, topology.reduces
    children: dict[int, list[int]] = {}
    for above, below in links:
        children.setdefault(above, []).append(below)
    reached = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        reached.append(node)
        if len(reached) > len(links) + 1:
            return False
        below = children.get(node, [])
        if len(below) > 1 and not able[node]:
            return False
        if node < topology.num_ranks and node != root and below:
            return False
        if not below and node not in ends:
            return False
        waiting += below
    return len(set(reached)) == len(reached) == len(links) + 1 and set(ends) <= set(reached)


def _route(topology: Topology, row: Row) -> list[int] | None:
    try:
        return topology.routes(np.array(row.src), np.array(row.dst))[0].tolist()
    except InvalidInput:
        return None


def _link_predecessors(case: Case) -> list[set[int]] | None:
    """Messages directly before each one on some link; None where links are shared or places doubled."""
    users: dict[int, list[int]] = {}
    for number, row in enumerate(case.rows):
        for link in row.path or _route(case.topology, row) or []:
            users.setdefault(link, []).append(number)
    before: list[set[int]] = [set() for _ in case.rows]
    for numbers in users.values():
        orders = [case.rows[number].order for number in numbers]
        if all(order is None for order in orders):
            continue
        if any(order is None for order in orders) or len(set(orders)) < len(orders):
            return None
        ranked = sorted(numbers, key=lambda number: case.rows[number].order or 0)
        for earlier, later in pairwise(ranked):
            before[later].add(earlier)
    return before


def _delivers(case: Case) -> bool:
    rows = case.rows
    on_link = _link_predecessors(case)
    if on_link is None:
        return False
    waits = [
        set(row.deps)
        | {k for k, other in enumerate(rows) if any(other.stage < barrier <= row.stage for barrier in case.barriers)}
        for row in rows
    ]
    sequence: list[int] = []
    while len(sequence) < len(rows):
        ready = [m for m in range(len(rows)) if m not in sequence and waits[m] | on_link[m] <= set(sequence)]
        if not ready:
            return False
        sequence += ready
    sent: dict[int, set[int]] = {}  # surely sent before this one starts
    arrived: dict[int, set[int]] = {}  # surely arrived before this one starts
    for m in sequence:
        earlier = waits[m] | on_link[m]
        sent[m] = earlier.union(*(sent[k] for k in earlier))
        arrived[m] = waits[m].union(*(arrived[k] for k in earlier))
    return all(
        _byte_arrives(case, item, byte, sequence, waits, sent, arrived)
        for item in range(len(case.sizes))
        for byte in range(case.sizes[item])
    )


def _byte_arrives(
    case: Case,
    item: int,
    byte: int,
    sequence: list[int],
    waits: list[set[int]],
    sent: dict[int, set[int]],
    arrived: dict[int, set[int]],
) -> bool:
    carriers = []
    for m in sequence:
        times = sum(1 for i, offset, length in case.rows[m].pieces if i == item and offset <= byte < offset + length)
        if times > 1:
            return False
        if times:
            carriers.append(m)
    if not _has_no_race(case, carriers, waits, sent, arrived):
        return False
    value = {rank: Counter([rank]) for rank in case.contributors[item]}
    copied: set[int] = set()
    for m in carriers:
        row = case.rows[m]
        if any(rank not in value for rank in row.src):
            return False
        moved: Counter[int] = sum((value[rank] for rank in row.src), Counter())
        if max(moved.values()) > 1:
            return False
        for rank in row.dst:
            if len(case.contributors[item]) == 1 and rank in value:
                return False
            if row.kind == REDUCE:
                value[rank] = value.get(rank, Counter()) + moved
                if max(value[rank].values()) > 1:
                    return False
                continue
            if rank in copied:
                return False
            copied.add(rank)
            value[rank] = Counter(moved)
    complete = Counter(case.contributors[item])
    return all(value.get(rank) == complete for rank in case.destinations[item])


def _has_no_race(
    case: Case, carriers: list[int], waits: list[set[int]], sent: dict[int, set[int]], arrived: dict[int, set[int]]
) -> bool:
    """Each pair of messages that touch the byte at one rank, and one of which writes it, is ordered."""
    for a in carriers:
        for b in carriers:
            if a == b:
                continue
            for rank in case.rows[a].dst:
                if rank in case.rows[b].src and not _read_is_safe(case, rank, a, b, carriers, waits, sent, arrived):
                    return False
                both_add = case.rows[a].kind == case.rows[b].kind == REDUCE
                if rank in case.rows[b].dst and not both_add and a not in arrived[b] and b not in arrived[a]:
                    return False
    return True


def _read_is_safe(
    case: Case,
    rank: int,
    writer: int,
    reader: int,
    carriers: list[int],
    waits: list[set[int]],
    sent: dict[int, set[int]],
    arrived: dict[int, set[int]],
) -> bool:
    if reader in sent[writer] or writer in waits[reader]:
        return True
    # What a later copy replaced need not be waited for directly.
    return writer in arrived[reader] and any(
        rank in case.rows[k].dst and case.rows[k].kind == COPY and writer in arrived[k] and k in waits[reader]
        for k in carriers
    )
