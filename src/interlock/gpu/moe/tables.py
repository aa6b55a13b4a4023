"""Routing as the kernel of the experts reads it: rows sorted by expert, tiles of rows, and what sums to what."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

__all__ = [
    "CHANNELS_DOWN",
    "CHANNELS_UP",
    "DOWN",
    "GATE_UP",
    "SUM",
    "TILE_GRAIN",
    "TILE_TOKENS",
    "Tables",
    "make_tables",
    "product_items",
    "sum_items",
    "tile_groups",
]

TILE_TOKENS = 320  # most of a tile
FULL_TOKENS = 256  # of a tile where there are many: 2 % faster than with 320, which leave a shorter last one
TILE_GRAIN = 32  # of a tile's tokens: 16 of each of the two blocks that share it
GATE_UP, DOWN, SUM, NOTHING = 0, 1, 2, 3  # kinds of items
CHANNELS_UP, CHANNELS_DOWN = 128, 256  # of a tile of gate and up, of down
SUM_TOKENS = 32  # of a sum item


@dataclass(frozen=True, slots=True)
class Tables:
    """All int32 and on the device, unless said otherwise; a row is one token at one expert, sorted by expert."""

    token_of: torch.Tensor  # [rows] row of x
    row_ends: torch.Tensor  # [groups] end of each expert's rows
    out_first: torch.Tensor  # [outputs + 1] into out_row
    out_row: torch.Tensor  # rows that sum to each output, in order; -1 is none
    out_weight: torch.Tensor  # float32, as out_row
    row_output: torch.Tensor  # [rows] output that a row is added to
    row_weight: torch.Tensor  # [rows] float32
    items: torch.Tensor  # [items, 8] kind, column, row, end, tile, chunk, expert, 0: as the kernel walks them
    finished_of: torch.Tensor  # [chunks] items of down
    counters: torch.Tensor  # [1 + 3 * chunks + tiles], zero before a launch

    def without_sums(self) -> Tables:
        """The same list, for sums by atomics."""
        return replace(self, items=self.items[self.items[:, 0] != SUM].contiguous())


def make_tables(
    topk_idx: torch.Tensor, topk_weights: torch.Tensor, num_experts: int, hidden: int, inner: int
) -> Tables:
    """Tables of a whole layer, made on the device without waiting for it.

    Parameters
    ----------
    topk_idx, topk_weights
        Experts of each token and their weights, ``[tokens, k]``; index -1 is no expert.
    """
    num_tokens, k = topk_idx.shape
    device, num_rows = topk_idx.device, num_tokens * k
    flat = topk_idx.reshape(-1).to(torch.int32)
    expert_of, order = torch.sort(torch.where(flat < 0, num_experts, flat), stable=True)
    experts = torch.arange(num_experts, device=device, dtype=torch.int32)
    row_ends = torch.searchsorted(expert_of, experts, right=True).to(torch.int32)
    out_row = torch.empty(num_rows, dtype=torch.int32, device=device)
    out_row[order] = torch.arange(num_rows, dtype=torch.int32, device=device)
    out_row = torch.where(flat < 0, -1, out_row)
    weights = topk_weights.reshape(-1).float()
    tiles = tile_groups(row_ends, num_rows)
    num_tiles = tiles.group_first[-1:]
    columns_up, columns_down = -(-inner // CHANNELS_UP), -(-hidden // CHANNELS_DOWN)
    items = [product_items(GATE_UP, columns_up, tiles), product_items(DOWN, columns_down, tiles)]
    items[0][:, 5] = -1  # nothing to wait for
    items.append(sum_items(0, num_tokens, 0, device))
    token_of = (order // k).to(torch.int32) if k else order.to(torch.int32)
    return Tables(
        token_of=token_of,
        row_ends=row_ends,
        out_first=torch.arange(num_tokens + 1, dtype=torch.int32, device=device) * k,
        out_row=out_row,
        out_weight=weights,
        row_output=token_of,
        row_weight=weights[order],
        items=torch.cat(items),
        finished_of=num_tiles * columns_down,
        counters=torch.zeros(4 + len(tiles.row), dtype=torch.int32, device=device),
    )


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles of rows, sorted by group; there may be more places than tiles."""

    row: torch.Tensor  # [most] first row
    end: torch.Tensor  # [most] end of its rows
    group: torch.Tensor  # [most] expert
    group_first: torch.Tensor  # [groups + 1] first tile


def product_items(kind: int, columns: int, tiles: Tiles) -> torch.Tensor:
    """Items of a product over all tiles: an expert after the other, column by column, so that tiles share weights."""
    index = torch.arange(len(tiles.row) * columns, device=tiles.row.device, dtype=torch.int32)
    group = tiles.group[index // columns]
    first = tiles.group_first[group]
    alike = (tiles.group_first[group + 1] - first).clamp(min=1)
    within = index - first * columns
    tile = (first + within % alike).clamp(max=len(tiles.row) - 1)
    is_tile = index < tiles.group_first[-1] * columns
    zero = torch.zeros_like(index)
    kinds = torch.where(is_tile, kind, NOTHING).to(torch.int32)
    return torch.stack([kinds, within // alike, tiles.row[tile], tiles.end[tile], tile, zero, group, zero], 1)


def sum_items(first: int, end: int, chunk: int, device: torch.device) -> torch.Tensor:
    """Items that sum the outputs from `first` to `end`."""
    row = torch.arange(first, end, SUM_TOKENS, device=device, dtype=torch.int32)
    zero = torch.zeros_like(row)
    return torch.stack([zero + SUM, zero, row, (row + SUM_TOKENS).clamp(max=end), zero, zero + chunk, zero, zero], 1)


def tile_groups(row_ends: torch.Tensor, most_rows: int) -> Tiles:
    """Tiles of groups with at most so many rows together.

    Those of a group have `FULL_TOKENS`, but for the last two, which share what is left; or one, where it holds that.
    """
    starts = torch.cat([row_ends.new_zeros(1), row_ends[:-1]])
    counts = row_ends - starts
    full = -((2 * TILE_TOKENS - counts) // FULL_TOKENS).clamp(max=0)
    left = counts - full * FULL_TOKENS
    half = torch.where(left <= TILE_TOKENS, left, -(-left // (2 * TILE_GRAIN)) * TILE_GRAIN)
    tiles = full + (left + TILE_TOKENS - 1) // TILE_TOKENS
    last = torch.cumsum(tiles, 0).to(torch.int32)
    most = most_rows // FULL_TOKENS + len(row_ends)
    index = torch.arange(most, device=row_ends.device, dtype=torch.int32)
    group = torch.searchsorted(last, index, right=True).clamp_(max=len(row_ends) - 1).to(torch.int32)
    place = index - (last - tiles)[group]
    row = starts[group] + torch.minimum(place, full[group]) * FULL_TOKENS + (place > full[group]) * half[group]
    end = torch.minimum(row + torch.where(place < full[group], FULL_TOKENS, half[group]), row_ends[group])
    return Tiles(row.to(torch.int32), end.to(torch.int32), group, torch.cat([last.new_zeros(1), last]))
