"""How much is tried: counted in transfers scheduled, so that it is the same on every machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from interlock.algorithms.synthesis.answer import Answer
from interlock.algorithms.synthesis.rounds import RoundsOptions
from interlock.errors import InvalidInput

__all__ = ["Budget", "check_counts", "in_order", "keep_best"]

Made = TypeVar("Made")

GOOD_ENOUGH = 1.003  # of the least time any schedule could take: no point in trying further
WORTH_A_THREAD = 10_000  # transfers
LADDER = tuple(2**k for k in range(13))
MOST = {"parts": 2**20, "starts": 2**20, "threads": 1024}  # that may be asked for


def check_counts(**given: int | None) -> None:
    """Raise unless each of some parameters is None or a whole number within its limit."""
    for name, value in given.items():
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (is_whole and 1 <= value <= MOST[name]):
            raise InvalidInput(f"{name}={str(value)[:64]} must be a whole number between 1 and {MOST[name]}")


@dataclass(slots=True)
class Budget:
    """What may be spent on one answer, and what has been."""

    parts: int | None  # chunks per item; None: ours to choose
    seed: int
    rounds: RoundsOptions
    is_even: bool = False  # whether items must be cut into chunks of equal size
    limit: int = 4_000_000
    fair_after: int = 60_000  # from then on a fair answer will do
    fair: float = 1.055
    spent: int = 0
    report: Callable[[float], None] = field(default=lambda share: None)
    prove: Callable[[], float] | None = None  # a better bound, asked for when much has been spent
    proven_s: float | None = None

    def spend(self, transfers: int) -> None:
        """Count some work, and say how far we are."""
        self.spent += transfers
        self.report(min(1.0, self.spent / max(1, self.limit)))

    def extend(self, transfers: int) -> None:
        """Allow more, unless the search was interrupted."""
        if not self.is_stopped:
            self.limit += transfers

    def stop(self) -> None:
        """Try nothing more once there is an answer."""
        self.limit = 0

    @property
    def is_stopped(self) -> bool:
        """Whether the search was interrupted."""
        return self.limit == 0

    def affords(self, transfers: int) -> bool:
        """Whether some more work is within the limit."""
        return self.spent + transfers <= self.limit

    def is_enough(self, answer: Answer, least_s: float) -> bool:
        """Whether to stop: at the bound, at a fair answer after fair effort, or out of budget."""
        if answer.makespan_s <= GOOD_ENOUGH * least_s or self.spent >= self.limit:
            return True
        return self.spent >= self.fair_after and answer.makespan_s <= self.fair * max(least_s, self._proven_s())

    def _proven_s(self) -> float:
        if self.proven_s is None:
            self.proven_s = 0.0 if self.prove is None else self.prove()
        return self.proven_s

    def ladder(self) -> Sequence[int]:
        """Numbers of chunks per item to try."""
        return LADDER if self.parts is None else (self.parts,)

    def together(self, attempts: Sequence[Callable[[], Made]], transfers: int) -> Iterator[Made]:
        """What several attempts give, in their order whatever the number of threads; of one, if each is soon done."""
        return in_order(attempts, self.rounds.threads if transfers >= WORTH_A_THREAD else 1)


def in_order(attempts: Sequence[Callable[[], Made]], threads: int) -> Iterator[Made]:
    """What some attempts give, in their order; on several threads where the kernels leave the interpreter alone."""
    if threads == 1 or len(attempts) == 1:
        yield from (attempt() for attempt in attempts)
        return
    from concurrent.futures import ThreadPoolExecutor  # slow to import, and not always used

    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(lambda attempt: attempt(), attempts)


def keep_best(answers: Iterable[Answer], budget: Budget, least_s: float) -> Answer:
    """The fastest of some answers, the first of equals; an interruption ends the search and keeps what it has."""
    best: Answer | None = None
    try:
        for answer in answers:
            if best is None or answer.makespan_s < best.makespan_s:
                best = answer
            if budget.is_enough(best, least_s):
                break
    except KeyboardInterrupt:
        if best is None:
            raise
        budget.stop()
    assert best is not None, "some way must give an answer"
    return best
