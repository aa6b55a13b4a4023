"""Does every survivor name the rank that failed, and does any hang? With real launchers, on loopback.

python benchmarks/bench_rank_faults.py --trials 100

A rank is killed, stopped, late, leaves early or raises, before a call or at a message in the middle of one, at 4 and 8
ranks, under torchrun and with the store on rank 0, which may be the victim. Survivors tell what they were told and
end at once, so the verdict must outlive who made it. torchrun ends all ranks when one fails: here they let its SIGTERM
pass until they have reported.
"""

from __future__ import annotations

import atexit
import faulthandler
import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import arguments, report

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", TORCH_CPP_LOG_LEVEL="ERROR")
TIMEOUT_S = 6.0  # of a call
LIMIT_S = 90.0  # of a trial: whoever has not reported by then hangs
HOWS = ("killed", "stopped", "late", "left", "raised")
LAUNCHERS = ("torchrun", "rank 0")  # who hosts the store
MOST_CALLS = 500


@dataclass(frozen=True, slots=True)
class Trial:
    """What goes wrong, where and when."""

    how: str
    num_ranks: int
    launcher: str
    victim: int
    at_call: int
    in_message: bool  # in the middle of the call, not before it
    closes: bool  # whether a rank that leaves or raises closes its handle in good order
    algorithm: str
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the survivors made of it."""

    trial: Trial
    told: dict[int, str]  # by rank that reported
    named: dict[int, list[int]]
    seconds: float  # from the fault to the last report

    @property
    def num_hanging(self) -> int:
        """Ranks that never reported, the victim not counted."""
        return sum(rank not in self.told for rank in self.survivors)

    @property
    def num_naming(self) -> int:
        """Survivors that name the victim, and nobody else."""
        return sum(self.named.get(rank) == [self.trial.victim] for rank in self.survivors)

    @property
    def survivors(self) -> list[int]:
        """All but the victim."""
        return [rank for rank in range(self.trial.num_ranks) if rank != self.trial.victim]


def trials(count: int, seed: int) -> Iterator[Trial]:
    """Kinds, sizes and launchers in turn, the rest at random."""
    kinds = [(how, ranks, launcher) for ranks in (4, 8) for launcher in LAUNCHERS for how in HOWS]
    for number in range(count):
        rng = random.Random(f"{seed}.{number}")
        how, num_ranks, launcher = kinds[number % len(kinds)]
        yield Trial(
            how,
            num_ranks,
            launcher,
            victim=rng.randrange(num_ranks),
            at_call=rng.randint(1, 8),
            in_message=how in ("killed", "stopped") and rng.random() < 0.6,
            closes=rng.random() < 0.5,
            algorithm=rng.choice(["adaptive", "no-stage", "fast"]),
            seed=rng.getrandbits(30),
        )


class Running:
    """The processes of a trial: forked, so that torch is not imported by every one of them."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self._path = Path(tempfile.mkdtemp())
        self._until_s = time.monotonic() + LIMIT_S
        # The victim is asked as well where it goes on.
        self._wanted = [rank for rank in range(trial.num_ranks) if rank != trial.victim or trial.how == "late"]
        if trial.launcher == "torchrun":
            self._children = [self._fork(lambda: _by_torchrun(trial, self._path))]
            return
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(trial.num_ranks)}
        self._children = [
            self._fork(lambda: work(asdict(trial), str(self._path)), {**here, "RANK": str(rank)})
            for rank in range(trial.num_ranks)
        ]

    def _fork(self, then: Callable[[], None], variables: dict[str, str] | None = None) -> int:
        """The number of a new process, whose words go to a file."""
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                said = os.open(self._path / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(said, 1)
                os.dup2(said, 2)
                os.environ.update(variables or {})
                then()
                status = 0
            except SystemExit as left:
                atexit._run_exitfuncs()  # as the interpreter does at its end
                status = int(left.code or 0)
            except BaseException:
                traceback.print_exc()
                atexit._run_exitfuncs()
            finally:
                os._exit(status)
        return pid

    def outcome(self) -> Outcome | None:
        """What came of it; None while that is open."""
        told = {rank: file for rank in self._wanted if (file := self._path / f"told{rank}").exists()}
        if len(told) < len(self._wanted) and time.monotonic() < self._until_s:
            return None
        if len(told) < len(self._wanted):
            self._send(signal.SIGUSR1)  # ranks write where they are
            time.sleep(1)
            print((self._path / "said").read_text()[-20_000:], file=sys.stderr, flush=True)
        said = {rank: json.loads(file.read_text()) for rank, file in told.items()}
        fault = self._path / "fault"
        begun_s = fault.stat().st_mtime if fault.exists() else time.time()
        ended_s = max((file.stat().st_mtime for file in told.values()), default=time.time())
        self._end()
        words, named = ({rank: each[key] for rank, each in said.items()} for key in ("words", "ranks"))
        return Outcome(self.trial, words, named, ended_s - begun_s)

    def _end(self) -> None:
        """End every process, whatever it is doing."""
        self._send(signal.SIGKILL)
        for pid in self._children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        shutil.rmtree(self._path)

    def _send(self, number: int) -> None:
        """A signal to every rank."""
        for file in self._path.glob("pid*"):
            with suppress(ProcessLookupError):
                os.kill(int(file.read_text()), number)


def _by_torchrun(trial: Trial, folder: Path) -> None:
    """What `torchrun --standalone --nproc-per-node N` does, with ranks that are forked by a server.

    torchrun itself has threads, and what they hold when it forks is held for ever.
    """
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=trial.num_ranks,
        run_id=f"trial{trial.seed}",
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        local_addr="127.0.0.1",
        max_restarts=0,
        start_method="forkserver",
    )
    multiprocessing.set_forkserver_preload(["interlock.torch"])
    elastic_launch(config, work)(asdict(trial), str(folder))


def outcomes(wanted: Iterable[Trial], at_once: int) -> Iterator[Outcome]:
    """Run trials, some at the same time: most of it is waiting."""
    import torch.distributed.launcher.api  # noqa: F401

    import interlock.torch  # noqa: F401  # here, and not in every rank

    queue, running = iter(wanted), list[Running]()
    while True:
        while len(running) < at_once and (trial := next(queue, None)) is not None:
            running.append(Running(trial))
        if not running:
            return
        for one in list(running):
            if (made := one.outcome()) is not None:
                running.remove(one)
                yield made
        time.sleep(0.1)


def work(words: dict[str, Any], name: str) -> None:
    """One rank: calls until something goes wrong."""
    trial, folder = Trial(**words), Path(name)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    faulthandler.register(signal.SIGUSR1)
    rank = int(os.environ["RANK"])
    (folder / f"pid{rank}").write_text(str(os.getpid()))
    import numpy as np
    import torch
    import torch.distributed as dist

    import interlock as il
    import interlock.torch as ilt

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    cluster = il.cluster("h200", servers=2, gpus_per_server=trial.num_ranks // 2)
    hosts = [f"server{peer * 2 // trial.num_ranks}" for peer in range(trial.num_ranks)]
    handle = ilt.AllToAll(cluster, hosts=hosts, algorithm=trial.algorithm, fallback=False, timeout_s=TIMEOUT_S)
    rng, ended = np.random.default_rng(trial.seed), {"ranks": [], "words": "no error"}
    for call in range(MOST_CALLS):
        matrix = rng.integers(0, 30_000, (trial.num_ranks,) * 2) * (rng.random((trial.num_ranks,) * 2) < 0.8)
        sends, receives = matrix[rank].tolist(), matrix[:, rank].tolist()
        if call == trial.at_call and rank == trial.victim:
            _fail(trial, handle, folder)
        try:
            handle(torch.zeros(sum(receives)), torch.ones(sum(sends)), receives, sends)
        except il.InterlockError as error:
            ended = {"ranks": list(getattr(error, "ranks", ())), "words": f"{type(error).__name__}: {error}"}
            break
        if call == trial.at_call and rank == trial.victim and trial.in_message:
            _signal(trial, folder)  # it sent nothing in that call: go at the end
    (folder / f"new{rank}").write_text(json.dumps(ended))
    (folder / f"new{rank}").rename(folder / f"told{rank}")
    os._exit(1)


def _fail(trial: Trial, handle: object, folder: Path) -> None:
    import torch.distributed as dist

    import interlock.torch as ilt

    assert isinstance(handle, ilt.AllToAll)
    if trial.how in ("killed", "stopped"):
        if trial.in_message:
            left = random.Random(trial.seed).randrange(1 + trial.num_ranks)
            handle.session.runner.flow.before_send = _countdown(left, lambda: _signal(trial, folder))
        else:
            _signal(trial, folder)
        return
    (folder / "fault").touch()
    if trial.how == "late":
        time.sleep(TIMEOUT_S + 4)
        return
    if trial.closes:
        handle.close()
        dist.destroy_process_group()
    if trial.how == "raised":
        raise ValueError("a fault of the program's own")
    sys.exit(0)


def _countdown(left: int, then: Callable[[], None]) -> Callable[[int], None]:
    def watch(phase: int) -> None:
        nonlocal left
        if left == 0:
            then()
        left -= 1

    return watch


def _signal(trial: Trial, folder: Path) -> None:
    (folder / "fault").touch()
    os.kill(os.getpid(), signal.SIGKILL if trial.how == "killed" else signal.SIGSTOP)


def main() -> None:
    """Print one row per kind, size and launcher."""
    options = arguments(__doc__ or "", trials=100, at_once=2)
    made = []
    for one in outcomes(trials(options.trials, options.seed), options.at_once):
        made.append(one)
        if one.num_naming < len(one.survivors):
            print(one, flush=True)
    rows = []
    for how in HOWS:
        for launcher in LAUNCHERS:
            own = [one for one in made if (one.trial.how, one.trial.launcher) == (how, launcher)]
            rows.append(
                {
                    "fault": how,
                    "store": launcher,
                    "trials": len(own),
                    "survivors": sum(len(one.survivors) for one in own),
                    "hanging": sum(one.num_hanging for one in own),
                    "naming": sum(one.num_naming for one in own),
                    "slowest_s": max((one.seconds for one in own), default=0.0),
                }
            )
    report("rank_faults", rows, options)
    sys.exit(any(one.num_naming < len(one.survivors) for one in made))


if __name__ == "__main__":
    main()
