"""The GPU at hand: whether there is one to run on, and its kernels, compiled at first use and kept on disk."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.errors import InterlockError

if TYPE_CHECKING:
    from cuda.core import ObjectCode

__all__ = ["Missing", "cache_folder", "compile_kernel", "missing", "require_device"]


class Missing(InterlockError):
    """There is no GPU to run on, or something that it needs is not installed."""


def missing() -> str | None:
    """What is missing to run on a GPU, in one sentence; None where nothing is."""
    for name in ("torch", "cuda.core"):
        try:
            import_module(name)
        except ImportError:
            package = "cuda-core" if name == "cuda.core" else name
            return f"{package} is not installed; pip install 'interlock[gpu]' brings it"
    import torch

    if not torch.cuda.is_available():
        return "torch finds no NVIDIA GPU here (torch.cuda.is_available() is False)"
    major, minor = torch.cuda.get_device_capability()
    if major < 8:
        return f"the GPU has compute capability {major}.{minor}; 8.0 (A100) or later is needed"
    return None


def require_device() -> None:
    """Raise unless plans can run on a GPU here."""
    why = missing()
    if why is not None:
        raise Missing(why)


def cache_folder() -> Path:
    """Where compiled kernels are kept: `INTERLOCK_CACHE`, or the user's cache folder."""
    base = os.environ.get("INTERLOCK_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "interlock" / "kernels"


@cache
def compile_kernel(
    name: str, architecture: str, macros: tuple[tuple[str, str], ...] = (), prelude: str = ""
) -> ObjectCode:
    """``kernels/<name>.cu``, after a prelude, compiled with macros for an architecture such as "sm_90"; kept on disk.

    `cache_folder` says where.
    """
    from cuda.core import Program, ProgramOptions
    from cuda.core.utils import FileStreamProgramCache

    source = prelude + files("interlock.gpu").joinpath("kernels", f"{name}.cu").read_text()
    options = ProgramOptions(
        std="c++17",
        arch=architecture,
        define_macro=list(macros) or None,
        name=name,
        device_as_default_execution_space=True,
    )
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with FileStreamProgramCache(folder) as kept:
        return Program(source, "c++", options).compile("cubin", cache=kept)
