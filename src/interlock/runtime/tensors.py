"""Tensors as bytes: their memory, the size of their rows, and splits of rows as bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from interlock.errors import InvalidInput

__all__ = ["Splits", "flat", "row_bytes", "split_bytes"]

Splits = Sequence[int] | None


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bytes in order; its own memory where it is contiguous."""
    whole = tensor.contiguous().reshape(-1)
    # A single element counts as contiguous whatever its stride, as in the gradient of a sum, but cannot be viewed so.
    return whole.as_strided(whole.shape, (1,)).view(torch.uint8)


def row_bytes(tensor: torch.Tensor) -> int:
    """Bytes of one row."""
    if tensor.dim() == 0:
        raise InvalidInput("a tensor without dimensions cannot be split over ranks")
    return math.prod(tensor.shape[1:]) * tensor.element_size()


def split_bytes(tensor: torch.Tensor, splits: Splits, num_ranks: int, name: str) -> tuple[list[int], str]:
    """Bytes for each rank, and what is wrong with the splits ("" where nothing is)."""
    if tensor.dim() == 0:
        return [], f"{name} has no dimensions; it cannot be split over {num_ranks} ranks"
    rows, each = tensor.shape[0], row_bytes(tensor)
    if splits is None:
        if rows % num_ranks:
            return [], f"{name} has {rows} rows, which do not divide evenly over {num_ranks} ranks; give split sizes"
        return [rows // num_ranks * each] * num_ranks, ""
    if len(splits) != num_ranks or min(splits, default=0) < 0:
        return [], f"{name}_split_sizes must hold {num_ranks} sizes of at least 0, not {list(splits)[:20]}"
    if sum(splits) != rows:
        return [], f"{name}_split_sizes add up to {sum(splits)} but {name} has {rows} rows"
    return [size * each for size in splits], ""
