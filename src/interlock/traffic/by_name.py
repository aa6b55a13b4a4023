"""Traffic by name or file, as the command line writes it: ``zipf:0.8``, ``moe``, ``matrix.txt``."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from interlock.errors import InvalidInput, named
from interlock.traffic import generators
from interlock.traffic.demand import Demand, HasRanks
from interlock.traffic.moe_router import PROFILES, moe
from interlock.traffic.readers import read_demand
from interlock.units import Quantity, parse_bytes

__all__ = ["is_file", "kinds", "parse"]

_SUFFIXES = (".txt", ".csv", ".npz", ".tsv", ".mat")

# Kind -> (name of the number after the colon, generator).
_KINDS: dict[str, tuple[str | None, Callable[..., Demand]]] = {
    "uniform": (None, generators.uniform),
    "balanced": (None, generators.uniform),
    "random": (None, generators.random),
    "zipf": ("skew", generators.zipf),
    "hot": ("skew", generators.hot_expert),
    "lognormal": ("sigma", generators.lognormal),
    "sparse": ("density", generators.sparse),
    "moe": ("skew", moe),
}


def kinds() -> list[str]:
    """Names that `parse` accepts before the colon."""
    return list(_KINDS)


def parse(text: str, cluster: HasRanks, size: Quantity = "512 MB", seed: int = 0) -> Demand:
    """Demand from ``KIND[:NUMBER]`` or the path of a matrix (text or npz).

    Parameters
    ----------
    text
        uniform (or balanced), random, zipf:SKEW, hot:SKEW, lognormal:SIGMA, sparse:DENSITY, moe:SKEW or moe:PROFILE
        (like moe:mla), or a file.
    size
        What one GPU sends on average; a file brings its own.

    Examples
    --------
    >>> from interlock.topology import cluster
    >>> parse("zipf:0.8", cluster("h200", servers=1), "1 MB").name
    'zipf:0.8'
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(f"the traffic is empty; write one of {', '.join(_KINDS)}, or a file")
    text = text.strip()
    if is_file(text):
        return read_demand(text)
    kind, colon, number = text.partition(":")
    name, generate = named(_KINDS, kind, "traffic")
    if colon and name is None:
        raise InvalidInput(f"traffic {text[:64]!r}: {kind} takes no number after a colon")
    options: dict[str, object] = {} if kind in ("uniform", "balanced") else {"seed": seed}
    if kind == "moe" and number in PROFILES:
        options["profile"] = number
    elif colon and name is not None:
        options[name] = _number(number, name, text)
    return generate(cluster, bytes_per_gpu=parse_bytes(size, "size"), **options)


def is_file(text: str) -> bool:
    """Whether `parse` would read a file of that name."""
    return "/" in text or text.lower().endswith(_SUFFIXES) or Path(text[:200]).exists()


def _number(number: str, name: str, text: str) -> float:
    try:
        value = float(number[:64])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidInput(f"traffic {text[:64]!r}: {name}={number[:40]!r} must be a number")
    return value
