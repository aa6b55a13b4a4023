"""`interlock doctor`: what is installed, what works here."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import sys
from typing import Annotated

import typer

from interlock.cli.options import JsonOption
from interlock.cli.show import print_json, print_table

__all__ = ["command", "version_line"]

_OPTIONAL = {
    "torch": "running plans (extra: torch)",
    "highspy": "exact bounds (extra: lp)",
    "distributed": "sweeps on a cluster (extra: sweep)",
    "pyarrow": "parquet traces (extra: traces)",
}


def command(
    gpu: Annotated[bool, typer.Option("--gpu", help="Look at the GPU too, and run a plan on it.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Say what is installed and what works here.

    Examples:

      interlock doctor

      interlock doctor --gpu
    """
    checks = [_core(), *(_optional(name, use) for name, use in _OPTIONAL.items()), _lab()]
    if gpu:
        from interlock.gpu.doctor import findings

        checks += [{"name": name, "works": works, "detail": detail} for name, works, detail in findings()]
    if as_json:
        print_json({"version": version_line(), "checks": checks})
    else:
        rows = [[str(c["name"]), "yes" if c["works"] else "no", str(c["detail"])] for c in checks]
        print_table(version_line(), ["what", "works", "detail"], rows, wrap=("detail",))
    return 0 if checks[0]["works"] else 1


def version_line() -> str:
    """Version and build facts in one line."""
    from interlock._native import _core

    version = importlib.metadata.version("interlock")
    numpy = importlib.metadata.version("numpy")
    made = f"core by {_core.build_facts()}; Python {platform.python_version()}, NumPy {numpy}, {platform.machine()}"
    return f"interlock {version} ({made})"


def _core() -> dict[str, object]:
    import numpy as np

    from interlock._native import _core

    first = _core.digest64(np.arange(8, dtype=np.uint8), 0)
    again = _core.digest64(np.arange(8, dtype=np.uint8), 0)
    return {"name": "native core", "works": first == again, "detail": str(_core.__name__)}


def _optional(name: str, use: str) -> dict[str, object]:
    try:
        importlib.import_module(name)
    except ImportError:
        return {"name": name, "works": False, "detail": f"not installed; needed for {use}"}
    return {"name": name, "works": True, "detail": f"{importlib.metadata.version(name)}; {use}"}


def _lab() -> dict[str, object]:
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if missing:
        return {"name": "lab", "works": False, "detail": f"needs {' and '.join(missing)} (iproute2)"}
    if sys.platform != "linux" or os.geteuid() != 0:
        return {"name": "lab", "works": False, "detail": "needs Linux and root for network namespaces"}
    return {"name": "lab", "works": True, "detail": "network namespaces"}
