"""Tensors as bytes: their memory, rows and splits, and whether they fit a demand that is held."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from interlock.errors import InvalidInput
from interlock.runtime.session import Prepared

__all__ = ["Direct", "Splits", "check_held", "flat", "row_bytes", "split_bytes"]


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


@dataclass(frozen=True, slots=True, eq=False)
class Direct:
    """A held demand that the backend's own call moves, in rows."""

    held: Prepared
    output_rows: list[int]
    input_rows: list[int]
    row_bytes: int
    device: torch.device

    def fits(self, output: torch.Tensor, source: torch.Tensor) -> bool:
        """Whether the tensors can be given to the backend as they are."""
        return (
            output.dtype == source.dtype
            and not source.is_complex()
            and self._fits(output, sum(self.output_rows))
            and self._fits(source, sum(self.input_rows))
        )

    def _fits(self, tensor: torch.Tensor, rows: int) -> bool:
        return (
            tensor.dim() > 0
            and tensor.shape[0] == rows
            and tensor.numel() * tensor.element_size() == rows * self.row_bytes
            and tensor.device == self.device
            and tensor.is_contiguous()
        )


def check_held(held: Prepared, output: torch.Tensor, source: torch.Tensor) -> None:
    """Raise unless the tensors have as many bytes as the held demand moves."""
    for tensor, wanted, name in ((source, sum(held.sends), "input"), (output, sum(held.receives), "output")):
        size_bytes = tensor.numel() * tensor.element_size()
        if size_bytes != wanted:
            raise InvalidInput(f"{name} has {size_bytes} bytes but the held demand moves {wanted}")
