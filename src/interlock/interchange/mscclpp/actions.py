"""What each GPU does in an MSCCL++ plan, before it is divided into threadblocks.

A direct put needs nothing from its receiver but a wait. Chunks that must be added to others, or that would overwrite
chunks still in use, are put into scratch of their own, and the receiver adds or copies them when it may.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

from interlock.interchange.shared.chunks.program import ChunkProgram, Place, Run, Transfer
from interlock.problem import Problem
from interlock.schedule import Schedule

__all__ = ["Action", "Actions", "Arrival", "collect_actions", "is_far"]


@dataclass(eq=False, slots=True)
class Arrival:
    """Chunks that come to a rank from another; `sender` puts them and signals whoever waits."""

    rank: int
    sender: Action


@dataclass(eq=False, slots=True)
class Action:
    """One operation of a GPU that touches data.

    kind: "put" (to `peer`), "multicast" (to `group`), "sum" and "copy" (within the GPU), "switch-sum" (over `group`).
    """

    rank: int
    kind: str
    sources: tuple[Place, ...]
    target: Place
    count: int
    peer: int | None = None
    group: tuple[int, ...] = ()
    needs: set[Arrival] = field(default_factory=set)  # waits for these itself
    after: set[Action] = field(default_factory=set)  # of the same GPU
    brings: list[Arrival] = field(default_factory=list)
    is_paced: bool = False
    is_far: bool = False  # puts to another server
    stream: tuple[int, int] | None = None  # phase and peer of a put: what its plan sends one by one
    follows: bool = False  # its plan holds it back until others of the stream have gone


@dataclass(slots=True)
class Actions:
    """All actions in an order that can be executed, and the scratch they need."""

    in_order: list[Action]
    scratch_chunks: list[int]
    notes: list[str] = field(default_factory=list)


def collect_actions(program: ChunkProgram, problem: Problem, schedule: Schedule) -> Actions:
    """Actions of all GPUs."""
    collector = _Collector(program, problem, schedule)
    for _, members in groupby(program.transfers, key=lambda transfer: transfer.message):
        collector.message(list(members))
    for copy in program.copies:
        stored = {collector.stored_by_switch.get((copy.rank, copy.target[1] + k)) for k in range(copy.count)}
        if copy.target[0] == "o" and None not in stored:
            continue  # a multicast stores at its own GPU too
        action = Action(copy.rank, "copy", (copy.source,), copy.target, copy.count)
        collector.do(action, copy.event)
        action.after |= {store for store in stored if store is not None}
    return collector.actions


def is_far(problem: Problem, a: int, b: int) -> bool:
    """Whether two ranks are in different servers."""
    cluster = problem.cluster
    return cluster is not None and a // cluster.gpus_per_server != b // cluster.gpus_per_server


def _following(schedule: Schedule) -> set[int]:
    """Messages that wait for an earlier one between the same two ranks."""
    if not (schedule.src.is_single and schedule.dst.is_single):
        return set()
    src, dst = schedule.src.values, schedule.dst.values
    earlier, later = schedule.deps.values, schedule.deps.row_of_value
    return set(later[(src[earlier] == src[later]) & (dst[earlier] == dst[later])].tolist())


class _Collector:
    def __init__(self, program: ChunkProgram, problem: Problem, schedule: Schedule) -> None:
        self.program, self.problem = program, problem
        self.phase, self.follows = schedule.phase.tolist(), _following(schedule)
        self.actions = Actions([], list(program.scratch_chunks))
        self.arrival_of: dict[int, Arrival] = {}  # receive event -> direct arrival
        self.action_of: dict[int, Action] = {}  # any other event -> the action that does it
        self.stored_by_switch: dict[tuple[int, int], Action] = {}  # (rank, output chunk) of multicasting GPUs

    def message(self, transfers: list[Transfer]) -> None:
        """One message: a multicast or a sum in the switch if it can be, otherwise put by put."""
        if len(transfers) > 1 and self._is_multicast(transfers):
            self._multicast(transfers)
        elif len(transfers) > 1 and self._is_switch_sum(transfers):
            self._switch_sum(transfers)
        else:
            if len(transfers) > 1:
                note = "some multicasts or in-switch sums do not fit a switch channel and are written as single puts"
                if note not in self.actions.notes:
                    self.actions.notes.append(note)
            for transfer in transfers:
                for run in transfer.runs:
                    self._put(transfer, run)

    def do(self, action: Action, event: int) -> Action:
        """Add an action for an event, after whatever the event waits for."""
        self._wait(action, self.program.waits_for[event])
        for earlier in self.program.paced_after.get(event, ()):
            if earlier in self.action_of:
                action.is_paced = True
                action.after.add(self.action_of[earlier])
        self.action_of[event] = action
        self.actions.in_order.append(action)
        return action

    def _wait(self, action: Action, events: set[int]) -> None:
        for earlier in sorted(events):
            if earlier in self.arrival_of:
                action.needs.add(self.arrival_of[earlier])
            elif earlier in self.action_of and self.action_of[earlier] is not action:
                action.after.add(self.action_of[earlier])

    def _put(self, transfer: Transfer, run: Run) -> None:
        is_direct = run.added_to is None and not self.program.waits_for[run.receive_event]
        target = run.target if is_direct else ("s", self._scratch(transfer.dst, run.count))
        put = Action(transfer.src, "put", (run.source,), target, run.count, peer=transfer.dst)
        put.stream = (self.phase[transfer.message], transfer.dst)
        put.follows = transfer.message in self.follows
        put.is_far = is_far(self.problem, transfer.src, transfer.dst)
        arrival = Arrival(transfer.dst, put)
        put.brings.append(arrival)
        self.do(put, run.send_event)
        if is_direct:
            self.arrival_of[run.receive_event] = arrival
            return
        sources = (target,) if run.added_to is None else (run.added_to, target)
        kind = "copy" if run.added_to is None else "sum"
        combine = Action(transfer.dst, kind, sources, run.target, run.count, needs={arrival})
        self.do(combine, run.receive_event)

    def _scratch(self, rank: int, count: int) -> int:
        first = self.actions.scratch_chunks[rank]
        self.actions.scratch_chunks[rank] += count
        return first

    def _is_multicast(self, transfers: list[Transfer]) -> bool:
        """One source, the same stretch of one buffer everywhere, all in one server, nothing in the way."""
        first = transfers[0]
        shape = [(run.source, run.target, run.count) for run in first.runs]
        return (
            all(transfer.src == first.src for transfer in transfers)
            and all([(r.source, r.target, r.count) for r in t.runs] == shape for t in transfers)
            and all(run.target[0] == "o" for run in first.runs)
            and not any(self.program.waits_for[run.receive_event] for t in transfers for run in t.runs)
            and self._same_server([first.src, *(transfer.dst for transfer in transfers)])
            and self.program.layout.collective in ("all-gather", "all-reduce", "broadcast", "items")
        )

    def _multicast(self, transfers: list[Transfer]) -> None:
        group = tuple(sorted({transfers[0].src, *(transfer.dst for transfer in transfers)}))
        for place, run in enumerate(transfers[0].runs):
            store = Action(transfers[0].src, "multicast", (run.source,), run.target, run.count, group=group)
            self.do(store, run.send_event)
            self.stored_by_switch |= {(store.rank, run.target[1] + k): store for k in range(run.count)}
            for transfer in transfers:
                arrival = Arrival(transfer.dst, store)
                store.brings.append(arrival)
                self.arrival_of[transfer.runs[place].receive_event] = arrival
                self._wait(store, self.program.waits_for[transfer.runs[place].send_event])
                self.action_of[transfer.runs[place].send_event] = store

    def _is_switch_sum(self, transfers: list[Transfer]) -> bool:
        """Untouched input of all sources, at one place, added to that of the receiver."""
        first = transfers[0]
        shape = [(run.source, run.count) for run in first.runs]
        return (
            len({transfer.dst for transfer in transfers}) == 1
            and all([(r.source, r.count) for r in t.runs] == shape for t in transfers)
            and all(run.source[0] == "i" and run.added_to == run.source for run in first.runs)
            and self._same_server([first.dst, *(transfer.src for transfer in transfers)])
        )

    def _switch_sum(self, transfers: list[Transfer]) -> None:
        """The receiver loads the sum through the switch, which stores it in scratch of the whole group."""
        rank = transfers[0].dst
        group = tuple(sorted({rank, *(transfer.src for transfer in transfers)}))
        for place, run in enumerate(transfers[0].runs):
            first = max(self.actions.scratch_chunks[member] for member in group)
            for member in group:
                self.actions.scratch_chunks[member] = first + run.count
            load = Action(rank, "switch-sum", (run.source,), ("s", first), run.count, group=group)
            self.do(load, transfers[0].runs[place].receive_event)
            copy = Action(rank, "copy", (("s", first),), run.target, run.count, after={load})
            self.actions.in_order.append(copy)
            # The others must not go on while their input is read: they wait for the end of it.
            load.brings += [Arrival(member, load) for member in group if member != rank]
            for transfer in transfers:
                self.action_of[transfer.runs[place].receive_event] = copy

    def _same_server(self, ranks: list[int]) -> bool:
        cluster = self.problem.cluster
        return cluster is not None and len({rank // cluster.gpus_per_server for rank in ranks}) == 1
