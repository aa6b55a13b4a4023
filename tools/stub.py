"""Regenerate the committed stub of the native core: python tools/stub.py [--check]."""

from __future__ import annotations

import sys
from pathlib import Path

from nanobind.stubgen import StubGen

import interlock._native._core as core

STUB = Path(__file__).parent.parent / "src" / "interlock" / "_native" / "_core.pyi"


def generated() -> str:
    """The stub of the module as built."""
    stub = StubGen(core)
    stub.put(core)
    return str(stub.get())


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if STUB.read_text() == generated() else f"{STUB} is out of date; run tools/stub.py")
    STUB.write_text(generated())
