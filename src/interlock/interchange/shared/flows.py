"""Byte flows without names, and the schedule they may stand for.

Chakra traces and htsim matrices say who sends how many bytes to whom after what, not which bytes. If each flow carries
names (our own exports), those are taken. Otherwise the contents are inferred from the goal: what a rank sends after
receiving is what it received, in order, before anything of its own. The inference is a guess and is said to be one; the
schedule that comes of it is checked like any other.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from interlock.collectives import CollectiveKind, collective
from interlock.errors import InvalidInput, LimitExceeded
from interlock.interchange.contract import ForeignSchedule, Intent
from interlock.interchange.shared.regions import NONE, problem_of_regions
from interlock.interchange.shared.sequence import executable_order
from interlock.ragged import Ragged
from interlock.schedule import Batch, Kind, Phase, Schedule, assemble, make_pieces
from interlock.traffic import Demand

__all__ = ["UnnamedFlow", "lower_flows"]

MAX_FLOWS = 4_000_000

Name = tuple[int, int, int, int]  # first and second name of a region, offset, length


@dataclass(slots=True)
class UnnamedFlow:
    """One message.

    `fed_by` are flows into its source whose data it may carry, `after` all others that its sender waits for. Its
    receiver takes it in after those in `taken_after`: that delays nothing, but keeps what they send from being lost.
    """

    src: int
    dst: int
    size_bytes: int
    fed_by: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    taken_after: list[int] = field(default_factory=list)
    is_added: bool = False  # its receiver adds it to what it holds
    names: list[Name] | None = None


@dataclass(slots=True)
class _Stretch:
    """Bytes of an origin that are somewhere and whose destination is not known yet."""

    origin: int
    length: int
    carriers: list[int]  # flows that brought them here


def lower_flows(
    format_name: str, file: str, flows: list[UnnamedFlow], num_ranks: int, intent: Intent
) -> ForeignSchedule:
    """The schedule that flows stand for."""
    if len(flows) > MAX_FLOWS:
        raise LimitExceeded(f"{file} has {len(flows)} messages; at most {MAX_FLOWS} are read")
    if intent.demand is not None and intent.demand.num_ranks != num_ranks:
        raise InvalidInput(f"{file} has {num_ranks} ranks but the demand has {intent.demand.num_ranks}")
    notes: list[str] = []
    is_inferred = any(flow.names is None for flow in flows)
    if is_inferred:
        notes.append("the file does not say which bytes a message carries; they were inferred from its dependencies")
        _infer(flows, intent, file)
    for flow in flows:
        flow.after += [earlier for earlier in flow.taken_after if _overlap(flow, flows[earlier])]
    ends: dict[tuple[int, int], int] = {}
    for flow in flows:
        for first, second, offset, length in flow.names or ():
            ends[first, second] = max(offset + length, ends.get((first, second), 0))
    problem, item_of_region = problem_of_regions(intent, num_ranks, file, ends)
    schedule, violations = _schedule(flows, item_of_region, problem.items.size_bytes)
    return ForeignSchedule(format_name, schedule, problem, tuple(violations), tuple(notes), is_inferred)


def _overlap(a: UnnamedFlow, b: UnnamedFlow) -> bool:
    """Whether two flows carry the same bytes of something."""
    return any(
        x[:2] == y[:2] and x[2] < y[2] + y[3] and y[2] < x[2] + x[3] for x in a.names or () for y in b.names or ()
    )


def _schedule(
    flows: list[UnnamedFlow], item_of_region: dict[tuple[int, int], int], sizes: np.ndarray
) -> tuple[Schedule, list[str]]:
    item: list[int] = []
    offset: list[int] = []
    length: list[int] = []
    starts = [0]
    violations: list[str] = []
    for number, flow in enumerate(flows):
        for first, second, at, count in flow.names or ():
            known = item_of_region.get((first, second))
            if known is None or at + count > sizes[known]:
                if len(violations) < 100:
                    what = f"bytes {at}..{at + count - 1} from rank {first}"
                    what += f" to rank {second}" if second != NONE else ""
                    violations.append(f"message {number} carries {what}, which nobody asked for")
                continue
            item.append(known)
            offset.append(at)
            length.append(count)
        starts.append(len(item))
    kind = np.array([Kind.REDUCE if flow.is_added else Kind.COPY for flow in flows], np.uint8)
    deps = [sorted({*flow.fed_by, *flow.after}) for flow in flows]
    pieces = make_pieces(starts, item, offset, length)
    carried = pieces.message_bytes
    stated = np.array([flow.size_bytes for flow in flows], np.int64)
    for number in np.flatnonzero(carried > stated)[:100].tolist():
        violations.append(f"message {number} carries {carried[number]} bytes but has only {stated[number]}")
    messages = Batch(
        np.array([flow.src for flow in flows], np.int32),
        np.array([flow.dst for flow in flows], np.int32),
        pieces,
        np.where(kind == Kind.REDUCE, Phase.REDUCE, Phase.SCALE_OUT).astype(np.uint8),
        kind=kind,
        size_bytes=np.maximum(stated, carried),
        deps=Ragged.from_lists(deps),
    )
    return assemble([messages]), violations


def _infer(flows: list[UnnamedFlow], intent: Intent, file: str) -> None:
    """Give every flow names."""
    order = _feeding_order(flows, file)
    if intent.demand is not None:
        _infer_pairs(flows, order, intent.demand)
        return
    if intent.collective is None:
        raise InvalidInput(f"{file} does not say what must arrive where; say it with --demand or --collective")
    kind = collective(intent.collective, 0).kind
    if kind is CollectiveKind.ALL_TO_ALL:
        _infer_pairs(flows, order, None)
        return
    if kind not in (CollectiveKind.ALL_GATHER, CollectiveKind.ALL_REDUCE, CollectiveKind.BROADCAST):
        raise InvalidInput(f"{file}: contents of a {kind} cannot be inferred from sends and receives alone")
    _infer_chunks(flows, order, kind, file)


def _feeding_order(flows: list[UnnamedFlow], file: str) -> list[int]:
    """Flows after those that feed them."""
    order = executable_order([flow.fed_by for flow in flows])
    if len(order) != len(flows):
        raise InvalidInput(f"{file}: messages feed each other in a cycle")
    return order


def _infer_pairs(flows: list[UnnamedFlow], order: list[int], demand: Demand | None) -> None:
    """All-to-Allv: a flow forwards what fed it, in order, then bytes of its own; what is not forwarded has arrived.

    Where flows between each pair add up to the demand as they are, nothing is forwarded.
    """
    if demand is not None and _is_direct(flows, demand):
        for flow in flows:
            flow.after += flow.fed_by
            flow.fed_by = []
    held: dict[int, list[_Stretch]] = {}  # flow -> stretches it brought, not yet sent on
    for number in order:
        flow, wanted = flows[number], flows[number].size_bytes
        taken: list[_Stretch] = []
        for earlier in sorted(flow.fed_by):
            wanted -= _take(held.get(earlier, []), wanted, number, taken)
        if wanted > 0:
            taken.append(_Stretch(flow.src, wanted, [number]))
        held[number] = taken
    at: dict[tuple[int, int], int] = defaultdict(int)
    names: dict[int, list[Name]] = defaultdict(list)
    for number in range(len(flows)):
        for stretch in held[number]:
            pair = (stretch.origin, flows[number].dst)
            if pair[0] == pair[1]:
                continue  # came back: nobody asked for it
            length = stretch.length
            if demand is not None:
                length = min(length, int(demand.bytes_matrix[pair]) - at[pair])
            if length <= 0:
                continue  # padding
            for carrier in stretch.carriers:
                names[carrier].append((*pair, at[pair], length))
            at[pair] += length
    for number, flow in enumerate(flows):
        flow.names = names[number]


def _is_direct(flows: list[UnnamedFlow], demand: Demand) -> bool:
    """Whether every pair's flows cover its demand, and no other pair has any."""
    moved = np.zeros_like(demand.bytes_matrix)
    np.add.at(moved, ([flow.src for flow in flows], [flow.dst for flow in flows]), [flow.size_bytes for flow in flows])
    wanted = demand.bytes_matrix.copy()
    np.fill_diagonal(wanted, 0)
    return bool((moved >= wanted).all() and (moved[wanted == 0] == 0).all())


def _take(stretches: list[_Stretch], wanted: int, carrier: int, taken: list[_Stretch]) -> int:
    """Move up to `wanted` bytes from the front of a list to another; returns how many."""
    moved = 0
    while stretches and moved < wanted:
        front = stretches[0]
        part = min(front.length, wanted - moved)
        taken.append(_Stretch(front.origin, part, [*front.carriers, carrier]))
        moved += part
        if part == front.length:
            stretches.pop(0)
        else:
            front.length -= part
    return moved


def _infer_chunks(flows: list[UnnamedFlow], order: list[int], kind: CollectiveKind, file: str) -> None:
    """Collectives of equal chunks: flows joined by data carry one chunk.

    In an All-Gather or Broadcast, the n-th flow to each peer that nothing feeds carries its source's n-th chunk.
    """
    sizes = {flow.size_bytes for flow in flows}
    if len(sizes) > 1:
        raise InvalidInput(f"{file}: messages of {len(sizes)} different sizes; contents of a {kind} cannot be inferred")
    size = sizes.pop() if sizes else 0
    chunk_of = list(range(len(flows)))

    def find(number: int) -> int:
        while chunk_of[number] != number:
            chunk_of[number] = chunk_of[chunk_of[number]]
            number = chunk_of[number]
        return number

    nth: dict[tuple[int, int], int] = defaultdict(int)
    root_of: dict[tuple[int, int], int] = {}  # (source, n) -> a flow
    for number in order:
        flow = flows[number]
        for earlier in flow.fed_by:
            chunk_of[find(number)] = find(earlier)
        if not flow.fed_by and kind is not CollectiveKind.ALL_REDUCE:
            place = nth[flow.src, flow.dst]
            nth[flow.src, flow.dst] += 1
            chunk_of[find(number)] = find(root_of.setdefault((flow.src, place), number))
    region: dict[int, tuple[int, int]] = {}  # chunk -> (owner, place)
    count: dict[int, int] = defaultdict(int)
    for number in order:
        owner = flows[number].src if kind is CollectiveKind.ALL_GATHER else 0
        if find(number) not in region:
            region[find(number)] = (owner, count[owner])
            count[owner] += 1
        owner, place = region[find(number)]
        flows[number].names = [(owner, NONE, place * size, size)]
