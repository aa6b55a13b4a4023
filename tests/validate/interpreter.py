"""Executes a schedule as docs/reference/schedule.md and the law it names describe it, and says what goes wrong.

It is written from those words alone and shares nothing with `interlock.validate`. Who is surely before whom is kept as
one bit mask per message. Every item is cut where some piece begins or ends; each part of an item at each rank is a
place, written by messages that arrive and read by messages that leave. A place is replayed once; the schedule is right
if no replay leaves a choice and every destination ends with every contribution once.

Two sentences of rule 11 hold at every rank, destination or not: no second copy of the same bytes, and in no sum a
contribution twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, pairwise

import numpy as np

from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.problem.step import StepTasks
from interlock.schedule import SlotSchedule
from interlock.topology import Topology
from interlock.topology.graph import DEAD_BANDWIDTH
from validate.rows import COPY, REDUCE, WAIT, Case, Row

Part = tuple[int, int]  # an item and where the part begins
Place = tuple[int, Part]  # a rank and what lies there


class Wrong(Exception):
    """What the schedule does wrong, in words."""


def fault_of(case: Case) -> str | None:
    """The first fault found, or None where the schedule surely does what the problem asks."""
    try:
        links = _links_of_rows(case)
        order = _Order(case, links)
        _execute(case, order)
        if case.step is not None:
            _check_step(case, case.step, order)
    except Wrong as wrong:
        return str(wrong)
    return None


def fault_of_table(schedule: SlotSchedule, problem: Problem) -> str | None:
    """The first fault of a slot table, slot by slot, whose chunks cover every item once; None where it has none."""
    items, chunk_items = problem.items, schedule.chunks.item.tolist()
    contributors = [items.contributors[item].tolist() for item in chunk_items]
    held = {(rank, chunk): Counter([rank]) for chunk, ranks in enumerate(contributors) for rank in ranks}
    links = list(zip(schedule.link_src.tolist(), schedule.link_dst.tolist(), strict=True))
    spent: set[tuple[int, int]] = set()  # places whose sum has gone on
    copied: set[tuple[int, int]] = set()
    rest = np.iinfo(schedule.table.dtype).max
    for slot, chunks in enumerate(schedule.table.tolist()):
        carried = [(*ends, chunk) for ends, chunk in zip(links, chunks, strict=True) if chunk != rest]
        leaving = {(src, chunk) for src, _, chunk in carried}
        sent = [((dst, chunk), held.get((src, chunk))) for src, dst, chunk in carried]
        spent |= leaving
        for (rank, chunk), value in sent:
            if value is None:
                return f"slot {slot}: chunk {chunk} leaves where it is not"
            if (rank, chunk) in leaving:
                return f"slot {slot}: chunk {chunk} leaves rank {rank} and arrives there"
            if slot < schedule.num_reducing:
                if (rank, chunk) in spent:
                    return f"slot {slot}: chunk {chunk} is added to rank {rank}, whose sum has gone on"
                held[rank, chunk] = held.get((rank, chunk), Counter()) + value
                if max(held[rank, chunk].values()) > 1:
                    return f"slot {slot}: a contribution is in chunk {chunk} at rank {rank} twice"
                continue
            if (rank, chunk) in copied or held.get((rank, chunk)) == Counter(contributors[chunk]):
                return f"slot {slot}: chunk {chunk} arrives at rank {rank} twice"
            copied.add((rank, chunk))
            held[rank, chunk] = value
    for chunk, item in enumerate(chunk_items):
        for rank in items.destinations[item].tolist():
            if held.get((rank, chunk)) != Counter(contributors[chunk]):
                return f"rank {rank} ends without every contribution to chunk {chunk} once"
    return None


# --- Form ---


def _links_of_rows(case: Case) -> list[list[int]]:
    """The links that each message takes, after its form is checked."""
    if any(later <= earlier for earlier, later in pairwise(case.barriers)):
        raise Wrong("barriers do not ascend")
    for number, row in enumerate(case.rows):
        (_check_wait if row.kind == WAIT else _check_row)(case, number, row)
    return [[] if row.kind == WAIT else _links_of(case.topology, row) for row in case.rows]


def _check_wait(case: Case, number: int, row: Row) -> None:
    if case.step is None or row.src != row.dst or len(row.src) != 1 or row.pieces or row.path or row.padding:
        raise Wrong(f"message {number}: a wait with bytes, links or two ranks, or outside a step")
    if not (-1 <= row.task < len(case.step.tasks) and row.seconds >= 0 and row.stage >= 0):
        raise Wrong(f"message {number}: a wait of no task or time")
    if not 0 <= row.src[0] < case.topology.num_ranks:
        raise Wrong(f"message {number}: no such rank")
    _check_deps(case, number, row)


def _check_deps(case: Case, number: int, row: Row) -> None:
    if not all(0 <= dep < len(case.rows) and dep != number for dep in row.deps) or row.deps != sorted(set(row.deps)):
        raise Wrong(f"message {number}: dependencies are no other messages, or do not ascend")


def _check_row(case: Case, number: int, row: Row) -> None:
    def need(holds: bool, what: str) -> None:
        if not holds:
            raise Wrong(f"message {number}: {what}")

    need(len(row.src) >= 1 and len(row.dst) >= 1, "nobody on one side")
    need(all(0 <= rank < case.topology.num_ranks for rank in row.src + row.dst), "no such rank")
    need(len({*row.src, *row.dst}) == len(row.src) + len(row.dst), "a rank twice")
    need(len(row.src) == 1 or (row.kind == REDUCE and len(row.dst) == 1), "several sources and no reduction")
    need(len(row.dst) == 1 or (row.kind == COPY and len(row.src) == 1), "several destinations and no multicast")
    need(row.stage >= 0, "negative stage")
    need(row.padding >= 0, "smaller than its pieces")
    if case.step is not None:
        need(0 <= row.task < len(case.step.tasks) and row.seconds == 0, "of no task, or takes time of its own")
    _check_deps(case, number, row)
    for item, offset, length in row.pieces:
        need(0 <= item < len(case.sizes), "no such item")
        need(length > 0 and offset >= 0 and offset + length <= case.sizes[item], "bytes outside their item")


def _links_of(topology: Topology, row: Row) -> list[int]:
    if row.path:
        if not _leads(topology, row):
            raise Wrong(f"a path of {row.src} does not lead to {row.dst}")
        return row.path
    if len(row.src) > 1 or len(row.dst) > 1:
        raise Wrong("a multicast or in-switch reduction without a path")
    try:
        return [int(link) for link in topology.routes(np.array(row.src), np.array(row.dst))[0]]
    except InvalidInput:
        raise Wrong(f"no route from {row.src} to {row.dst}") from None


def _leads(topology: Topology, row: Row) -> bool:
    """Whether the path is a tree between the one end and the others, that branches only where a switch is able to."""
    path, gathers = row.path, len(row.src) > 1
    if not all(
        0 <= link < topology.num_links and topology.bandwidth_bytes_per_s[link] > DEAD_BANDWIDTH for link in path
    ):
        return False
    near, far = (topology.link_dst, topology.link_src) if gathers else (topology.link_src, topology.link_dst)
    root = row.dst[0] if gathers else row.src[0]
    leaves = set(row.src if gathers else row.dst)
    able = topology.reduces if gathers else topology.multicasts
    towards_root: dict[int, int] = {}  # the node before each that is reached
    branches: Counter[int] = Counter()
    for link in path:
        before, node = int(near[link]), int(far[link])
        if node in towards_root or node == root:
            return False
        towards_root[node] = before
        branches[before] += 1
    for node in towards_root:  # every node hangs on the root, not on a ring
        seen = set()
        while node != root:
            if node in seen or node not in towards_root:
                return False
            seen.add(node)
            node = towards_root[node]
    ends = {node for node in towards_root if not branches[node]}
    inner = set(branches) - {root}
    return (
        ends == leaves
        and all(node >= topology.num_ranks for node in inner)
        and all(able[node] for node, count in branches.items() if count > 1)
    )


# --- Order ---


class _Order:
    """Who is before whom: `earlier[m]` has a bit for every message that is surely over before m begins."""

    def __init__(self, case: Case, links: list[list[int]]) -> None:
        rows = case.rows
        direct = [0] * len(rows)  # waits for these itself: dependencies and barriers
        for number, row in enumerate(rows):
            for dep in row.deps:
                direct[number] |= 1 << dep
        for barrier in case.barriers:
            ahead = sum(1 << number for number, row in enumerate(rows) if row.stage < barrier)
            for number, row in enumerate(rows):
                if row.stage >= barrier:
                    direct[number] |= ahead
        after = direct.copy()
        for earlier, later in _neighbours_on_links(rows, links):
            after[later] |= 1 << earlier
        graph = {number: list(_bits(mask)) for number, mask in enumerate(after)}
        try:
            self.sequence = list(TopologicalSorter(graph).static_order())
        except CycleError:
            raise Wrong("messages wait for each other in a circle") from None
        self.direct = direct
        for number in self.sequence:  # what meets at a wait is waited for by who waits for that
            for before in rows[number].deps:
                if rows[before].kind == WAIT:
                    direct[number] |= direct[before]
        self.earlier = [0] * len(rows)
        for number in self.sequence:
            for before in graph[number]:
                self.earlier[number] |= self.earlier[before] | 1 << before

    def before(self, a: int, b: int) -> bool:
        return bool(self.earlier[b] >> a & 1)


def _neighbours_on_links(rows: list[Row], links: list[list[int]]) -> Iterator[tuple[int, int]]:
    """Pairs that follow each other on a link that is held by one message at a time."""
    users: dict[tuple[int, int], list[int]] = defaultdict(list)  # by task of a step: each has orders of its own
    for number, path in enumerate(links):
        for link in path:
            users[rows[number].task, link].append(number)
    for (_, link), numbers in users.items():
        places = [(order, number) for number in numbers if (order := rows[number].order) is not None]
        if places and len(places) < len(numbers):
            raise Wrong(f"link {link} is held by some and shared by others")
        if len({order for order, _ in places}) < len(places):
            raise Wrong(f"two messages have the same place on link {link}")
        places.sort()
        for (_, first), (_, second) in pairwise(places):
            yield first, second


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


# --- Execution ---


def _execute(case: Case, order: _Order) -> None:
    parts = _parts(case)
    writes: dict[Place, list[int]] = defaultdict(list)
    reads: dict[Place, list[int]] = defaultdict(list)
    carried: list[list[Part]] = []
    for number, row in enumerate(case.rows):
        carried.append([(item, at) for item, offset, length in row.pieces
                        for at in parts[item] if offset <= at < offset + length])  # fmt: skip
        for part in carried[-1]:
            for rank in row.src:
                reads[rank, part].append(number)
            for rank in row.dst:
                writes[rank, part].append(number)
    for (rank, part), numbers in list(writes.items()):
        contributors = case.contributors[part[0]]
        if len(contributors) == 1 and (len(numbers) > 1 or rank in contributors):
            raise Wrong(f"rank {rank} gets bytes of item {part[0]} that it has")
        if sum(case.rows[written].kind == COPY for written in numbers) > 1:
            raise Wrong(f"rank {rank} gets copies of item {part[0]} twice")
        for written in numbers:
            for read in reads[rank, part]:
                if not order.before(written, read) and not order.before(read, written):
                    raise Wrong(f"messages {written} and {read} meet at rank {rank}")

    sent: dict[tuple[int, Part], Counter[int]] = {}  # the contributions in what a message carries

    def held(rank: int, part: Part, reader: int | None) -> Counter[int]:
        """What lies at a place when `reader` leaves, or in the end."""
        arrived = [n for n in writes[rank, part] if reader is None or order.before(n, reader)]
        last = next((n for n in arrived if case.rows[n].kind == COPY), None)
        own: Counter[int] = Counter([rank] if rank in case.contributors[part[0]] else [])
        value, replaced = (own, Counter[int]()) if last is None else (Counter[int](), own)
        for n in arrived:
            if n != last and last is not None:
                if order.before(n, last):
                    replaced += sent[n, part]
                    continue
                if not order.before(last, n):
                    raise Wrong(f"messages {last} and {n} to rank {rank} in no order")
            if reader is not None and not order.direct[reader] >> n & 1:
                raise Wrong(f"message {reader} does not wait for {n}, whose bytes it carries")
            value += sent[n, part]
        if any(count > 1 for sums in (value, replaced) for count in sums.values()):
            raise Wrong(f"a contribution is in item {part[0]} at rank {rank} twice")
        return value

    for number in order.sequence:
        for part in carried[number]:
            total: Counter[int] = Counter()
            for rank in case.rows[number].src:
                value = held(rank, part, number)
                if not value:
                    raise Wrong(f"message {number} carries bytes of item {part[0]} that rank {rank} does not have")
                total += value
            sent[number, part] = total
    for rank, part in list(writes):
        held(rank, part, None)
    for item, destinations in enumerate(case.destinations):
        once = Counter(case.contributors[item])
        for rank in destinations:
            for at in parts[item]:
                if held(rank, (item, at), None) != once:
                    raise Wrong(f"rank {rank} ends without every contribution to item {item} once")


def _parts(case: Case) -> list[list[int]]:
    """Where the parts of each item begin."""
    cuts: list[set[int]] = [{0} if size else set() for size in case.sizes]
    for row in case.rows:
        for item, offset, length in row.pieces:
            cuts[item] |= {offset, offset + length} - {case.sizes[item]}
    return [sorted(starts) for starts in cuts]


# --- Steps ---


def _check_step(case: Case, step: StepTasks, order: _Order) -> None:
    """Rule 13: whose bytes and stages, computation, what comes after what, earliest starts, who is alone."""
    rows, first = case.rows, step.first_item.tolist()
    own = [[number for number, row in enumerate(rows) if row.task == task] for task in range(len(step.tasks))]
    stages: dict[int, int] = {}
    for number, row in enumerate(rows):
        if row.kind == WAIT:
            continue
        if any(not first[row.task] <= item < first[row.task + 1] for item, _, _ in row.pieces):
            raise Wrong(f"message {number} carries what another task moves")
        if stages.setdefault(row.stage, row.task) != row.task:
            raise Wrong(f"stage {row.stage} is opened by two tasks")
    listed = [set(row.deps) for row in rows]
    waited, until_s = [0] * len(rows), [0.0] * len(rows)  # by dependencies alone: rows before, and seconds of waits
    for number in order.sequence:
        for before in rows[number].deps:
            waited[number] |= waited[before] | 1 << before
            until_s[number] = max(until_s[number], until_s[before] + rows[before].seconds)
    for number, task in enumerate(step.tasks):
        waits = [rows[k] for k in own[number] if rows[k].kind == WAIT]
        if sorted(row.src[0] for row in waits) != ([] if task.is_move else sorted(task.ranks)):
            raise Wrong(f"task {number} does not compute once at each of its ranks and nowhere else")
        if any(abs(row.seconds - task.seconds) > 1e-9 * task.seconds for row in waits):
            raise Wrong(f"task {number} computes longer or shorter than it does")

    def follows(late: int, early: int) -> bool:
        """Whether every row of one waits for a row that lists all with which the other ends."""
        last = set(own[early]) - set().union(*(listed[k] for k in own[early]))
        meets = sum(1 << k for k in range(len(rows)) if last <= listed[k])
        return all((waited[k] | 1 << k) & meets for k in own[late])

    after = [set(earlier.tolist()) for earlier in step.after]
    ready_s = [task.ready_s for task in step.tasks]
    for number in step.in_order:
        for empty in [earlier for earlier in after[number] if not own[earlier]]:  # nothing to do: passed over
            after[number] = (after[number] | after[empty]) - {empty}
            ready_s[number] = max(ready_s[number], ready_s[empty])
        for earlier in after[number]:
            if not follows(number, earlier):
                raise Wrong(f"task {number} does not wait for all of task {earlier}")
        if any(until_s[k] < ready_s[number] * (1 - 1e-9) for k in own[number]):
            raise Wrong(f"task {number} may start before its time")
    lonely = [number for number, task in enumerate(step.tasks) if task.alone]
    for a, b in combinations(lonely, 2):
        if set(step.tasks[a].ranks) & set(step.tasks[b].ranks) and not follows(a, b) and not follows(b, a):
            raise Wrong(f"tasks {a} and {b} compute at one rank together")
