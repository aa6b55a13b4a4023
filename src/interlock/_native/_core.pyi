"""Interlock's native kernels: arrays in, read-only arrays out."""

from typing import Annotated

import numpy
from numpy.typing import NDArray


def digest64(bytes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int) -> int:
    """64-bit digest of bytes, equal on every machine; not cryptographic."""
