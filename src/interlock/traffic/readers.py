"""Numbers from strangers' files: text matrices and npz, within limits, never unpickled.

Text is one row per line, cells separated by spaces (as nccl-tests write them), commas or semicolons; a line that starts
with # is skipped. An npz holds one array, or one of the names asked for.
"""

from __future__ import annotations

import re
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput, LimitExceeded, at, nearest
from interlock.files import FilePath, check_file, lines_of, read_text
from interlock.memory import check_memory
from interlock.traffic.demand import MAX_RANKS, Demand, matrix

__all__ = ["npz_names", "read_array", "read_demand", "read_integers", "read_npy", "read_npz"]

MAX_TEXT_BYTES = 1 << 29
MAX_NPZ_BYTES = 1 << 32
MAX_ENTRIES = 1 << 26  # 512 MiB of int64: a matrix of all the ranks a demand may have
MAX_CELL = 20  # characters: a sign and the digits of 2^63


_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
BROKEN_ARCHIVE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    OSError,
    EOFError,
    RuntimeError,
)


def read_demand(path: FilePath, scale_bytes: int = 1) -> Demand:
    """A byte matrix from an nccl-tests matrix, a CSV or an npz file.

    Parameters
    ----------
    scale_bytes
        What one unit of the file stands for, e.g. the bytes of a chunk.
    """
    array = read_array(path, names=("demand", "bytes_matrix", "matrix"))
    if isinstance(scale_bytes, bool) or not isinstance(scale_bytes, int) or not 1 <= scale_bytes <= 2**40:
        raise InvalidInput(f"scale_bytes={scale_bytes!r} must be a whole number between 1 and 2^40")
    with at(path):
        demand = matrix(array, name=Path(path).stem)
        return demand if scale_bytes == 1 else matrix(_scaled(demand.bytes_matrix, scale_bytes), demand.name)


def _scaled(array: NDArray[np.int64], scale_bytes: int) -> NDArray[np.int64]:
    if int(array.max()) > 2**62 // scale_bytes:
        raise InvalidInput(f"{array.max()} x scale_bytes={scale_bytes} is more than 2^62 bytes")
    return array * np.int64(scale_bytes)


def read_array(path: FilePath, names: Sequence[str]) -> NDArray[Any]:
    """An array of numbers from a text or npz file; `names` are tried in an npz of several arrays."""
    return read_npz(path, names) if Path(path).suffix.lower() == ".npz" else read_integers(path)


def read_integers(path: FilePath) -> NDArray[np.int64]:
    """A table of whole numbers from a text file, ``[rows, columns]``."""
    text = read_text(path, MAX_TEXT_BYTES)
    rows: list[NDArray[np.int64]] = []  # a line at a time: words take ten times the memory of numbers
    for number, line in enumerate(lines_of(text, path), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line.count(",") + line.count(";") > MAX_RANKS:
            raise LimitExceeded(f"{path}, line {number}: more than {MAX_RANKS} columns; at most {MAX_RANKS} are read")
        plain = _plain(line)
        cells = re.split(r"[,;]\s*|\s+", line.strip().rstrip(",;")) if plain is None else plain
        width = len(rows[0]) if rows else len(cells)
        if width > MAX_RANKS or len(rows) == MAX_RANKS or (len(rows) + 1) * width > MAX_ENTRIES:
            raise LimitExceeded(
                f"{path}, line {number}: {width} columns, {len(rows) + 1} rows; at most {MAX_RANKS} of each and "
                f"{MAX_ENTRIES} cells are read"
            )
        if len(cells) != width:
            raise InvalidInput(
                f"{path}: line {number} has {len(cells)} cells but the first has {width}; rows must match"
            )
        rows.append(_numbers(cells, f"{path}: line {number}") if isinstance(cells, list) else cells)
    if not rows:
        raise InvalidInput(f"{path} is empty; a matrix of whole numbers is needed")
    return np.stack(rows)


def _plain(line: str) -> NDArray[np.int64] | None:
    """The numbers of a line of nothing but digits with blanks or single commas between them; None for any other."""
    numbers = line.strip()
    if (" " in numbers and "," in numbers) or ",," in numbers or numbers[:1] == ",":
        return None
    if not numbers.isascii() or not numbers.replace(",", "").replace(" ", "").isdigit():
        return None
    made = np.fromstring(numbers, np.int64, sep="," if "," in numbers else " ")
    return made if made.max() <= 2**62 else None  # what is beyond is named by its column, cell by cell


def _numbers(cells: list[str], where: str) -> NDArray[np.int64]:
    """A line's cells as numbers; digits are those of ASCII, and nothing stands between them."""
    for column, cell in enumerate(cells, 1):
        if not _WHOLE.fullmatch(cell):
            raise InvalidInput(f"{where}, column {column}: {cell[:40]!r} is not a whole number")
        if len(cell) >= MAX_CELL - 1 and (len(cell) > MAX_CELL or abs(int(cell)) > 2**62):
            raise InvalidInput(f"{where}, column {column}: {cell[:40]} is beyond 2^62")
    return np.array([int(cell) for cell in cells], np.int64)


def read_npz(path: FilePath, names: Sequence[str], *, or_only: bool = True) -> NDArray[Any]:
    """One array of an npz file: the first of `names` that is there, or else (if `or_only`) the only one."""
    file = check_file(path, MAX_NPZ_BYTES)
    try:
        with zipfile.ZipFile(file) as archive:
            members = [entry for entry in archive.infolist() if entry.filename.endswith(".npy")]
            by_name = {entry.filename[: -len(".npy")]: entry for entry in members}
            chosen = next((name for name in names if name in by_name), None)
            if chosen is None and or_only and len(by_name) == 1:
                chosen = next(iter(by_name))
            if chosen is None:
                known = nearest(names[0], by_name) if by_name else "it holds none"
                raise InvalidInput(f"{path} has no array named {' or '.join(names)}; {known}")
            entry = by_name[chosen]
            return _npy(lambda: archive.open(entry), f"{path}: {chosen}")
    except BROKEN_ARCHIVE as error:
        raise InvalidInput(f"{path} is not an npz file: {error}") from None


def npz_names(path: FilePath) -> list[str]:
    """Names of the arrays of an npz file."""
    file = check_file(path, MAX_NPZ_BYTES)
    try:
        with zipfile.ZipFile(file) as archive:
            return [name[: -len(".npy")] for name in archive.namelist() if name.endswith(".npy")]
    except BROKEN_ARCHIVE as error:
        raise InvalidInput(f"{path} is not an npz file: {error}") from None


def read_npy(path: FilePath) -> NDArray[Any]:
    """The array of an npy file."""
    file = check_file(path, MAX_NPZ_BYTES)
    try:
        return _npy(lambda: file.open("rb"), str(path))
    except (OSError, EOFError) as error:
        raise InvalidInput(f"{path} is not an npy file: {error}") from None


def _npy(open_file: Callable[[], IO[bytes]], where: str) -> NDArray[Any]:
    """The array of one file or member, its header checked before a byte of data is expanded."""
    with open_file() as member:
        try:
            version = np.lib.format.read_magic(member)
            read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            if version not in read_header:
                raise InvalidInput(f"{where}: npy version {version} is not read; 1.0 and 2.0 are")
            shape, _, dtype = read_header[version](member)
        except (MemoryError, RecursionError, SyntaxError, TypeError, tokenize.TokenError):
            raise InvalidInput(f"{where}: its header cannot be read") from None
        except ValueError as error:
            raise error if isinstance(error, InvalidInput) else InvalidInput(f"{where}: {error}") from None
    if dtype.hasobject or dtype.kind not in "iufb":
        raise InvalidInput(f"{where} holds {dtype}; only numbers are read")
    if int(np.prod(shape, dtype=object)) > MAX_ENTRIES:
        raise LimitExceeded(f"{where} has shape {shape}; at most {MAX_ENTRIES} entries are read")
    check_memory(3 * dtype.itemsize * float(np.prod(shape, dtype=object)), where)
    with open_file() as member:
        try:
            array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        except ValueError as error:
            raise InvalidInput(f"{where} is truncated or malformed: {error}") from None
    return array
