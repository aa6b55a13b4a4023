"""JSON from strangers: limits on size, depth and count; no repeated keys, no NaN; typed access that names the place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from interlock.errors import InvalidInput, LimitExceeded
from interlock.files import read_text
from interlock.interchange.shared.files import MAX_FILE_BYTES

__all__ = ["Json", "Table", "parse_json", "read_json"]

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None

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


@dataclass(frozen=True, slots=True)
class Table:
    """An object of a JSON file; whatever is wrong with what it holds is said with its place, `where`."""

    values: dict[str, Json]
    where: str

    @classmethod
    def of(cls, value: Json, where: str) -> Table:
        """A value that must be an object."""
        if not isinstance(value, dict):
            raise InvalidInput(f"{where} is {_kind(value)}; an object is needed")
        return cls(value, where)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def table(self, key: str) -> Table:
        """An object in it."""
        return Table.of(self.values.get(key), f"{self.where}: {key!r}")

    def entries(self, key: str, most: int, default: list[Json] | None = None) -> list[Json]:
        """A list of at most `most` entries; must be there unless a default is given."""
        value = self.values.get(key, default)
        if not isinstance(value, list):
            raise InvalidInput(f"{self.where}: {key!r} is {_kind(value)}; a list is needed")
        if len(value) > most:
            raise LimitExceeded(f"{self.where}: {key!r} has {len(value)} entries; at most {most} are allowed")
        return value

    def tables(self, key: str, most: int, place: str, default: list[Json] | None = None) -> list[Table]:
        """A list of objects; `place` is what the place of one is beyond this one's, with {} for its number."""
        found = enumerate(self.entries(key, most, default))
        return [Table.of(value, self.where + place.format(number)) for number, value in found]

    def indices(self, key: str, count: int, what: str = "") -> list[int]:
        """A list of whole numbers below `count`."""
        found: list[int] = []
        for value in self.entries(key, 1 << 16):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
                raise InvalidInput(f"{self.where}: {key!r} names {what}{str(value)[:20]}; there are {count}")
            found.append(value)
        return found

    def number(self, key: str, most: int, least: int = 0, default: int | None = None) -> int:
        """A whole number in range; must be there unless a default is given."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidInput(f"{self.where}: {key!r} is {_kind(value)}; a whole number is needed")
        if not least <= value <= most:
            raise InvalidInput(f"{self.where}: {key}={str(value)[:40]} must be between {least} and {most}")
        return value

    def text(self, key: str, known: tuple[str, ...] = ()) -> str:
        """A string; one of `known` where that is given."""
        value = self.values.get(key)
        if not isinstance(value, str):
            raise InvalidInput(f"{self.where}: {key!r} is {_kind(value)}; a string is needed")
        if known and value not in known:
            raise InvalidInput(f"{self.where}: {key}={value[:64]!r} is not one of {', '.join(known)}")
        return value


def _kind(value: Json) -> str:
    if value is None:
        return "missing"
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", int: "a number"}
    return names.get(type(value), "a number with a fraction")
