"""JSON from strangers: limits on size, depth and count; no repeated keys, no NaN; typed access that names the place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn, TypeVar

from interlock.errors import InvalidInput, LimitExceeded
from interlock.files import read_text
from interlock.interchange.shared.files import MAX_FILE_BYTES

__all__ = ["Json", "entries", "number", "parse_json", "read_json", "table", "text"]

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
Kind = TypeVar("Kind", bound=type)

MAX_CONTAINERS = 2_000_000
MAX_VALUES = 4_000_000


def read_json(path: Path) -> Json:
    """The value in a JSON file."""
    return parse_json(read_text(path, MAX_FILE_BYTES), path)


def parse_json(content: str, file: Path | str) -> Json:
    """The value in a JSON text.

    >>> parse_json('{"a": [1, 2]}', "example")
    {'a': [1, 2]}
    """
    if content.count("[") + content.count("{") > MAX_CONTAINERS or content.count(",") > MAX_VALUES:
        raise LimitExceeded(f"{file}: more than {MAX_CONTAINERS} lists and objects or {MAX_VALUES} values")

    def refuse_constant(word: str) -> NoReturn:
        raise InvalidInput(f"{file}: {word} is not a number")

    def unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        made = dict(pairs)
        if len(made) != len(pairs):
            seen: set[str] = set()
            twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise InvalidInput(f"{file}: key {twice[:64]!r} is given twice in one object")
        return made

    try:
        value: Json = json.loads(content, object_pairs_hook=unique, parse_constant=refuse_constant)
    except RecursionError:
        raise LimitExceeded(f"{file}: lists and objects are nested too deep") from None
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{file}, line {error.lineno}: not JSON ({error.msg})") from None
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{file}: a number is too long") from None
    return value


def table(value: Json, where: str) -> dict[str, Json]:
    """A value that must be an object."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} is {_kind(value)}; an object is needed")
    return value


def entries(holder: dict[str, Json], key: str, where: str, most: int, default: list[Json] | None = None) -> list[Json]:
    """A list in an object, of at most `most` entries; must be there unless a default is given."""
    value = holder.get(key, default)
    if not isinstance(value, list):
        raise InvalidInput(f"{where}: {key!r} is {_kind(value)}; a list is needed")
    if len(value) > most:
        raise LimitExceeded(f"{where}: {key!r} has {len(value)} entries; at most {most} are allowed")
    return value


def number(holder: dict[str, Json], key: str, where: str, most: int, least: int = 0, default: int | None = None) -> int:
    """A whole number in an object, in range; must be there unless a default is given."""
    value = holder.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{where}: {key!r} is {_kind(value)}; a whole number is needed")
    if not least <= value <= most:
        raise InvalidInput(f"{where}: {key}={str(value)[:40]} must be between {least} and {most}")
    return value


def text(holder: dict[str, Json], key: str, where: str, known: tuple[str, ...] = ()) -> str:
    """A string in an object; one of `known` where that is given."""
    value = holder.get(key)
    if not isinstance(value, str):
        raise InvalidInput(f"{where}: {key!r} is {_kind(value)}; a string is needed")
    if known and value not in known:
        raise InvalidInput(f"{where}: {key}={value[:64]!r} is not one of {', '.join(known)}")
    return value


def _kind(value: Json) -> str:
    if value is None:
        return "missing"
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", int: "a number"}
    return names.get(type(value), "a number with a fraction")
