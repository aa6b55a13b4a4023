"""How much one way may try, counted in transfers scheduled so that it is the same on every machine; and when to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from interlock.errors import InvalidInput

__all__ = ["SearchBound", "Budget", "check_counts", "in_order"]

Made = TypeVar("Made")

AT_THE_BOUND = 1.003  # of the least time any schedule could take: there is nothing left to gain
FAIR = 1.055  # of the proven bound: not worth more than a fair effort
FAIR_EFFORT = 60_000  # transfers scheduled: a few hundredths of a second
WORTH_A_THREAD = 10_000  # transfers: some milliseconds, below which a thread does not pay
MOST = {"parts": 2**20, "starts": 2**20, "threads": 1024}  # that may be asked for


def check_counts(**given: int | None) -> None:
    """Raise unless each of some parameters is None or a whole number within its limit."""
    for name, value in given.items():
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (is_whole and 1 <= value <= MOST[name]):
            raise InvalidInput(f"{name}={str(value)[:64]} must be a whole number between 1 and {MOST[name]}")


@dataclass(slots=True)
class SearchBound:
    """What no schedule can be faster than: a quick estimate, and a proof that is asked for only where it may help."""

    quick_s: float
    prove: Callable[[], float] | None = None
    _proven_s: float | None = None

    def proven_s(self) -> float:
        """The better of both."""
        if self._proven_s is None:
            self._proven_s = max(self.quick_s, 0.0 if self.prove is None else self.prove())
        return self._proven_s


@dataclass(slots=True)
class Budget:
    """What one way may spend, what it has spent, and whether the search it is part of can end."""

    limit: int  # transfers; 0: no more than the first schedule, whatever it takes
    bound: SearchBound
    best_s: float = float("inf")  # of all schedules so far, those of other ways too
    unseen_s: float = 0.0  # that a way's own times may lack, where its schedules are measured: opening a stage
    spent_before: int = 0  # by other ways
    spent: int = 0
    seed: int = 0
    threads: int = 1
    table_file: Path | None = None  # for a table too large for memory
    report: Callable[[float], None] = field(default=lambda share: None)

    def spend(self, transfers: int) -> None:
        """Count some work, and say how far we are."""
        self.spent += transfers
        whole = self.spent_before + max(1, self.limit)
        self.report(min(1.0, (self.spent_before + self.spent) / whole))

    def affords(self, transfers: int) -> bool:
        """Whether some more work is within the limit."""
        return self.spent + transfers <= self.limit

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.spent >= self.limit

    def is_enough(self, makespan_s: float) -> bool:
        """Whether the search can end with what it has, now that there is a schedule that takes so long: at the bound,
        or near it after a fair effort."""
        self.best_s = min(self.best_s, makespan_s)
        if self.is_at_the_bound:
            return True
        is_fair_effort = self.spent_before + self.spent >= FAIR_EFFORT
        return is_fair_effort and self.best_s <= FAIR * self.bound.proven_s()

    @property
    def is_at_the_bound(self) -> bool:
        """Whether there is nothing left to gain."""
        return self.best_s <= AT_THE_BOUND * self.bound.quick_s

    @property
    def why_enough(self) -> str:
        """Where it is enough, in words."""
        return "at the bound" if self.is_at_the_bound else "near the bound after a fair effort"

    def is_over(self, makespan_s: float) -> bool:
        """Whether a way with a schedule that takes so long by its own account should try no more: it is enough, or all
        is spent."""
        return self.is_enough(makespan_s + self.unseen_s) or self.is_spent

    def each(self, attempts: Sequence[Callable[[], Made]], transfers: int) -> Iterator[Made]:
        """What several attempts give, in their order whatever the threads; on one thread if they are soon done."""
        return in_order(attempts, self.threads if transfers >= WORTH_A_THREAD else 1)


def in_order(attempts: Sequence[Callable[[], Made]], threads: int) -> Iterator[Made]:
    """What some attempts give, in their order; on several threads where the kernels leave the interpreter alone."""
    if threads == 1 or len(attempts) == 1:
        yield from (attempt() for attempt in attempts)
        return
    from concurrent.futures import ThreadPoolExecutor  # slow to import, and not always used

    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(lambda attempt: attempt(), attempts)
