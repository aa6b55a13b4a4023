"""Held demands: what tensors must be like, and how the backend's own call takes them as they are."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from interlock.errors import InvalidInput
from interlock.runtime.session import Prepared

__all__ = ["Direct", "check_held"]


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
