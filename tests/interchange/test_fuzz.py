"""Readers accept or refuse; they never crash, hang or swell, whatever they are fed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.interchange.fuzz import READERS, seeds_of

import interlock as il


def feed(reader: str, data: bytes, folder: Path) -> None:
    """Anything but InvalidInput passes through."""
    try:
        READERS[reader](folder, data)
    except il.InvalidInput as error:
        assert "\n" not in str(error).strip()


@pytest.mark.parametrize("reader", READERS)
def test_seeds_and_their_prefixes_are_accepted_or_refused(reader: str, tmp_path: Path) -> None:
    for data in seeds_of(reader):
        for end in {0, 1, len(data) // 3, len(data) // 2, len(data) - 1, len(data)}:
            feed(reader, data[: max(0, end)], tmp_path)
    assert len(seeds_of(reader)) >= 2


@pytest.mark.parametrize("reader", READERS)
def test_random_changes_are_accepted_or_refused(reader: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    seeds = [data for data in seeds_of(reader) if data]

    @given(
        seed=st.sampled_from(seeds),
        edits=st.lists(st.tuples(st.integers(0, 6000), st.integers(0, 40), st.binary(max_size=12)), max_size=5),
    )
    @settings(max_examples=12)
    def change(seed: bytes, edits: list[tuple[int, int, bytes]]) -> None:
        data = seed
        for place, removed, added in edits:
            at = place % (len(data) + 1)
            data = data[:at] + added + data[at + removed :]
        feed(reader, data, folder)

    change()


BOMBS = {
    "entities": b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><algo>&b;</algo>',
    "external entity": b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><system>&x;</system>',
    "deep xml": b"<a>" * 100_000,
    "many attributes": b"<algo " + b" ".join(b'a%d="1"' % k for k in range(10_000)) + b"/>",
    "long attribute": b'<algo name="' + b"a" * 1_000_000 + b'"/>',
    "many elements": b"<algo>" + b"<gpu/>" * 700_000 + b"</algo>",
    "deep json": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "wide json": b"[" + b"[]," * 2_100_000 + b"[]]",
    "long number": b'{"name": ' + b"9" * 100_000 + b"}",
    "nan": b'{"gpus": NaN}',
    "repeated keys": b'{"gpus": [], "gpus": []}',
    "huge count": json.dumps(
        {
            "name": "x",
            "collective": "allgather",
            "protocol": "Simple",
            "inplace": False,
            "gpus": [{"id": 0, "input_chunks": 2**40}],
        }
    ).encode(),
    "huge gpus": b'<algo coll="allgather" ngpus="2000000000" nchannels="1" nchunksperloop="1" inplace="0"/>',
    "utf-16": "<algo/>".encode("utf-16"),
    "unknown encoding": b'<?xml version="1.0" encoding="ebcdic-cp-zz"?><algo/>',
    "huge csv": b"NPUs Count,9999999999\nLinks Count,1\nChunks Count,1\nChunk Size,1,B\nSrcID\n",
    "huge nodes": b"Nodes 99999999999\nConnections 1\n0->1 start 0 size 1\n",
    "huge dims": b"topology: [ FullyConnected ]\nnpus_count: [ 65536 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n",
    "long varint": b"\xff" * 1000,
    "long message": b"\xff\xff\xff\xff\x0f",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_by_every_reader(name: str, tmp_path: Path) -> None:
    parsers = {reader: read for reader, read in READERS.items() if not reader.endswith("-demand")}
    for reader, read in parsers.items():
        with pytest.raises(il.InvalidInput):
            read(tmp_path, BOMBS[name])
            pytest.fail(f"{reader} accepted it")


@pytest.mark.slow
def test_coverage_guided_fuzzing_finds_nothing() -> None:
    """In a process of its own, which answers 1 where it finds something or takes more than 1 GiB.

    Forty seconds of what `benchmarks/results/fuzz.json` has for 10^7 bytes per reader.
    """
    words = [sys.executable, str(Path(__file__).parent / "fuzz.py"), "--seconds", "40", "--seed", "1"]
    hunted = subprocess.run(words, capture_output=True, text=True, check=False)
    assert hunted.returncode == 0, hunted.stdout + hunted.stderr
    assert all(re.search(rf"^{reader} +[1-9]", hunted.stdout, re.MULTILINE) for reader in READERS)
