"""Flags of a rank and what they mean, and the columns of a program as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Columns", "Flags", "Ints", "ints"]

Columns = Mapping[str, NDArray[np.generic]]
Ints = NDArray[np.int64]


def ints(column: NDArray[np.generic]) -> Ints:
    """A column as 64-bit numbers."""
    return np.asarray(column).astype(np.int64)


@dataclass(frozen=True)
class Flags:
    """Where the flags of one rank stand: a group for each kind of event, one after the other."""

    num_sends: int
    num_receives: int
    num_barriers: int
    num_ranks: int
    ready: ClassVar[int] = 0
    """First of the peers' flags, by rank: a peer has begun this launch, so its memory may be written."""

    @property
    def arrived(self) -> int:
        """First of the receives' flags: the bytes of a message have landed."""
        return self.num_ranks

    @property
    def placed(self) -> int:
        """First of the receives' flags: what landed is where it belongs."""
        return self.arrived + self.num_receives

    @property
    def sent(self) -> int:
        """First of the sends' flags: the bytes have been read and put."""
        return self.placed + self.num_receives

    @property
    def packed(self) -> int:
        """First of the sends' flags: the bytes lie in one run."""
        return self.sent + self.num_sends

    @property
    def passed(self) -> int:
        """First of the barriers' flags."""
        return self.packed + self.num_sends

    @property
    def started(self) -> int:
        """The flag of the accumulators: each has its first value."""
        return self.passed + self.num_barriers

    def __len__(self) -> int:
        return self.started + 1

    def describe(self, flag: int, columns: Columns) -> str:
        """A flag in words."""
        for first, count, words in (
            (self.ready, self.num_ranks, "rank {0} to begin this launch"),
            (self.started, 1, "its accumulators to be filled"),
            (self.passed, self.num_barriers, "barrier {0}"),
            (self.packed, self.num_sends, "message {tag} to rank {peer} to be packed"),
            (self.sent, self.num_sends, "message {tag} to rank {peer} to be sent"),
            (self.placed, self.num_receives, "message {tag} from rank {peer} to be put in place"),
            (self.arrived, self.num_receives, "message {tag} from rank {peer} to arrive"),
        ):
            if first <= flag < first + count:
                place, end = flag - first, "send" if first in (self.packed, self.sent) else "receive"
                known = {name: columns[f"{end}_{name}"][place] for name in ("tag", "peer") if "{tag}" in words}
                return words.format(place, **known)
        return f"flag {flag}, which does not exist"
