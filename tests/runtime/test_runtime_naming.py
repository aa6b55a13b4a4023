"""Whoever died, stalled or was cut off is named, by everyone alike; no process group is involved."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from torch.distributed import HashStore  # noqa: E402

from interlock.runtime.heartbeat import Heartbeat, Verdict  # noqa: E402
from interlock.runtime.reach import Door, Reach, knock  # noqa: E402

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
    heart._stop.set()
    heart._thread.join()


def test_doors_tell_the_dead_from_the_cut_off() -> None:
    with socket.socket() as listening, socket.socket() as closed:
        for door in (listening, closed):
            door.bind(("127.0.0.1", 0))
        listening.listen()
        addresses = {rank: f"127.0.0.1:{door.getsockname()[1]}" for rank, door in ((1, listening), (2, closed))}
        assert knock({**addresses, 3: NOWHERE}, 0.3) == Reach(refused=(2,), unreachable=(3,))
    assert knock({}, 0.3) == Reach((), ())


def test_a_door_opens_only_where_others_would_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(socket, "gethostbyname", lambda name: "127.0.1.1")
    assert Door(1).address == ""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nosuch0")
    assert Door(1).address == ""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo,nosuch0")
    door = Door(1)
    assert door.address.startswith("127.0.0.1:")
    door.close()
    assert door.address == ""


def test_a_rank_whose_door_refuses_is_dead(hearts: list[Heartbeat]) -> None:
    stop_beating(hearts[3])
    hearts[3]._door.close()
    assert verdicts(hearts, WELL) == {Verdict((3,), "died")}


def test_a_rank_that_can_be_reached_but_is_silent_has_stalled(hearts: list[Heartbeat]) -> None:
    stop_beating(hearts[3])
    assert verdicts(hearts, WELL) == {Verdict((3,), "stalled")}


def test_a_rank_that_nobody_reaches_is_cut_off_even_if_it_complains(hearts: list[Heartbeat], store: HashStore) -> None:
    store.set("interlock/1/door3", NOWHERE)
    waits = {rank: [1] for rank in range(NUM_RANKS)}  # a false trail
    assert verdicts(hearts, (*WELL, 3), waits) == {Verdict((3,), "cannot be reached")}


def test_ranks_that_left_or_gave_up_first_are_not_blamed(hearts: list[Heartbeat], store: HashStore) -> None:
    hearts[1].close()
    store.set("interlock/1/waits2", "[3]")
    stop_beating(hearts[2])
    hearts[2]._door.close()
    stop_beating(hearts[3])
    assert verdicts(hearts, (0,)) == {Verdict((3,), "stalled")}


def test_where_everyone_is_well_the_most_missed_is_named(hearts: list[Heartbeat]) -> None:
    waits = {0: [3], 1: [3, 2], 2: [3], 3: []}
    assert verdicts(hearts, (*WELL, 3), waits) == {Verdict((3,), "kept others waiting")}


def test_who_asks_later_gets_the_same_verdict(hearts: list[Heartbeat], store: HashStore) -> None:
    store.set("interlock/1/verdict", json.dumps([[2], "died"]))
    assert verdicts(hearts, (0,)) == {Verdict((2,), "died")}
