"""Whoever died, stalled or was cut off is named, by everyone alike; no process group is involved."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

torch = pytest.importorskip("torch")

from torch.distributed import HashStore  # noqa: E402

from interlock.runtime.doors import Door, Unreached, knock  # noqa: E402
from interlock.runtime.heartbeat import DIED, Heartbeat, Verdict  # noqa: E402

pytestmark = pytest.mark.torch

NOWHERE = "255.255.255.255:9"  # nobody can be connected to everybody
WELL, NUM_RANKS = (0, 1, 2), 4


class Group:
    """As much of a process group as a heartbeat needs."""

    def __init__(self, store: HashStore, rank: int) -> None:
        self._store, self._rank = store, rank

    def rank(self) -> int:
        """Of this member."""
        return self._rank

    def size(self) -> int:
        """Number of members."""
        return NUM_RANKS

    def get_group_store(self) -> HashStore:
        """Shared by all."""
        return self._store


@pytest.fixture
def store() -> HashStore:
    """What ranks share."""
    return HashStore()


@pytest.fixture
def hearts(store: HashStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Heartbeat]]:
    """Heartbeats of four ranks, all well."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    made = [Heartbeat(Group(store, rank), "1") for rank in range(NUM_RANKS)]  # type: ignore[arg-type]
    yield made
    for heart in made:
        heart.close()


def verdicts(
    hearts: list[Heartbeat], ranks: tuple[int, ...], waits: dict[int, list[int]] | None = None
) -> set[Verdict]:
    """What some ranks say when they give up together."""
    told: list[Verdict] = []

    def ask(rank: int) -> None:
        told.append(hearts[rank].find_guilty((waits or {}).get(rank, [3])))

    threads = [threading.Thread(target=ask, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == len(ranks)
    return set(told)


def stop_beating(heart: Heartbeat) -> None:
    heart._store.stop(10)


def test_doors_tell_the_dead_from_the_cut_off() -> None:
    with socket.socket() as listening, socket.socket() as closed:
        for door in (listening, closed):
            door.bind(("127.0.0.1", 0))
        listening.listen()
        addresses = {rank: f"127.0.0.1:{door.getsockname()[1]}" for rank, door in ((1, listening), (2, closed))}
        assert knock({**addresses, 3: NOWHERE}, 0.3) == Unreached(refused=(2,), unreachable=(3,))
    assert knock({}, 0.3) == Unreached((), ())


def test_a_door_opens_only_where_others_would_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(socket, "gethostbyname", lambda name: "127.0.1.1")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nosuch0")
    assert Door(1, b"token").address == ""
    for interface in ("lo,nosuch0", ""):  # without a name: that of the host, which leads to loopback
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", interface)
        door = Door(1, b"token")
        machine, _, place = door.address.rpartition("@")
        assert place.startswith("127.0.") and machine
        assert knock({1: door.address, 2: f"elsewhere@{NOWHERE}"}, 0.3) == Unreached((), ())
        door.close()
        assert door.address == ""


def test_word_is_kept_from_those_who_know_the_token_and_from_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    door = Door(4, b"token")
    for word in (b"", b"token", b"other: a lie", b"token" + bytes(1 << 18), b"token" + b"the truth"):
        assert knock({1: door.address}, 1.0, word) == Unreached((), ())
    until_s = time.monotonic() + 5
    while b"the truth" not in door.words and time.monotonic() < until_s:
        time.sleep(0.01)
    assert door.words == (b"the truth",)
    door.close()


def test_whose_door_refuses_is_dead_unless_it_has_left(hearts: list[Heartbeat]) -> None:
    assert hearts[0].find_dead() == ()
    hearts[2]._door.close()
    assert hearts[0].find_dead() == (2,)
    hearts[2].close()
    assert hearts[0].find_dead() == ()


def test_beats_end_before_the_interpreter_does() -> None:
    """A thread that is ended inside of the store takes its process down; the group was never closed here."""
    code = """if True:
        import atexit, threading
        from torch.distributed import HashStore

        class Group:
            def rank(self): return 0
            def size(self): return 1
            def get_group_store(self): return store

        def beating(): return [t.name for t in threading.enumerate() if t.name == "interlock-heartbeat"]

        atexit.register(lambda: print(beating()))  # called after what is registered later
        store = HashStore()
        from interlock.runtime.heartbeat import Heartbeat

        Heartbeat(Group(), "1")
        print(beating())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["['interlock-heartbeat']", "[]"], done.stderr


def test_idle_strangers_do_not_keep_a_door_shut(hearts: list[Heartbeat]) -> None:
    strangers = []
    for heart in hearts:
        host, _, port = heart._door.address.rpartition("@")[2].rpartition(":")
        for number in range(150):
            strangers.append(socket.create_connection((host, int(port)), timeout=5))
            if number % 3:
                with suppress(ConnectionError):  # put out, for there are many
                    strangers[-1].send(b"GET / HTTP/1.1\r\n" * 50)
    stop_beating(hearts[3])
    assert verdicts(hearts, WELL) == {Verdict((3,), "stalled")}
    for stranger in strangers:
        stranger.close()


def test_a_verdict_outlives_the_store_and_the_rank_that_hosted_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 hosts the store, judges first and leaves; the others do not take it for the victim."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    hosted = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    others = [torch.distributed.TCPStore("127.0.0.1", hosted.port) for _ in range(NUM_RANKS - 1)]
    hearts = [Heartbeat(Group(store, rank), "1") for rank, store in enumerate([hosted, *others])]  # type: ignore[arg-type]
    time.sleep(0.8)  # a beat, in which ranks learn each other's doors
    stop_beating(hearts[1])
    hearts[1]._door.close()
    first = hearts[0].find_guilty([1])
    assert first == Verdict((1,), DIED)
    stop_beating(hearts[0])
    hearts[0]._door.close()
    del hosted
    gc.collect()
    assert verdicts(hearts, (2, 3)) == {first}
    for heart in hearts[2:]:
        heart.close()


def test_without_store_and_verdict_whoever_refuses_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    hosted = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    others = [torch.distributed.TCPStore("127.0.0.1", hosted.port) for _ in range(NUM_RANKS - 1)]
    hearts = [Heartbeat(Group(store, rank), "1") for rank, store in enumerate([hosted, *others])]  # type: ignore[arg-type]
    time.sleep(0.8)
    stop_beating(hearts[0])
    hearts[0]._door.close()
    del hosted
    gc.collect()
    assert verdicts(hearts, (1, 2, 3)) == {Verdict((0,), DIED)}
    for heart in hearts[1:]:
        heart.close()


def test_a_store_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process is stopped, with all connections open."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    code = """if True:
        import time
        from torch.distributed import TCPStore
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        print(store.port, flush=True)
        time.sleep(1000)
    """
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as hosting:
        assert hosting.stdout is not None
        port = int(hosting.stdout.readline())
        stores = [torch.distributed.TCPStore("127.0.0.1", port) for _ in range(NUM_RANKS)]
        hearts = [Heartbeat(Group(store, rank), "1") for rank, store in enumerate(stores)]  # type: ignore[arg-type]
        time.sleep(1.2)  # two beats, in which ranks learn each other's doors
        os.kill(hosting.pid, signal.SIGSTOP)
        words = "stalled or cannot be reached, and with it the store it hosts"
        assert verdicts(hearts, (1, 2, 3)) == {Verdict((0,), words)}
        hosting.kill()
        for heart in hearts:
            heart.close()


def test_who_is_well_but_does_not_complain_is_late(hearts: list[Heartbeat]) -> None:
    assert verdicts(hearts, WELL, {rank: [] for rank in WELL}) == {Verdict((3,), "kept others waiting")}


def test_who_comes_when_others_have_given_up_is_late_though_it_complains(
    hearts: list[Heartbeat], store: HashStore
) -> None:
    for rank in WELL:
        hearts[rank].enter()
    time.sleep(1.1)  # they are expected to have told by then
    told: list[Verdict] = []
    first = threading.Thread(target=lambda: told.append(hearts[0].find_guilty([])))
    first.start()
    while not store.check(["interlock/1/absent"]):
        time.sleep(0.01)
    hearts[3].enter()
    assert verdicts(hearts, (1, 2, 3), {rank: [] for rank in (1, 2, 3)}) == {Verdict((3,), "kept others waiting")}
    first.join()
    assert told == [Verdict((3,), "kept others waiting")]


def test_a_rank_whose_door_refuses_is_dead(hearts: list[Heartbeat]) -> None:
    stop_beating(hearts[3])
    hearts[3]._door.close()
    assert verdicts(hearts, WELL) == {Verdict((3,), DIED)}


def test_a_rank_that_can_be_reached_but_is_silent_has_stalled(hearts: list[Heartbeat]) -> None:
    stop_beating(hearts[3])
    assert verdicts(hearts, WELL) == {Verdict((3,), "stalled")}


def test_a_rank_that_nobody_reaches_is_cut_off_even_if_it_complains(hearts: list[Heartbeat], store: HashStore) -> None:
    store.set("interlock/1/door3", NOWHERE)
    waits = {rank: [1] for rank in range(NUM_RANKS)}  # a false trail
    assert verdicts(hearts, (*WELL, 3), waits) == {Verdict((3,), "cannot be reached")}


def test_ranks_that_left_or_gave_up_first_are_not_blamed(hearts: list[Heartbeat], store: HashStore) -> None:
    hearts[1].close()
    store.set("interlock/1/waits2", "[0, [3]]")
    stop_beating(hearts[2])
    hearts[2]._door.close()
    stop_beating(hearts[3])
    assert verdicts(hearts, (0,)) == {Verdict((3,), "stalled")}


def test_who_left_in_good_order_is_blamed_by_those_it_left_in_the_middle(hearts: list[Heartbeat]) -> None:
    for heart in hearts:
        heart.done = 5
    hearts[3].done = 4
    for rank in (1, 3):
        hearts[rank].close()
    hearts[0].done = hearts[2].done = 4  # in the fifth action, which rank 1 was through with
    assert verdicts(hearts, (0, 2)) == {Verdict((3,), "left before the others were through")}


def test_where_everyone_is_well_the_most_missed_is_named(hearts: list[Heartbeat]) -> None:
    waits = {0: [3], 1: [3, 2], 2: [3], 3: []}
    assert verdicts(hearts, (*WELL, 3), waits) == {Verdict((3,), "kept others waiting")}


def test_who_asks_later_gets_the_same_verdict(hearts: list[Heartbeat], store: HashStore) -> None:
    store.set("interlock/1/verdict", json.dumps([[2], "died"]))
    assert verdicts(hearts, (0,)) == {Verdict((2,), "died")}
