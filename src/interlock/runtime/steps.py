"""Runs a planned step over a process group (gloo): moves of all tasks, each from and to the caller's tensors.

Every rank starts its part of a message when what the message waits for has happened at this rank. Computation is the
caller's: a task that is after it starts here when the caller says that it is done. A send waits until its receiver is
ready for it, so an order that only the receiver can see is kept by the receiver.

Every task has connections of its own. On a common one a message would wait behind bytes of others that are already
handed to TCP, however urgent it is; and TCP remembers how fast a connection could send, so that one that has shared a
NIC sends slower than the NIC when it later has it alone. Each is told how fast its link is and how little it may take
beyond what it has sent: TCP otherwise takes hundreds of kilobytes at once, a send ends long before its bytes are on the
wire, and messages that the schedule lets follow each other go together.

A thread for every message would cost more than the message. What a task sends to one peer, or receives from it, has one
thread, a queue, that waits for its messages in an order that respects everything a message of the step waits for: the
first message in that order that has not ended can always end, so no queue waits for what stands behind it.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import cycle
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self

import numpy as np

from interlock.errors import InvalidInput, nearest
from interlock.problem import Problem
from interlock.ragged import Ragged, topological_order
from interlock.runtime.buffers import combining, joined
from interlock.runtime.connections import Share, connect, open_connections, told_width
from interlock.runtime.pacing import FULL
from interlock.runtime.peers import FIRST_TAG, MoveFailed, backend_errors, poison
from interlock.runtime.runner import Planned, Runner
from interlock.schedule import Kind, Schedule, follows
from interlock.topology import Cluster

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

__all__ = ["StepRunner"]

Tensors = tuple["torch.Tensor | None", "torch.Tensor | None"]
WAKE_S = 0.01  # until a thread runs on a busy machine: a link has so much to send meanwhile
MOST_HELD_BYTES = (1 << 31) - 1  # that the option can say


@dataclass(slots=True)
class _Action:
    """What this rank does of one row."""

    row: int
    task: int  # -1: a meeting point, or a wait for a time
    peer: int = -1
    sends: bool = False
    tag: int = 0
    seconds: float = 0.0
    is_computation: bool = False
    adds: bool = False  # a receive that is added to what is there
    open: int = 0  # actions that it waits for
    releases: list[int] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)  # first byte and length in the task's memory


def _connected(group: dist.ProcessGroup, name: str, share: Share, rates: Mapping[int, float]) -> dist.ProcessGroup:
    """Connections whose sends end when their bytes go, at most at the rates of their links, where that can be said."""
    made = open_connections(group, name, share)
    if made is None:
        return connect(group, f"{name}/plain")
    made.pace(rates)
    made.hold_back({peer: max(1, min(MOST_HELD_BYTES, int(rate * WAKE_S))) for peer, rate in rates.items()})
    return made.group


def _link_rates(cluster: Cluster, rank: int) -> dict[int, float]:
    """Bytes per second that can go from a rank to each other one."""
    nic, width = cluster.nic_bandwidth_bytes_per_s, cluster.gpus_per_server
    rates = {
        peer: FULL * float(min(nic[rank], nic[peer]))
        if peer // width != rank // width
        else cluster.scale_up_bandwidth_bytes_per_s
        for peer in range(cluster.num_ranks)
        if peer != rank
    }
    return {peer: rate for peer, rate in rates.items() if rate > 0}


class _Memory:
    """Working bytes of a task at this rank: the items it contributes to, receives or passes on, end to end."""

    def __init__(self, problem: Problem, task: int, rank: int, touched: np.ndarray) -> None:
        assert problem.step is not None
        first, end = problem.step.first_item[task : task + 2].tolist()
        items = problem.items
        self.given: list[int] = []
        self.wanted: list[int] = []
        for item in range(first, end):
            if rank in items.contributors[item]:
                self.given.append(item)
            if rank in items.destinations[item]:
                self.wanted.append(item)
        held = np.union1d(np.array(self.given + self.wanted, np.int64), touched)
        self.blank = np.setdiff1d(held, self.given).tolist()
        sizes = items.size_bytes[held]
        starts = np.cumsum(sizes) - sizes
        self.size = dict(zip(held.tolist(), sizes.tolist(), strict=True))
        self.start = dict(zip(held.tolist(), starts.tolist(), strict=True))
        self.num_bytes = int(sizes.sum())
        self.given_bytes = sum(self.size[item] for item in self.given)
        self.wanted_bytes = sum(self.size[item] for item in self.wanted)

    def places(self, pieces: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
        """First byte and length of each run of bytes that pieces (item, offset, length) take."""
        return joined((self.start[item] + offset, length) for item, offset, length in pieces)


class _Queue:
    """Waits for what one task sends to one peer, or receives from it, in order, in every run of the step."""

    def __init__(self, numbers: list[int], name: str) -> None:
        self._numbers = numbers
        self._begun: SimpleQueue[tuple[_Call, int, dist.Work, torch.Tensor] | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def put(self, call: _Call, number: int, work: dist.Work, bytes_: torch.Tensor) -> None:
        """Tell of a message that is under way."""
        self._begun.put((call, number, work, bytes_))

    def close(self) -> None:
        """End the thread; it does not wait for what is not under way."""
        self._begun.put(None)

    def _run(self) -> None:
        under_way: dict[int, tuple[_Call, dist.Work, torch.Tensor]] = {}
        for number in cycle(self._numbers):
            while number not in under_way:
                begun = self._begun.get()
                if begun is None:
                    return
                call, started, work, bytes_ = begun
                under_way[started] = call, work, bytes_
            call, work, bytes_ = under_way.pop(number)
            if not call.end_move(number, work, bytes_):
                return


class StepRunner:
    """Executes one planned step, any number of times, over connections of its own, on a group of gloo's."""

    def __init__(
        self, plan: Planned, schedule: Schedule, group: dist.ProcessGroup, timeout_s: float | None = None
    ) -> None:
        import torch

        problem = plan.problem
        if problem.step is None or schedule.tasks is None:
            raise InvalidInput(f"{problem.name} is not a step; see il.step")
        if group.size() != problem.num_ranks:
            raise InvalidInput(f"the group has {group.size()} ranks but the step has {problem.num_ranks}")
        if group.name() != "gloo":
            raise InvalidInput(f"the group's backend is {group.name()}; steps run over gloo")
        self.problem, self.schedule, self.rank = problem, schedule, group.rank()
        self.tasks = problem.step.tasks
        self.names = [task.name for task in self.tasks]
        self._runner = Runner(group, timeout_s)
        self._runner.compare(plan)
        name, moves = f"step{self._runner._number}", [n for n, task in enumerate(self.tasks) if task.is_move]
        share = partial(self._runner.exchange(told_width(group.size())).share, timeout_s=self._runner.timeout_s)
        rates = {} if plan.cluster is None else _link_rates(plan.cluster, self.rank)
        self._groups = self._runner.guard(
            lambda: {number: _connected(group, f"{name}/{number}", share, rates) for number in moves},
            "opening connections",
        )
        self._actions, queues = _actions(schedule, problem, self.rank)
        self._memory = self._memories()
        self._bytes = {n: torch.empty(memory.num_bytes, dtype=torch.uint8) for n, memory in self._memory.items()}
        self._queues = [_Queue(numbers, "interlock-step") for numbers in queues]
        self._queue_of = {n: queue for numbers, queue in zip(queues, self._queues, strict=True) for n in numbers}
        self._call: _Call | None = None

    def begin(self, tensors: Mapping[str, Tensors]) -> None:
        """Start the step. `tensors` gives the source and target of each move at this rank, None where it has none.

        Both hold their items end to end, as the task's own plan orders them: of a demand what goes to rank 0, 1, ...
        without this rank's own, of a collective what torch's calls hold. A source is read when its task starts here:
        what a computation makes must be there when it is said to be done.
        """
        if self._call is not None and not self._call.is_over:
            raise InvalidInput("the step is still under way; wait for all its tasks before it begins again")
        for name in tensors:
            self._number(name)
        given: dict[int, Tensors] = {}
        for number, memory in self._memory.items():
            name = self.names[number]
            source, target = tensors.get(name, (None, None))
            for what, tensor, wanted in (
                ("source", source, memory.given_bytes),
                ("target", target, memory.wanted_bytes),
            ):
                has = 0 if tensor is None else tensor.numel() * tensor.element_size()
                if has != wanted:
                    raise InvalidInput(
                        f"task {name!r}: its {what} has {has} bytes at rank {self.rank}; {wanted} are needed"
                    )
                if tensor is not None and (not tensor.is_contiguous() or tensor.device.type != "cpu"):
                    raise InvalidInput(f"task {name!r}: its {what} must be contiguous, in host memory")
            self._check_elements(number, source if source is not None else target)
            given[number] = (source, target)
        self._call = _Call(self, given)
        self._call.release(self._call.first)

    def wait(self, name: str) -> None:
        """Return when a move has ended at this rank: its target holds what it must."""
        number = self._number(name)
        if not self.tasks[number].is_move:
            raise InvalidInput(f"task {name!r} is computation; say done({name!r}) when it is")
        call = self._under_way()
        self._runner.guard(lambda: call.wait(number), f"waiting for task {name!r}")

    def done(self, name: str) -> None:
        """Say that a computation has ended at this rank, so that what is after it may start."""
        number = self._number(name)
        if self.tasks[number].is_move:
            raise InvalidInput(f"task {name!r} is a move; wait for it")
        self._under_way().done(number)

    def close(self) -> None:
        """End the threads and let go of the connections."""
        for queue in self._queues:
            queue.close()
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _under_way(self) -> _Call:
        if self._call is None:
            raise InvalidInput("the step has not begun; call begin with its tensors")
        return self._call

    def _number(self, name: str) -> int:
        if name not in self.names:
            raise InvalidInput(f"no task {str(name)[:64]!r}; {nearest(str(name)[:64], self.names)}")
        return self.names.index(name)

    def _memories(self) -> dict[int, _Memory]:
        touched: dict[int, list[np.ndarray]] = defaultdict(list)
        pieces = self.schedule.pieces
        for action in self._actions:
            if action.peer >= 0:
                first, end = pieces.offsets[action.row], pieces.offsets[action.row + 1]
                touched[action.task].append(pieces.item[first:end].astype(np.int64))
        none = [np.zeros(0, np.int64)]
        memories = {
            number: _Memory(self.problem, number, self.rank, np.unique(np.concatenate(touched.get(number, none))))
            for number, task in enumerate(self.tasks)
            if task.is_move
        }
        for action in self._actions:
            if action.peer >= 0:
                rows = slice(*pieces.offsets[action.row : action.row + 2].tolist())
                columns = (pieces.item[rows].tolist(), pieces.offset[rows].tolist(), pieces.length[rows].tolist())
                action.places = memories[action.task].places(list(zip(*columns, strict=True)))
        return memories

    def _check_elements(self, number: int, tensor: torch.Tensor | None) -> None:
        if tensor is None or tensor.element_size() == 1 or not self.tasks[number].reduces:
            return
        pieces, tasks = self.schedule.pieces, self.schedule.tasks
        assert tasks is not None
        mine = tasks.task[pieces.message] == number
        size = tensor.element_size()
        if ((pieces.offset[mine] % size != 0) | (pieces.length[mine] % size != 0)).any():
            name = self.names[number]
            raise InvalidInput(
                f"task {name!r}: the plan cuts elements of {size} bytes; plan it with element_bytes={size}"
            )


class _Call:
    """One run of the step."""

    def __init__(self, runner: StepRunner, tensors: Mapping[int, Tensors]) -> None:
        self.runner, self.tensors, self.actions = runner, tensors, runner._actions
        self.open = [action.open for action in self.actions]
        self.first = [number for number, count in enumerate(self.open) if count == 0]
        self.begin_s = time.monotonic()
        self.deadline_s = self.begin_s + runner._runner.timeout_s
        self.lock = threading.Lock()
        self.ended = {number: threading.Event() for number in tensors}
        self.left: dict[int, int] = defaultdict(int)
        for action in self.actions:
            if action.peer >= 0:
                self.left[action.task] += 1
        self.starting = {number: threading.Lock() for number in tensors}
        self.started: set[int] = set()
        self.said: set[int] = set()  # computations that are done
        self.waiting: dict[int, list[int]] = defaultdict(list)  # actions of computations that may start
        self.memory = runner._bytes
        # Where values join, what is being sent may change meanwhile: it is copied.
        self.changes = {number: runner.tasks[number].reduces for number in tensors}
        self.failure: BaseException | None = None
        self.expected: dict[int, int] = {}  # actions under way that receive, and from whom
        for number in tensors:
            if self.left[number] == 0:
                self._start(number)
                self._finish(number)

    @property
    def is_over(self) -> bool:
        return self.failure is not None or all(event.is_set() for event in self.ended.values())

    def release(self, numbers: list[int]) -> None:
        """Start actions, and whatever ends at once."""
        queue = deque(numbers)
        while queue:
            number = queue.popleft()
            action = self.actions[number]
            if action.peer >= 0:
                self._begin_move(number, action)
            elif action.is_computation:
                with self.lock:
                    is_done = action.task in self.said
                    if not is_done:
                        self.waiting[action.task].append(number)
                if is_done:
                    queue.extend(self._ended(number))
            elif action.seconds > 0:
                left_s = self.begin_s + action.seconds - time.monotonic()
                timer = threading.Timer(max(0.0, left_s), lambda n=number: self.release(self._ended(n)))
                timer.daemon = True
                timer.start()
            else:
                queue.extend(self._ended(number))

    def _ended(self, number: int) -> list[int]:
        ready = []
        with self.lock:
            for later in self.actions[number].releases:
                self.open[later] -= 1
                if self.open[later] == 0:
                    ready.append(later)
        return ready

    def done(self, task: int) -> None:
        with self.lock:
            self.said.add(task)
            numbers = self.waiting.pop(task, [])
        self.release([later for number in numbers for later in self._ended(number)])

    def wait(self, task: int) -> None:
        if not self.ended[task].wait(max(0.001, self.deadline_s - time.monotonic())):
            raise MoveFailed("timed out", sorted(set(self.expected.values())))
        if self.failure is not None:
            waiting_on = sorted(set(self.expected.values()))
            raise MoveFailed(str(self.failure), waiting_on) from self.failure

    def _begin_move(self, number: int, action: _Action) -> None:
        import torch

        try:
            with self.starting[action.task]:  # nobody sends what is not there yet
                if action.task not in self.started:
                    self._start(action.task)
                    self.started.add(action.task)
            group, tag = self.runner._groups[action.task], FIRST_TAG + action.tag
            memory, places = self.memory[action.task], action.places
            is_alone = len(places) == 1 and not self.changes[action.task]
            if is_alone:
                bytes_ = memory.narrow(0, *places[0])
            elif action.sends:
                bytes_ = torch.cat([memory.narrow(0, *place) for place in places])
            else:
                bytes_ = torch.empty(sum(length for _, length in places), dtype=torch.uint8)
            with backend_errors():
                if action.sends:
                    work = group.send([bytes_], action.peer, tag)
                else:
                    self.expected[number] = action.peer
                    work = group.recv([bytes_], action.peer, tag)
            self.runner._queue_of[number].put(self, number, work, bytes_)
        except Exception as error:
            self._fail(error)

    def end_move(self, number: int, work: dist.Work, bytes_: torch.Tensor) -> bool:
        """Wait for a message, put it where it belongs and start what waited for it; whether all is well."""
        action = self.actions[number]
        try:
            with backend_errors():
                work.wait(timedelta(seconds=max(0.001, self.deadline_s - time.monotonic())))
            if not action.sends:
                self._unpack(action, bytes_)
                self.expected.pop(number, None)
            with self.lock:
                self.left[action.task] -= 1
                is_last = self.left[action.task] == 0
            if is_last:
                self._finish(action.task)
            self.release(self._ended(number))
        except Exception as error:
            self._fail(error)
        return self.failure is None

    def _fail(self, error: BaseException) -> None:
        with self.lock:
            is_first, self.failure = self.failure is None, self.failure or error
        if is_first:
            for group in self.runner._groups.values():
                poison(group)
        for event in self.ended.values():
            event.set()

    def _unpack(self, action: _Action, bytes_: torch.Tensor) -> None:
        memory, at = self.memory[action.task], 0
        source, target = self.tensors[action.task]
        given = source if source is not None else target
        for begin, length in action.places:
            place, landed = memory.narrow(0, begin, length), bytes_.narrow(0, at, length)
            at += length
            if action.adds:
                assert given is not None
                with self.lock:  # two messages may add to the same bytes
                    combining(given.dtype)(place, landed)
            elif place.data_ptr() != landed.data_ptr():
                place.copy_(landed)

    def _start(self, task: int) -> None:
        """Give every accumulator its first value."""
        import torch

        memory, (source, _) = self.runner._memory[task], self.tensors[task]
        for item in memory.blank if self.changes[task] else ():
            self.memory[task].narrow(0, memory.start[item], memory.size[item]).zero_()
        if source is None:
            return
        flat, at = source.reshape(-1).view(torch.uint8), 0
        for item in memory.given:
            size = memory.size[item]
            self.memory[task].narrow(0, memory.start[item], size).copy_(flat.narrow(0, at, size))
            at += size

    def _finish(self, task: int) -> None:
        """Hand out what the task brought."""
        import torch

        memory, (_, target) = self.runner._memory[task], self.tensors[task]
        if target is not None:
            flat, at = target.view(-1).view(torch.uint8), 0
            for item in memory.wanted:
                size = memory.size[item]
                flat.narrow(0, at, size).copy_(self.memory[task].narrow(0, memory.start[item], size))
                at += size
        self.ended[task].set()


def _actions(schedule: Schedule, problem: Problem, rank: int) -> tuple[list[_Action], list[list[int]]]:
    """What a rank does, row by row: sends, receives, its own computation, and all meeting points and times; and queues.

    A queue lists what one task sends to one peer or receives from it, in an order of rows that respects all waits.
    """
    assert schedule.tasks is not None
    actions: list[_Action] = []
    of_row: dict[int, list[int]] = {}
    tags: dict[tuple[int, int], int] = defaultdict(int)
    tasks, seconds = schedule.tasks.task.tolist(), schedule.tasks.seconds.tolist()
    for row, kind in enumerate(schedule.kind.tolist()):
        src, dst = schedule.src[row].tolist(), schedule.dst[row].tolist()
        made: list[_Action] = []
        if kind == Kind.WAIT:
            if tasks[row] < 0:
                made.append(_Action(row, -1, seconds=seconds[row]))
            elif src[0] == rank:
                made.append(_Action(row, tasks[row], is_computation=True))
        else:
            for a in src:
                for b in dst:
                    if rank in (a, b):
                        peer, tag = (b, tags[a, b]) if a == rank else (a, tags[a, b])
                        made.append(_Action(row, tasks[row], peer, a == rank, tag, adds=kind == Kind.REDUCE))
                    tags[a, b] += 1
        if made:
            of_row[row] = list(range(len(actions), len(actions) + len(made)))
            actions.extend(made)
    ordered = _link_orders(schedule, problem)
    waits = [sorted({*deps.tolist(), *ordered.get(row, ())}) for row, deps in enumerate(schedule.deps)]
    order = topological_order(Ragged.from_lists(waits))
    latest = _latest_here(waits, order, of_row)
    for number, action in enumerate(actions):
        # A peer gets a notice of every receive. Those of messages that cannot come yet would hold up the ones that can.
        receives = action.peer >= 0 and not action.sends
        for dep in {*waits[action.row], latest[action.row]} if receives else waits[action.row]:
            for before in of_row.get(dep, ()):
                if not _is_kept_by_sender(actions[before], action):
                    actions[before].releases.append(number)
                    action.open += 1
    queues: dict[tuple[int, int, bool], list[int]] = defaultdict(list)
    for row in order:
        for number in of_row.get(row, ()):
            action = actions[number]
            if action.peer >= 0:
                queues[action.task, action.peer, action.sends].append(number)
    return actions, list(queues.values())


def _latest_here(waits: Sequence[Sequence[int]], order: Sequence[int], here: Mapping[int, object]) -> list[int]:
    """Of all that comes before each row, the latest in an order that respects waits that this rank takes part in; -1
    where there is none."""
    place = {-1: -1} | {row: number for number, row in enumerate(order)}
    latest = [-1] * len(waits)
    for row in order:
        before = (dep if dep in here else latest[dep] for dep in waits[row])
        latest[row] = max(before, key=place.__getitem__, default=-1)
    return latest


def _is_kept_by_sender(before: _Action, after: _Action) -> bool:
    """Whether both are received from the same rank, which sends them in that order.

    A receiver that kept the order too would say that it is ready for the second only when the first has arrived, and
    the link would idle until the sender has heard it: behind the receiver's own data, that takes longer than a message.
    """
    return before.peer == after.peer >= 0 and not before.sends and not after.sends


def _link_orders(schedule: Schedule, problem: Problem) -> dict[int, set[int]]:
    """The rows before each in the orders that its links and its connection keep."""
    before: dict[int, set[int]] = defaultdict(set)
    for earlier, later in np.stack(follows(schedule, problem.topology), axis=1).tolist():
        before[later].add(earlier)
    return before
