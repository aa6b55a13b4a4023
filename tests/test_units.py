"""Quantities with units are parsed at the edge, exactly."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import InvalidInput
from interlock.units import (
    format_bandwidth,
    format_bytes,
    format_seconds,
    parse_bandwidth,
    parse_bytes,
    parse_seconds,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("512 MB", 512_000_000),
        ("1GiB", 2**30),
        ("4 KiB", 4096),
        ("7", 7),
        ("1_000 B", 1000),
        ("1.5MB", 1_500_000),
        (0, 0),
    ],
)
def test_bytes_are_exact(text: str | int, size_bytes: int) -> None:
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "rate"),
    [("400 Gb/s", 50e9), ("450 GB/s", 450e9), ("50Mbit", 6.25e6), ("53687091200 B/s", 53687091200.0), (1e9, 1e9)],
)
def test_bandwidths_are_in_bytes_per_second(text: str | float, rate: float) -> None:
    assert parse_bandwidth(text) == rate


@pytest.mark.parametrize(("text", "seconds"), [("25 us", 25e-6), ("0.5 us", 0.5e-6), ("0 us", 0.0), ("3 ns", 3e-9)])
def test_times_are_in_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


BAD = ["", "GB", "12 parsecs", "-1 MB", "1 2 MB", "nan", "inf", "1e400", "0x10", "1 MB/s/s", "٣ MB", "1" * 100, "5 gb"]


@pytest.mark.parametrize("text", BAD)
@pytest.mark.parametrize("parse", [parse_bytes, parse_bandwidth, parse_seconds])
def test_nonsense_is_refused_by_name(text: str, parse) -> None:
    with pytest.raises(InvalidInput, match="that"):
        parse(text, "that")


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (math.nan, "that=nan must be finite"),
        (math.inf, "that=inf must be finite"),
        (-1, "that=-1 must be between"),
        (True, "that=True is not a quantity"),
        (None, "that='None' is not a number with a unit"),
        ([1], r"that='\[1\]' is not a number with a unit"),
    ],
)
@pytest.mark.parametrize("parse", [parse_bytes, parse_bandwidth, parse_seconds])
def test_values_that_are_no_quantity_are_refused(value: object, rule: str, parse) -> None:
    with pytest.raises(InvalidInput, match=rule):
        parse(value, "that")


def test_zero_bandwidth_and_fractions_of_a_byte_are_refused() -> None:
    with pytest.raises(InvalidInput, match="between 1 and"):
        parse_bandwidth("0 Gb/s")
    with pytest.raises(InvalidInput, match="whole number"):
        parse_bytes("1.00005 kB")


@given(st.integers(0, 2**62))
def test_whole_numbers_survive_as_text(size_bytes: int) -> None:
    assert parse_bytes(str(size_bytes)) == size_bytes


def test_formats_are_short() -> None:
    assert (format_seconds(0), format_seconds(1.5e-6), format_seconds(90)) == ("0 s", "1.5 us", "90 s")
    assert (format_bytes(1e12), format_bandwidth(12.5e9)) == ("1 TB", "12.5 GB/s")
