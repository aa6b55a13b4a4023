"""Algebraic to layout: where a token's row lies in the compact buffer of an expert, allocated on first touch."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from interlock.errors import InterlockError, InvalidInput

__all__ = ["AddressTable", "TableFull"]

VALID = np.uint32(1 << 31)  # 1 valid bit and a 31-bit index in 4 bytes
TLB_ENTRIES = 512


class TableFull(InterlockError):
    """An expert's buffer has no row left; nothing is dropped or overwritten."""


class AddressTable:
    """One GPU's AL table: a sub-table per local expert, and a TLB in front of it."""

    def __init__(self, num_experts: int, num_tokens: int, rows_per_expert: int, tlb_entries: int = TLB_ENTRIES) -> None:
        if min(num_experts, num_tokens, rows_per_expert, tlb_entries) < 1:
            raise InvalidInput("a table needs at least one expert, token, row and TLB entry")
        self._entries = np.zeros((num_experts, num_tokens), np.uint32)
        self._used = np.zeros(num_experts, np.int64)
        self._rows_per_expert = rows_per_expert
        self._tlb: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._tlb_entries = tlb_entries
        self.hits = 0
        self.misses = 0

    def touch(self, expert: int, token: int) -> int:
        """Layout row of a token at a local expert; dispatch allocates the next one on first touch."""
        cached = self._cached(expert, token)
        if cached is not None:
            return cached
        entry = self._entries[expert, token]
        if not entry & VALID:
            row = int(self._used[expert])
            if row >= self._rows_per_expert:
                raise TableFull(f"expert {expert} has no row left for token {token}: all {row} are taken")
            self._used[expert] += 1
            entry = VALID | np.uint32(row)
            self._entries[expert, token] = entry
        return self._remember(expert, token, int(entry & ~VALID))

    def find(self, expert: int, token: int) -> int:
        """Layout row that dispatch allocated; combine reuses it."""
        cached = self._cached(expert, token)
        if cached is not None:
            return cached
        entry = self._entries[expert, token]
        if not entry & VALID:
            raise InvalidInput(f"token {token} was never dispatched to local expert {expert}")
        return self._remember(expert, token, int(entry & ~VALID))

    def rows(self, expert: int) -> int:
        """Rows allocated so far."""
        return int(self._used[expert])

    def _cached(self, expert: int, token: int) -> int | None:
        row = self._tlb.get((expert, token))
        if row is None:
            self.misses += 1
            return None
        self.hits += 1
        self._tlb.move_to_end((expert, token))
        return row

    def _remember(self, expert: int, token: int, row: int) -> int:
        self._tlb[expert, token] = row
        if len(self._tlb) > self._tlb_entries:
            self._tlb.popitem(last=False)
        return row
