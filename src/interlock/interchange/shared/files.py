"""How large other people's files may be, and folders written whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from interlock.errors import InvalidInput
from interlock.files import new_file_mode

__all__ = ["MAX_FILE_BYTES", "write_folder"]

MAX_FILE_BYTES = 128 * 2**20


def write_folder(path: Path, writers: Mapping[str, Callable[[BinaryIO], None]], owned: Callable[[str], bool]) -> None:
    """A folder of files, whole or not at all.

    An existing folder is replaced only if it holds nothing but files that `owned` recognises by name.
    """
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"{path} is a file; this format needs a folder")
    if path.is_dir():
        strange = sorted(entry.name for entry in path.iterdir() if entry.is_dir() or not owned(entry.name))
        if strange:
            raise InvalidInput(f"{path} holds {strange[0]!r}, which is not part of an export; choose another folder")
    try:
        fresh = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from None
    try:
        for name, write in writers.items():
            with (fresh / name).open("wb") as file:
                write(file)
            if name.endswith(".sh"):
                (fresh / name).chmod(new_file_mode(0o777))
        fresh.chmod(new_file_mode(0o777))
        _swap(fresh, path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _swap(fresh: Path, path: Path) -> None:
    """Put the fresh folder in place; what was there before ends under the fresh one's name, to be removed."""
    if not path.exists():
        fresh.rename(path)
        return
    aside = fresh.with_suffix(".old")
    path.rename(aside)
    try:
        fresh.rename(path)
    except BaseException:
        aside.rename(path)
        raise
    aside.rename(fresh)
