"""Names the rank that died, stalled or was cut off: beats in the group's store, knocks at doors, one verdict for all.

gloo reports that a connection closed or that time ran out, not whose fault it was, and a rank that gives up closes its
connections and looks just as dead to the others. So every rank that gives up says so in the store and knocks at
everybody's door. Whoever beats or complains is alive; whose door refuses is dead; whose door cannot be reached is cut
off; who closed in good order, but before an action that others are in, left them alone; who had not come to it when
the first gave up was late, even if it has come and complains itself by now. The first to know writes the verdict, which
everyone else adopts, and leaves it at every door: the store may go with the rank that hosts it, and the verdict must
outlive the one that made it.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from interlock.runtime.doors import Door, Unreached, knock
from interlock.runtime.keeper import Keeper

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch._C._distributed_c10d import Store

__all__ = ["DIED", "Heartbeat", "Verdict"]

INTERVAL_S = 0.5
KNOCK_S = 2.0  # for a door to answer; a lost packet is sent again after one second
DIED = "died: the process is gone"  # its door refuses
SILENCE_S = 3.0  # without a beat or a complaint for so long a rank counts as stalled
STRANGERS = 256  # whose connections may wait at a door beside those of ranks
WORD_S = 1.0  # for a verdict that another rank is just about to leave at the door, where the store is gone


@dataclass(frozen=True, slots=True)
class Verdict:
    """Ranks to blame, and what is the matter with them."""

    ranks: tuple[int, ...]
    words: str

    def to_json(self) -> str:
        """For the store."""
        return json.dumps([self.ranks, self.words])

    @classmethod
    def from_json(cls, text: bytes) -> Verdict:
        """From the store."""
        ranks, words = json.loads(text)
        return cls(tuple(ranks), words)


@dataclass(slots=True)
class _Evidence:
    """What is known so far."""

    beats: list[int]
    alive: set[int]
    gone: dict[int, int] = field(default_factory=dict)  # closed in good order, after so many actions
    waits: dict[int, list[int]] = field(default_factory=dict)  # ranks that each complaining rank waited for
    done: int = 0  # actions that the furthest of those that complain has behind it
    absent: set[int] = field(default_factory=set)  # from the action, when the first rank complained
    reach: dict[int, Unreached] = field(default_factory=dict)

    def dead(self) -> set[int]:
        """Ranks whose door refuses though they neither left nor complained."""
        refused = {rank for reach in self.reach.values() for rank in reach.refused}
        return refused - set(self.gone) - set(self.waits)

    def left_early(self) -> set[int]:
        """Ranks that closed before the action in which others wait."""
        return {rank for rank, done in self.gone.items() if done <= self.done} - set(self.waits)

    def is_complete(self, num_ranks: int) -> bool:
        """Whether nothing more can be learned."""
        dead = self.dead()
        known = self.alive | set(self.gone) | dead
        return len(known) == num_ranks and self.alive - set(self.gone) - dead <= set(self.reach)


class Heartbeat:
    """Beats of one process group's ranks. `name`, equal on all ranks, tells apart what runs over the same group.

    `done` counts what this rank did together with all others, which they count alike; `enter` begins the next.
    """

    def __init__(self, group: dist.ProcessGroup, name: str) -> None:
        from torch.distributed import PrefixStore  # type: ignore[attr-defined]

        store = group.get_group_store().clone()  # type: ignore[attr-defined]
        store.set_timeout(timedelta(seconds=SILENCE_S))
        store = PrefixStore(f"interlock/{name}", store)
        self._rank, self._num_ranks = group.rank(), group.size()
        self._others = [rank for rank in range(self._num_ranks) if rank != self._rank]
        self.done = 0
        self._begun, self._told_begun, self._since_s = 0, 0, time.monotonic()
        # Only who can read the store can leave word at a door.
        self._token: bytes = store.compare_set("token", "", secrets.token_hex(16))
        self._door = Door(self._num_ranks + STRANGERS, self._token)
        self._known_doors: dict[int, str] = {}
        self._knows_all = False
        self._verdict: Verdict | None = None
        store.set(f"door{self._rank}", self._door.address)
        self._store = Keeper(store, self._beat, INTERVAL_S, SILENCE_S, "interlock-heartbeat")
        atexit.register(self._rest)

    def enter(self) -> None:
        """This rank begins what it will do together with all others; they learn of it with the next beat."""
        self._begun, self._since_s = self.done + 1, time.monotonic()

    def _rest(self) -> None:
        """End the thread. The interpreter would end it inside of the store, where that takes the process down."""
        self._store.stop(2 * SILENCE_S)

    def close(self) -> None:
        """Stop beating; the others will not take that for a death."""
        with suppress(RuntimeError):
            self._store.set(f"left{self._rank}", str(self.done))
        self._rest()
        atexit.unregister(self._rest)
        self._door.close()

    def find_dead(self) -> tuple[int, ...]:
        """Ranks whose doors refuse though they have not left: they died. Takes `KNOCK_S` at most, `SILENCE_S` more
        where the store does not answer."""
        try:
            doors = self._doors()
        except RuntimeError:  # the store is gone, perhaps with the rank that hosts it
            doors = self._known_doors
        refused = knock(doors, KNOCK_S).refused
        if not refused:
            return ()
        with suppress(RuntimeError):
            refused = tuple(rank for rank in refused if not self._store.check(f"left{rank}"))
        return refused

    def find_guilty(self, waiting_on: Iterable[int]) -> Verdict:
        """Who is to blame that messages do not come; every rank that asks gets the same answer, now and later.

        Takes `SILENCE_S` at most, and some knocks more where the store is gone. `waiting_on` are the ranks whose
        messages did not come.
        """
        if self._verdict is None:
            try:
                self._verdict = self._told() or self._agree(sorted(set(waiting_on)))
            except RuntimeError:
                self._verdict = self._judge_alone()
        return self._verdict

    def _told(self) -> Verdict | None:
        """The verdict that another rank left at the door."""
        for word in self._door.words:
            with suppress(ValueError):  # its rank died before the end
                return Verdict.from_json(word)
        return None

    def _tell(self, verdict: Verdict, doors: dict[int, str]) -> None:
        """Leave the verdict at every door."""
        knock(doors, KNOCK_S, self._token + verdict.to_json().encode())

    def _agree(self, waiting_on: list[int]) -> Verdict:
        deadline_s = time.monotonic() + SILENCE_S
        # Complaining proves this rank alive, so it comes first.
        self._store.set(f"waits{self._rank}", json.dumps([self.done, waiting_on]))
        evidence = _Evidence(self._read_beats(range(self._num_ranks)), {self._rank}, absent=self._find_absent())
        doors = self._doors()
        reach = knock(doors, KNOCK_S)
        self._store.set(f"reach{self._rank}", json.dumps([reach.refused, reach.unreachable]))
        while True:
            if self._store.check("verdict"):
                return Verdict.from_json(self._store.get("verdict"))
            self._gather(evidence)
            if evidence.is_complete(self._num_ranks) or time.monotonic() > deadline_s:
                found = Verdict.from_json(self._store.compare_set("verdict", self._judge(evidence).to_json()))
                self._tell(found, {rank: door for rank, door in doors.items() if rank not in reach.unreachable})
                return found
            if (told := self._told()) is not None:
                return told
            time.sleep(INTERVAL_S / 5)

    def _find_absent(self) -> set[int]:
        """Ranks that have not come to this action, as the first to complain found; it may be too early to tell."""
        is_early = time.monotonic() - self._since_s < 2 * INTERVAL_S
        absent = [] if is_early else [rank for rank in self._others if self._store.add(f"begun{rank}", 0) <= self.done]
        return set(json.loads(self._store.compare_set("absent", json.dumps(absent))))

    def _gather(self, evidence: _Evidence) -> None:
        """Ask the store about ranks of which not all is known."""
        ranks = range(self._num_ranks)
        for rank in ranks:
            if rank not in evidence.gone and self._store.check(f"left{rank}"):
                evidence.gone[rank] = int(self._store.get(f"left{rank}"))
            if rank not in evidence.waits and self._store.check(f"waits{rank}"):
                done, evidence.waits[rank] = json.loads(self._store.get(f"waits{rank}"))
                evidence.done = max(evidence.done, done)
            if rank not in evidence.reach and self._store.check(f"reach{rank}"):
                evidence.reach[rank] = Unreached(*json.loads(self._store.get(f"reach{rank}")))
        evidence.alive |= set(evidence.waits)
        unknown = [rank for rank in ranks if rank not in evidence.alive]
        beats = self._read_beats(unknown)
        evidence.alive |= {rank for rank, beat in zip(unknown, beats, strict=True) if beat > evidence.beats[rank]}

    def _judge(self, evidence: _Evidence) -> Verdict:
        """The surest evidence wins."""
        dead = evidence.dead()
        silent = set(range(self._num_ranks)) - evidence.alive - set(evidence.gone) - dead
        if dead:
            gone = ", ".join(f"rank {rank}" for rank in sorted(dead))
            return Verdict(tuple(sorted(dead | silent)), f"died or stalled: {gone} is gone" if silent else DIED)
        apart = {frozenset((rank, other)) for rank, reach in evidence.reach.items() for other in reach.unreachable}
        cut_off = _most(Counter(rank for pair in apart for rank in pair))
        if silent:
            return Verdict(tuple(sorted(silent)), "cannot be reached" if silent <= set(cut_off) else "stalled")
        if cut_off:
            return Verdict(cut_off, "cannot be reached")
        if left := evidence.left_early():
            return Verdict(tuple(sorted(left)), "left before the others were through")
        # Everyone is well, but not everyone complains: whoever does not has not come to the call.
        late = evidence.alive - set(evidence.gone) - set(evidence.waits) or evidence.absent
        if late:
            return Verdict(tuple(sorted(late)), "kept others waiting")
        # Everyone is well by now: a link was cut for a while. Its rank waited for many, and many waited for it.
        missed: Counter[int] = Counter()
        for rank, peers in evidence.waits.items():
            missed[rank] += len(peers)
            missed.update(peers)
        return Verdict(_most(missed), "kept others waiting")

    def _judge_alone(self) -> Verdict:
        """The store is out of reach. Unless a launcher hosts it, rank 0 does."""
        deadline_s = time.monotonic() + WORD_S
        while (told := self._told()) is None and time.monotonic() < deadline_s:
            time.sleep(INTERVAL_S / 10)
        if told is not None:
            return told
        reach = knock(self._known_doors, KNOCK_S)
        if (told := self._told()) is not None:  # from a rank that is gone since: its door refused
            return told
        if reach.refused:
            made = Verdict(reach.refused, DIED)
        elif os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            made = Verdict((), "took the store along")
        else:
            made = Verdict((0,), "stalled or cannot be reached, and with it the store it hosts")
        self._tell(made, {r: door for r, door in self._known_doors.items() if r not in reach.unreachable})
        return made

    def _doors(self) -> dict[int, str]:
        """Addresses of the others' doors, as far as they have any."""
        told = {rank: self._store.get(f"door{rank}") for rank in self._others if self._store.check(f"door{rank}")}
        return self._learn_doors(told)

    def _learn_doors(self, addresses: dict[int, bytes]) -> dict[int, str]:
        self._known_doors = {rank: address.decode() for rank, address in addresses.items() if address}
        return self._known_doors

    def _read_beats(self, ranks: Iterable[int]) -> list[int]:
        return [self._store.add(f"beat{rank}", 0) for rank in ranks]

    def _beat(self, store: Store) -> None:
        store.add(f"beat{self._rank}", 1)
        if (begun := self._begun) > self._told_begun:
            store.add(f"begun{self._rank}", begun - self._told_begun)
            self._told_begun = begun
        # Addresses are learned while there is a store to learn them from.
        if not self._knows_all and all(store.check([f"door{rank}"]) for rank in self._others):
            self._learn_doors({rank: store.get(f"door{rank}") for rank in self._others})
            self._knows_all = True


def _most(counts: Counter[int]) -> tuple[int, ...]:
    """The ranks that were counted most often."""
    most = max(counts.values(), default=0)
    return tuple(sorted(rank for rank, count in counts.items() if count == most > 0))
