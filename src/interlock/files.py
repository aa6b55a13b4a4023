"""Files: read within limits, written whole or not at all. Errors name the file and the rule."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from interlock.errors import InvalidInput, LimitExceeded

__all__ = [
    "FilePath",
    "as_path",
    "check_file",
    "check_target",
    "lines_of",
    "new_file_mode",
    "read_bytes",
    "read_text",
    "remove_unfinished",
    "show_page",
    "traces_folder",
    "write_atomically",
    "write_text",
]

MAX_LINES = 1_000_000  # of a table of text
_unfinished: set[str] = set()  # files that are being written

FilePath = str | os.PathLike[str]


def as_path(path: object) -> Path:
    """The path, if it is one."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"path={str(path)[:64]!r} must be the name of a file")
    return Path(path)


def check_file(path: FilePath, max_bytes: int) -> Path:
    """The path, if it names a readable file of at most `max_bytes`."""
    file = as_path(path)
    try:
        if file.is_dir():
            raise InvalidInput(f"{file} is a folder; a file is needed")
        if not file.is_file():
            raise InvalidInput(f"{file} does not exist or is not a file")
        size = file.stat().st_size
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{str(path)[:200]!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if size > max_bytes:
        raise LimitExceeded(f"{file} has {size} bytes; at most {max_bytes} are read")
    return file


def read_bytes(path: FilePath, max_bytes: int) -> bytes:
    """The bytes of a file of at most `max_bytes`."""
    file = check_file(path, max_bytes)
    try:
        with file.open("rb") as handle:
            data = handle.read(max_bytes + 1)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from None
    if len(data) > max_bytes:
        raise LimitExceeded(f"{file} grew while being read; at most {max_bytes} bytes are read")
    return data


def read_text(path: FilePath, max_bytes: int) -> str:
    """The text of a UTF-8 file of at most `max_bytes`."""
    file, data = as_path(path), read_bytes(path, max_bytes)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file}: byte {error.start} is not UTF-8 text") from None
    if "\0" in text:
        raise InvalidInput(f"{file}: byte {text.index(chr(0))} is NUL; this is not a text file")
    return text


def lines_of(text: str, path: FilePath) -> list[str]:
    """The lines of a text that was read, if there are at most `MAX_LINES`."""
    ends = sum(text.count(end) for end in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
    if ends > MAX_LINES:
        raise LimitExceeded(f"{path} has {ends} lines; at most {MAX_LINES} are read")
    return text.splitlines()


def check_target(path: FilePath) -> Path:
    """The path, if a file may be written there: it is a file already, or nothing yet.

    Devices and pipes are refused: a file is put in its target's place, and would take away ``/dev/null`` itself.
    """
    target = as_path(path)
    try:
        if target.is_dir():
            raise InvalidInput(f"{target} is a folder; a file is needed")
        if target.exists() and not target.is_file():
            raise InvalidInput(f"{target} is a device or a pipe; a file is needed")
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"{str(path)[:200]!r} cannot be written: {reason}") from None
    return target


def write_atomically(path: FilePath, write: Callable[[BinaryIO], None]) -> None:
    """Call `write` with a binary file that replaces `path` only when all of it is on disk."""
    target = check_target(path)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise InvalidInput(f"{target} cannot be written: {error.strerror}") from None
    _unfinished.add(name)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(new_file_mode())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    finally:
        _unfinished.discard(name)


def traces_folder(page: Path) -> Path:
    """Where the traces that a page links to lie."""
    return page.with_name(f"{page.stem}.traces")


def remove_unfinished() -> None:
    """Remove what is half written: for a process that ends without unwinding."""
    for name in list(_unfinished):
        Path(name).unlink(missing_ok=True)


def show_page(write: Callable[[Path], None], name: str) -> None:
    """Write a page to a folder that stays, and open it in a browser; say where it is where there is none."""
    import webbrowser

    folder = Path(tempfile.mkdtemp(prefix="interlock-"))
    stem = "".join(letter if letter.isalnum() else "-" for letter in name)[:60]
    page = folder / f"{stem}.html"
    write(page)
    if not webbrowser.open(page.as_uri()):
        print(f"written to {page}")


def write_text(path: FilePath, text: str) -> None:
    """Replace a file by some text, whole or not at all."""

    def write(file: BinaryIO) -> None:
        file.write(text.encode())

    write_atomically(path, write)


def new_file_mode(most: int = 0o666) -> int:
    """The permissions of a file that this process makes."""
    mask = os.umask(0)
    os.umask(mask)
    return most & ~mask
