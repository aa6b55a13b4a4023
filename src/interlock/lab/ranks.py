"""Processes that play ranks: started in their namespaces, joined in one gloo group, told what to run.

A server process imports torch once and forks every rank, so sixteen of them start in seconds. Ranks die with it and
with the process that asked for them, however that ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import select
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import connection, forkserver
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from interlock.errors import InterlockError
from interlock.interrupts import starting_processes
from interlock.lab.network import NAMESPACE_FOLDER

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    import torch.distributed as dist
    from torch._C._distributed_c10d import Store

__all__ = ["CallOutcome", "RankContext", "RankFailed", "RankProcesses", "Seat"]

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
START_TIMEOUT_S = 180.0
AFTER_A_DEATH_S = 10.0  # for survivors to answer; torch's own calls wait for the dead as long as their timeout allows


class RankFailed(InterlockError):
    """A rank's process ended, stalled or raised; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a process runs: a network namespace (None: the machine's own) and its interfaces."""

    namespace: str | None = None
    interface: str = "lo"  # for payload
    control: str = "lo"  # for barriers and results, apart from what is measured


@dataclass(slots=True)
class RankContext:
    """What a function that runs on a rank is given first."""

    rank: int
    num_ranks: int
    group: dist.ProcessGroup
    control: dist.ProcessGroup
    store: Store


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What became of a call on one rank: a value, or the words of its error; `None` for both if it never answered."""

    rank: int
    value: Any = None
    error: str | None = None
    answered: bool = True


class RankProcesses:
    """Rank processes, one per seat.

    Examples
    --------
    >>> with RankProcesses([Seat()] * 4) as ranks:  # doctest: +SKIP
    ...     ranks.call(some_function, 42)
    """

    def __init__(
        self,
        seats: Sequence[Seat],
        *,
        store_seat: Seat | None = None,
        store_host: str = "127.0.0.1",
        timeout_s: float = 60.0,
        lazy: bool = False,
    ) -> None:
        self.num_ranks = len(seats)
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # c10d warns of every namespace without host names
        self._starter = multiprocessing.get_context("forkserver")
        self._starter.set_forkserver_preload(["torch.distributed", "interlock.planning", __name__])
        # Ranks come with its mask, until they ignore the signal themselves.
        with starting_processes():
            forkserver.ensure_running()
        self._processes: list[BaseProcess] = []
        self._pipes: list[Connection] = []
        self._store: tuple[BaseProcess, Connection] | None = None  # its process, and a pipe that keeps it
        try:
            port = self._start_store(store_seat or Seat(), store_host)
            for rank, seat in enumerate(seats):
                ours, theirs = self._starter.Pipe()
                arguments = (seat, os.getpid(), rank, len(seats), store_host, port, timeout_s, lazy, theirs)
                process = self._starter.Process(target=_rank_main, args=arguments, daemon=True)
                process.start()
                theirs.close()
                self._processes.append(process)
                self._pipes.append(ours)
            self._raise_errors(self.collect(START_TIMEOUT_S))
        except BaseException:
            self.close()
            raise

    def _start_store(self, seat: Seat, host: str) -> int:
        """The store has a process of its own, so that any rank may die."""
        ours, theirs = self._starter.Pipe()
        process = self._starter.Process(target=_store_main, args=(seat, os.getpid(), host, theirs), daemon=True)
        process.start()
        theirs.close()
        self._store = (process, ours)
        try:
            if ours.poll(START_TIMEOUT_S):
                return int(ours.recv())
        except EOFError:
            raise RankFailed("the store's process ended before it listened") from None
        raise RankFailed(f"the store did not start within {START_TIMEOUT_S:g} s")

    def call(self, function: Callable[..., Any], *arguments: Any, timeout_s: float = 300.0) -> list[Any]:
        """Run ``function(context, *arguments)`` on every rank; give their values, or raise the first error."""
        self.post(function, *arguments)
        outcomes = self.collect(timeout_s, after_a_death_s=AFTER_A_DEATH_S)
        self._raise_errors(outcomes)
        return [outcome.value for outcome in outcomes]

    def post(self, function: Callable[..., Any], *arguments: Any, ranks: Sequence[int] | None = None) -> None:
        """Start a function on every rank (or on some) without waiting; it must be importable by name."""
        for rank in range(self.num_ranks) if ranks is None else ranks:
            with contextlib.suppress(BrokenPipeError):  # its process is gone, as `collect` will say
                self._pipes[rank].send((function, arguments))

    def collect(
        self, timeout_s: float, ranks: Sequence[int] | None = None, *, after_a_death_s: float = float("inf")
    ) -> list[CallOutcome]:
        """Wait for the outcome of the last `post`; once a process has ended, only so long for the others."""
        deadline_s = time.monotonic() + timeout_s
        asked = list(range(self.num_ranks)) if ranks is None else list(ranks)
        outcomes: dict[int, CallOutcome] = {}
        rank_by_pipe = {id(self._pipes[rank]): rank for rank in asked}
        while len(outcomes) < len(asked) and (left_s := deadline_s - time.monotonic()) > 0:
            pending = [self._pipes[rank] for rank in asked if rank not in outcomes]
            for ready in connection.wait(pending, left_s):
                rank = rank_by_pipe[id(ready)]
                try:
                    value, error = self._pipes[rank].recv()
                    outcomes[rank] = CallOutcome(rank, value, error)
                except (EOFError, ConnectionResetError):
                    deadline_s = min(deadline_s, time.monotonic() + after_a_death_s)
                    outcomes[rank] = CallOutcome(rank, error=_how_it_ended(self._processes[rank]), answered=False)
        silence = f"no answer within {timeout_s:g} s"
        return [outcomes.get(rank, CallOutcome(rank, error=silence, answered=False)) for rank in asked]

    def close(self) -> None:
        """End every process."""
        started = [*self._processes, *([] if self._store is None else [self._store[0]])]
        for process in started:
            if process.is_alive():
                process.kill()
        for process in started:
            process.join(10)
        for pipe in self._pipes:
            pipe.close()

    def __enter__(self) -> RankProcesses:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _raise_errors(self, outcomes: Sequence[CallOutcome]) -> None:
        failed = sorted((outcome for outcome in outcomes if outcome.error is not None), key=lambda one: one.answered)
        if failed:
            others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
            raise RankFailed(f"rank {failed[0].rank}{others}: {failed[0].error}")


def _how_it_ended(process: BaseProcess) -> str:
    """Words for a process whose pipe is closed."""
    process.join(5)
    code = process.exitcode
    if code is not None and code < 0:
        return f"its process was killed by {signal.Signals(-code).name}"
    return "its process ended" if code is None else f"its process ended with exit code {code}"


def _enter(seat: Seat, owner: int) -> None:
    """Move this process into its namespace, and tie its life to the process that forked it and to its owner."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _end_with(owner)
    if seat.namespace is not None:
        handle = os.open(NAMESPACE_FOLDER / seat.namespace, os.O_RDONLY)
        if libc.setns(handle, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter namespace {seat.namespace}")
        os.close(handle)


def _end_with(owner: int) -> None:
    """End this process when its owner is gone, whatever it is doing.

    The server that forked it does not: every rank holds an end of the pipe whose closing would tell that server.
    """
    try:
        handle = os.pidfd_open(owner)
    except ProcessLookupError:
        os._exit(1)

    def watch() -> None:
        select.select([handle], [], [])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _store_main(seat: Seat, owner: int, host: str, pipe: Connection) -> None:
    _enter(seat, owner)
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    # A socket of our own: the store's would listen on every interface.
    listening = socket.create_server((host, 0), backlog=1024)
    port = listening.getsockname()[1]
    store = TCPStore(host, port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach())
    pipe.send(store.port)
    while True:
        try:
            pipe.recv()
        except EOFError:
            return


def _rank_main(
    seat: Seat,
    owner: int,
    rank: int,
    num_ranks: int,
    store_host: str,
    store_port: int,
    timeout_s: float,
    lazy: bool,
    pipe: Connection,
) -> None:
    try:
        _enter(seat, owner)
        context = _join(seat, rank, num_ranks, store_host, store_port, timeout_s, lazy)
    except Exception:
        pipe.send((None, traceback.format_exc()))
        return
    pipe.send((None, None))
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((function(context, *arguments), None))
        except Exception as error:
            reason = str(error) if isinstance(error, InterlockError) else traceback.format_exc()
            pipe.send((None, reason))


def _join(
    seat: Seat, rank: int, num_ranks: int, store_host: str, store_port: int, timeout_s: float, lazy: bool
) -> RankContext:
    """Join the group for payload and, on the control interface, the group for everything else."""
    import torch
    import torch.distributed as dist
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    torch.set_num_threads(1)
    limit = timedelta(seconds=timeout_s)
    store = TCPStore(store_host, store_port, is_master=False, timeout=timedelta(seconds=START_TIMEOUT_S))
    os.environ["TORCH_GLOO_LAZY_INIT"] = "1" if lazy else "0"
    os.environ["GLOO_SOCKET_IFNAME"] = seat.interface
    dist.init_process_group("gloo", store=store, rank=rank, world_size=num_ranks, timeout=limit)
    os.environ["GLOO_SOCKET_IFNAME"] = seat.control
    control = dist.new_group(timeout=timedelta(seconds=START_TIMEOUT_S))
    os.environ["GLOO_SOCKET_IFNAME"] = seat.interface
    group = dist.group.WORLD
    assert group is not None
    return RankContext(rank, num_ranks, group, control, store)
