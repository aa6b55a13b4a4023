"""The part of protobuf's wire format that Chakra traces use, so that nobody needs a matching protobuf installed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from interlock.errors import InvalidInput

__all__ = [
    "LENGTH_DELIMITED",
    "VARINT",
    "fields",
    "packed",
    "signed",
    "text_field",
    "varint",
    "varint_field",
    "varints",
]

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5


def varint(value: int) -> bytes:
    """A whole number, seven bits per byte; negative ones as 64-bit two's complement.

    >>> varint(300).hex()
    'ac02'
    """
    return _SHORT[value] if 0 <= value < 16_384 else _long(value)


def varints(values: list[int]) -> list[bytes]:
    """Many whole numbers, each as `varint` writes it."""
    return [_SHORT[value] if 0 <= value < 16_384 else _long(value) for value in values]


def _long(value: int) -> bytes:
    if 0 <= value < 1 << 21:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    return _longer(value)


@lru_cache(maxsize=1 << 16)
def _longer(value: int) -> bytes:
    value &= 0xFFFF_FFFF_FFFF_FFFF
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


_SHORT = [bytes((value,)) if value < 128 else bytes((value & 127 | 128, value >> 7)) for value in range(16_384)]


def varint_field(number: int, value: int) -> bytes:
    """A numbered whole number."""
    return varint(number << 3 | VARINT) + varint(value)


def text_field(number: int, value: bytes) -> bytes:
    """A numbered string, submessage or packed list."""
    return varint(number << 3 | LENGTH_DELIMITED) + varint(len(value)) + value


def read_varint(data: memoryview | bytes, at: int, end: int) -> tuple[int, int]:
    """A whole number and where it ends."""
    value = shift = 0
    while True:
        if at >= end or shift > 63:
            raise InvalidInput("a number is cut off or longer than 64 bits")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7


def fields(data: memoryview | bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Every field of a message: number, wire type, and value or begin, and end."""
    while at < end:
        tag, at = read_varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise InvalidInput("a field has number 0")
        if kind == VARINT:
            value, at = read_varint(data, at, end)
            yield number, kind, value, at
            continue
        if kind == LENGTH_DELIMITED:
            length, at = read_varint(data, at, end)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise InvalidInput(f"field {number} has wire type {kind}, which is not read")
        if length > end - at:
            raise InvalidInput(f"field {number} of {length} bytes is cut off")
        yield number, kind, at, at + length
        at += length


def packed(data: memoryview | bytes, at: int, end: int) -> list[int]:
    """A packed list of whole numbers."""
    values = []
    while at < end:
        value, at = read_varint(data, at, end)
        values.append(value)
    return values


def signed(value: int) -> int:
    """The signed number of a 64-bit varint."""
    return value - (1 << 64) if value >> 63 else value
