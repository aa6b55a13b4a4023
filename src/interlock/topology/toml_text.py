"""TOML text: read with limits by the standard library, written by a few lines of ours."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping

from interlock.errors import InvalidInput, LimitExceeded, nearest
from interlock.files import FilePath, read_text

MAX_MARKS = 500_000  # the standard library takes up to 10 us for a value, a key or a table
_MARKS = ",.=[{\\\n"  # at least one of them belongs to each of those
MAX_KEY_PARTS = 64  # of a dotted key: each makes the standard library walk all before it
_PART = r"""(?>"[^"\n]*"|'[^'\n]*'|[A-Za-z0-9_-]++)[ \t]*+\.[ \t]*+"""
_TOO_DEEP = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_PART}){{{MAX_KEY_PARTS}}}")
MAX_DIGITS = 1_000  # the standard library takes 100 bytes for each
_TOO_LONG = re.compile(rf"(?<![0-9A-Fa-f_])[0-9A-Fa-f_]{{{MAX_DIGITS + 1}}}")

__all__ = ["check_keys", "check_marks", "read_toml", "table", "to_toml"]


def read_toml(path: FilePath, max_bytes: int) -> dict[str, object]:
    """The tables of a TOML file."""
    text = read_text(path, max_bytes)
    check_marks(text, path)
    rules = (
        (_TOO_DEEP, f"a key of more than {MAX_KEY_PARTS} parts"),
        (_TOO_LONG, f"more than {MAX_DIGITS} digits in a row"),
    )
    for pattern, what in rules:
        if (found := pattern.search(text)) is not None:
            raise LimitExceeded(f"{path}, line {text.count(chr(10), 0, found.start()) + 1}: {what}")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise InvalidInput(f"{path} is not TOML: {reason}") from None


def check_marks(text: str, path: FilePath) -> None:
    """Refuse TOML of more values, keys and lines than are read."""
    marks = sum(text.count(mark) for mark in _MARKS)
    if marks > MAX_MARKS:
        raise LimitExceeded(
            f"{path} has {marks} commas, dots, equals signs, brackets, escapes and lines; at most {MAX_MARKS} are read "
            "of TOML"
        )


def check_keys(values: Mapping[str, object], known: set[str], where: str = "") -> None:
    """Refuse a key that is not known, with the nearest one that is."""
    for key in values:
        if key not in known:
            place = f"{where}: " if where else ""
            raise InvalidInput(f"{place}unknown key {key[:64]!r}; {nearest(key[:64], known)}")


def table(value: object, where: str) -> dict[str, object]:
    """The value, if it is a table."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must be a table, not {type(value).__name__}")
    return value


def to_toml(values: Mapping[str, object]) -> str:
    """Words, numbers, true/false and lists of them; nested mappings as tables, lists of mappings as arrays of tables.

    >>> print(to_toml({"servers": 4, "fabric": {"name": "roce"}}), end="")
    servers = 4
    <BLANKLINE>
    [fabric]
    name = "roce"
    """
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    arrays = {key: value for key, value in values.items() if isinstance(value, list) and value and _are_tables(value)}
    lines = _lines({key: value for key, value in values.items() if key not in tables and key not in arrays})
    for key, held in tables.items():
        lines += ["", f"[{key}]", *_lines(held)]
    for key, entries in arrays.items():
        for entry in entries:
            lines += ["", f"[[{key}]]", *_lines(entry)]
    return "\n".join(lines).lstrip("\n") + "\n"


def _are_tables(values: list[object]) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def _lines(values: Mapping[str, object]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in values.items()]


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)  # JSON's escapes are TOML's
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise InvalidInput(f"{value!r} has no form in TOML")
