"""What tests ask, and other answers of the same kind: loaded into pytest by `sweep.py`, before the package.

Functions of the package are compiled so that each asks, as it begins, whether to do nothing, and passes what it returns
or yields through `answer`. Only what a test calls itself counts, past the standard library between the two.
"""

from __future__ import annotations

import ast
import builtins
import copy
import enum
import importlib.abc
import importlib.machinery
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE, TESTS = f"{ROOT}/src/interlock/", f"{ROOT}/tests/"
MOST_FIELDS, DEEP = 24, 3
WATCHED = (
    (subprocess, "run"),
    (subprocess.Popen, "communicate"),
    (json, "loads"),
    (pytest.CaptureFixture, "readouterr"),
)
WATCHED_OF_FILES = ("read_text", "read_bytes", "exists")


class Change(NamedTuple):
    """A call that answers otherwise."""

    name: str
    kind: str  # "answers", or "silent" for those that raised or returned nothing
    turn: int  # which call of the test, -1 for all
    field: int  # of an object or tuple, -1 for all


seen: dict[tuple[str, str], list[int]] = {}  # what the test of this process calls: how often, fields of the answer
active: Change | None = None


def changes() -> list[Change]:
    """What to try, the last call first; single fields last, where changing all at once only broke the test."""
    made = []
    for (name, kind), (times, fields) in reversed(seen.items()):
        if kind == "answers" or times > seen.get((name, "answers"), [0])[0]:
            made += [Change(name, kind, -1, -1)] + [Change(name, kind, times, -1)] * (times > 1)
            made += [Change(name, kind, -1, field) for field in range(fields) if fields > 1]
    return sorted(made, key=lambda change: change.field >= 0)


def other(value: object, field: int = -1, depth: int = 0) -> object:
    """Something else of the same kind: a number more, other letters, an element too many, fields changed."""

    def part(inner: object, number: int = -1) -> object:
        return other(inner, -1, depth + 1) if field in (-1, number) else inner

    if value is None or depth > DEEP:
        return "something" if value is None else value
    if isinstance(value, bool | np.bool_):
        return not value
    if isinstance(value, enum.Enum):
        return next((member for member in type(value) if member != value), value)
    if isinstance(value, int | float | np.number):
        return type(value)(value * 1.5 + 1 if abs(value) < 2**30 else value / 2 if np.isfinite(value) else 1)
    if isinstance(value, str):
        return "".join(chr(ord(letter) ^ 1) if letter.isalnum() else letter for letter in value) or "something"
    if isinstance(value, bytes):
        return bytes(byte ^ 1 for byte in value) or b"something"
    if isinstance(value, Path):
        return value.with_name(f"{value.name}x")
    if isinstance(value, np.ndarray):
        made = np.array(value, order="C") if value.size else np.ones((1,) * value.ndim, value.dtype)
        if value.size and made.dtype.kind in "biuf":
            some = made.reshape(-1)[::2]  # not all, which may keep what is asked of their proportions
            made.reshape(-1)[::2] = ~some if made.dtype.kind == "b" else some + some // 8 + 1
        made.setflags(write=value.flags.writeable)
        return made
    if isinstance(value, dict):
        return {key: part(inner) for key, inner in value.items()} or {"something": 1}
    if isinstance(value, list | tuple | set | frozenset):
        parts = [part(inner, number) for number, inner in enumerate(value)]
        if hasattr(value, "_fields"):
            return type(value)(*parts)
        return type(value)(parts if field >= 0 else parts + parts[:1] or [1])
    changed = copy.copy(value)
    for number, name in enumerate(_fields(value)):
        object.__setattr__(changed, name, part(getattr(value, name), number))
    return changed


def _fields(value: object) -> list[str]:
    return list(getattr(value, "__dataclass_fields__", None) or getattr(value, "__dict__", {}))[:MOST_FIELDS]


def _is_on(name: str, kind: str, fields: int = 0) -> bool:
    """Whether this call is to be changed; notes it if a test makes it."""
    frame, steps = sys._getframe(3), 0
    while frame is not None and not frame.f_code.co_filename.startswith(TESTS):
        if steps == 8 or frame.f_code.co_filename.startswith(SOURCE) or (active and active[:2] != (name, kind)):
            return False
        frame, steps = frame.f_back, steps + 1
    times, most = seen.get((name, kind), (0, 0))
    seen[name, kind] = [times + 1, max(most, fields)]
    return frame is not None and active is not None and active[:2] == (name, kind) and active.turn in (-1, times + 1)


def is_silent(name: str) -> bool:
    return _is_on(name, "silent")


def answer(name: str, value: object) -> object:
    is_plain = isinstance(value, str | bytes | Path | np.ndarray | enum.Enum)
    fields = len(value) if isinstance(value, tuple) else 0 if is_plain else len(_fields(value))
    return other(value, active.field) if _is_on(name, "answers", fields) and active else value


class Asking(ast.NodeTransformer):
    """Functions of a module that ask as they begin and as they answer; functions inside functions are left."""

    def __init__(self, place: str, is_inside: bool = False) -> None:
        self.place, self.is_inside = place, is_inside

    def visit(self, node: ast.AST) -> ast.AST:
        place = f"{self.place}.{getattr(node, 'name', '')}"
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda) and self.is_inside:
            return node
        if isinstance(node, ast.ClassDef):
            return Asking(place).generic_visit(node)
        if isinstance(node, ast.FunctionDef):
            node.body = [Asking(place, True).visit(part) for part in node.body]
            node.body.insert(ast.get_docstring(node) is not None, ast.If(_call("is_silent", place), [ast.Return()], []))
            return node
        self.generic_visit(node)
        if self.is_inside and isinstance(node, ast.Return | ast.Yield) and node.value is not None:
            node.value = _call("answer", self.place, node.value)
        return node


def _call(function: str, place: str, *more: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(f"__{function}__", ast.Load()), [ast.Constant(place), *more], [])


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> object:
        path = self.get_filename(fullname)
        made = Asking(fullname).visit(ast.parse(self.get_data(path)))
        return compile(ast.fix_missing_locations(made), path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        others = [finder for finder in sys.meta_path if finder is not self] if name.startswith("interlock") else []
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and str(spec.origin).startswith(SOURCE) and str(spec.origin).endswith(".py"):
            spec.loader = _Loader(name, str(spec.origin))
        return spec


def _watch(owner: object, name: str) -> None:
    asked, label = getattr(owner, name), f"{getattr(owner, '__name__', owner)}.{name}"
    setattr(owner, name, lambda *words, **named: None if is_silent(label) else answer(label, asked(*words, **named)))


def install() -> None:
    """Before any module of the package is imported."""
    builtins.__is_silent__, builtins.__answer__ = is_silent, answer  # type: ignore[attr-defined]
    sys.meta_path.insert(0, _Finder())
    from interlock._native import _core

    kernels = [(_core, name) for name in vars(_core) if name[0] != "_" and not isinstance(getattr(_core, name), type)]
    for owner, name in (*WATCHED, *((Path, name) for name in WATCHED_OF_FILES), *kernels):
        if callable(getattr(owner, name)):
            _watch(owner, name)
