"""The compiled core: arrays in, read-only arrays out. Every function is documented in `_core.pyi`."""

from interlock._native import _core

__all__ = ["_core"]
