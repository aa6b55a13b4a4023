"""Quantities with units, parsed at the edge: "400 Gb/s", "25 us", "512 MB". SI inside.

Prefixes are decimal (GB = 1e9) or binary (GiB = 2^30); `b` is a bit and `B` a byte.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation

from interlock.errors import InvalidInput

__all__ = [
    "MAX_BYTES",
    "MAX_RATE",
    "MIN_RATE",
    "Quantity",
    "format_bandwidth",
    "format_bytes",
    "format_seconds",
    "parse_bandwidth",
    "parse_bytes",
    "parse_seconds",
    "parse_whole",
    "whole_or_none",
    "write_bandwidth",
    "write_seconds",
]

Quantity = str | int | float

MAX_BYTES = 2**62
# Bytes per second of any link or NIC. Times and rates are doubles of 53 bits: further apart, what a slow link takes
# would drown in what a fast one rounds.
MIN_RATE, MAX_RATE = 1.0, 1e15

_NUMBER_AND_UNIT = re.compile(r"\s*([+-]?[0-9][0-9_]*\.?[0-9]*(?:[eE][+-]?[0-9]{1,3})?)\s*([A-Za-zµ/]*)\s*", re.ASCII)
_WHOLE = re.compile(r"\s*-?[0-9]{1,18}\s*", re.ASCII)
_PREFIX = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_PREFIX |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_BYTES = {f"{p}B": Decimal(f) for p, f in _PREFIX.items()}
_BANDWIDTH = {f"{p}B/s": Decimal(f) for p, f in _PREFIX.items()}
_BANDWIDTH |= {f"{p}{bit}": Decimal(f) / 8 for p, f in _PREFIX.items() for bit in ("b/s", "bit/s", "bit", "bps")}
_SECONDS = {"s": Decimal(1), "ms": Decimal("1e-3"), "us": Decimal("1e-6"), "µs": Decimal("1e-6"), "ns": Decimal("1e-9")}


def _parse(value: Quantity, units: dict[str, Decimal], name: str, example: str, *, needs_unit: bool = True) -> Decimal:
    if isinstance(value, bool):
        raise InvalidInput(f"{name}={value!r} is not a quantity; write {example}")
    if isinstance(value, int | float):
        if not math.isfinite(value):
            raise InvalidInput(f"{name}={value!r} must be finite")
        return Decimal(value)
    match = _NUMBER_AND_UNIT.fullmatch(value) if isinstance(value, str) and len(value) <= 64 else None
    if match is None:
        raise InvalidInput(f"{name}={str(value)[:64]!r} is not a number with a unit; write {example}")
    number, unit = match.groups()
    if unit and unit not in units:
        raise InvalidInput(f"{name}={value!r} has unknown unit {unit!r}; write {example}")
    try:
        bare = Decimal(number.replace("_", ""))
    except InvalidOperation:
        raise InvalidInput(f"{name}={value!r} is not a number with a unit; write {example}") from None
    if needs_unit and not unit and bare != 0:
        raise InvalidInput(f"{name}={value!r} has no unit; write {example}")
    return bare * units.get(unit, Decimal(1))


def parse_bytes(value: Quantity, name: str = "size") -> int:
    """Bytes as an integer.

    >>> parse_bytes("512 MB"), parse_bytes("1 GiB"), parse_bytes(7)
    (512000000, 1073741824, 7)
    """
    parsed = _parse(value, _BYTES, name, "like '512 MB' or '1 GiB'", needs_unit=False)
    if not 0 <= parsed <= MAX_BYTES:
        raise InvalidInput(f"{name}={value!r} must be between 0 and 2^62 bytes")
    if parsed != int(parsed):
        raise InvalidInput(f"{name}={value!r} is not a whole number of bytes")
    return int(parsed)


def parse_bandwidth(value: Quantity, name: str = "bandwidth") -> float:
    """Bytes per second, between `MIN_RATE` and `MAX_RATE`.

    >>> parse_bandwidth("400 Gb/s"), parse_bandwidth("450 GB/s")
    (50000000000.0, 450000000000.0)
    """
    parsed = float(_parse(value, _BANDWIDTH, name, "like '400 Gb/s' or '450 GB/s'"))
    if not MIN_RATE <= parsed <= MAX_RATE:
        raise InvalidInput(f"{name}={value!r} must be between {MIN_RATE:g} and {MAX_RATE:g} B/s")
    return parsed


def parse_seconds(value: Quantity, name: str = "time") -> float:
    """Seconds; must not be negative.

    >>> parse_seconds("25 us")
    2.5e-05
    """
    parsed = float(_parse(value, _SECONDS, name, "like '25 us' or '1.5 ms'"))
    if not 0 <= parsed <= 1e9:
        raise InvalidInput(f"{name}={value!r} must be between 0 and 1e9 seconds")
    return parsed


def whole_or_none(text: str) -> int | None:
    """The whole number that a text is, in decimal digits; None where it is anything else, or too long to be meant.

    >>> whole_or_none(" 42"), whole_or_none("4.2"), whole_or_none("²")
    (42, None, None)
    """
    return int(text) if _WHOLE.fullmatch(text) else None


def parse_whole(text: str, where: str, least: int = 0, most: int = MAX_BYTES) -> int:
    """The whole number that a text is, within limits; errors begin with `where`."""
    number = whole_or_none(text)
    if number is None:
        raise InvalidInput(f"{where}: {text[:40]!r} is not a whole number")
    if not least <= number <= most:
        raise InvalidInput(f"{where}: {number} must be between {least} and {most}")
    return number


def _scaled(value: float, units: list[tuple[float, str]]) -> str:
    for factor, unit in units:
        if abs(value) >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value / units[-1][0]:.4g} {units[-1][1]}"


def format_seconds(seconds: float) -> str:
    """Seconds for people.

    >>> format_seconds(0.0123)
    '12.3 ms'
    """
    return "0 s" if seconds == 0 else _scaled(seconds, [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")])


def format_bytes(size_bytes: float) -> str:
    """Bytes for people, decimal prefixes.

    >>> format_bytes(512e6)
    '512 MB'
    """
    return _scaled(size_bytes, [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")])


def format_bandwidth(bandwidth_bytes_per_s: float) -> str:
    """Bandwidth for people, decimal prefixes.

    >>> format_bandwidth(5e10)
    '50 GB/s'
    """
    return format_bytes(bandwidth_bytes_per_s) + "/s"


def write_bandwidth(bandwidth_bytes_per_s: float) -> str:
    """Bandwidth for files: reads back as exactly the same number.

    >>> write_bandwidth(4.5e11)
    '450 GB/s'
    """
    return _exact(bandwidth_bytes_per_s, 1e9, "GB/s", "B/s", parse_bandwidth)


def write_seconds(seconds: float) -> str:
    """Seconds for files: reads back as exactly the same number.

    >>> write_seconds(2.5e-05)
    '25 us'
    """
    return _exact(seconds, 1e-6, "us", "s", parse_seconds)


def _exact(value: float, factor: float, unit: str, base: str, parse: Callable[[Quantity], float]) -> str:
    text = f"{value / factor:.12g} {unit}"
    return text if parse(text) == value else f"{float(value)!r} {base}"
