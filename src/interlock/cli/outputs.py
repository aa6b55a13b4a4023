"""Files that a command writes: checked before the work, named with their sizes after it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from interlock.errors import InvalidInput
from interlock.files import check_target, traces_folder
from interlock.units import format_bytes

__all__ = ["Outputs", "say_written"]


class Outputs:
    """Files or folders named by options, refused at once where they could not be written later."""

    def __init__(self, files: Mapping[str, Path | None], *, folder: bool = False) -> None:
        self._before: dict[Path, tuple[int, int] | None] = {}
        option_by_place: dict[Path, str] = {}
        for option, file in files.items():
            if file is None:
                continue
            _check(option, file, is_folder=folder)
            place = file.absolute()
            if place in option_by_place:
                raise InvalidInput(f"{option} {file}: {option_by_place[place]} names the same file")
            option_by_place[place] = option
            for each in (file, traces_folder(file)) if option == "--html" else (file,):
                self._before[each] = _stamp(each)

    def say(self) -> None:
        """Name those that were written."""
        say_written(*(file for file, stamp in self._before.items() if _stamp(file) != stamp))


def say_written(*files: Path) -> None:
    """Name files and folders with their sizes; on stderr, so that JSON and CSV stay as they are."""
    for file in files:
        parts = [part for part in file.rglob("*") if part.is_file()] if file.is_dir() else [file]
        size = format_bytes(sum(part.stat().st_size for part in parts))
        written = (
            f"{file}{os.sep} ({len(parts)} file{'s' * (len(parts) != 1)}, {size})"
            if file.is_dir()
            else f"{file} ({size})"
        )
        print(f"wrote {written}", file=sys.stderr)


def _check(option: str, file: Path, *, is_folder: bool) -> None:
    try:
        folder = (file if is_folder and file.is_dir() else check_target(file)).parent
    except InvalidInput as error:
        raise type(error)(f"{option} {error}") from None
    if is_folder and file.is_file():
        raise InvalidInput(f"{option} {file} is a file; a folder is needed")
    if not folder.is_dir():
        raise InvalidInput(f"{option} {file}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise InvalidInput(f"{option} {file}: the folder {folder} cannot be written to")


def _stamp(file: Path) -> tuple[int, int] | None:
    return (file.stat().st_ino, file.stat().st_mtime_ns) if file.exists() else None
