"""One error tree: everything this package raises on purpose is an InterlockError."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import index
from typing import TypeVar

__all__ = [
    "at",
    "check_whole",
    "InterlockError",
    "InvalidInput",
    "LimitExceeded",
    "MissingDependency",
    "named",
    "nearest",
]

T = TypeVar("T")


class InterlockError(Exception):
    """Base of all errors raised on purpose by Interlock."""


class InvalidInput(InterlockError, ValueError):
    """An argument, file or option breaks a rule; the message names it, its value and the rule."""


class LimitExceeded(InvalidInput):
    """The input is well formed but larger than a documented limit."""


class MissingDependency(InterlockError, ImportError):
    """An optional package is needed; the message says which extra brings it."""


@contextmanager
def at(place: object) -> Iterator[None]:
    """Whatever is wrong inside is said with its place in front."""
    try:
        yield
    except InvalidInput as error:
        raise type(error)(f"{place}: {error}") from None


def nearest(word: str, known: Iterable[str]) -> str:
    """Say which known name a wrong one resembles, as the tail of an error message."""
    import difflib  # only ever needed on the way to an error message
    import textwrap

    names = sorted(known)
    close = difflib.get_close_matches(str(word)[:64], names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return "known: " + textwrap.shorten(", ".join(names), 700, placeholder=" ...")


def check_whole(value: object, name: str, least: int, most: int | None = None) -> int:
    """The whole number, if it is one and within limits."""
    try:
        number = None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        rule = f"of at least {least}" if most is None else f"between {least} and {most}"
        raise InvalidInput(f"{name}={value!r} must be a whole number {rule}")
    return number


def named(known: Mapping[str, T], name: object, what: str) -> T:
    """What has that name; raises for one that is not known, saying which known one it resembles."""
    if not isinstance(name, str) or name not in known:
        shown = repr(name[:64] if isinstance(name, str) else name)[:80]
        raise InvalidInput(f"unknown {what} {shown}; {nearest(str(name), known)}")
    return known[name]
