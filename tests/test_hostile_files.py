"""Files that are made to choke a reader: ended in time and memory, refused in words; small ones here, for speed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostile_files import READERS, attack_all
from interlock.errors import InvalidInput

SIZE = 200_000
ONLY_NAMED = ("nccl-tests", "chrome-trace")  # read to say what they are, which is no schedule


@pytest.mark.parametrize("reader", sorted(set(READERS) - set(ONLY_NAMED)))
def test_attacks_start_from_files_that_are_read(reader: str, tmp_path: Path) -> None:
    """What a reader refuses at its first line would keep an attack from all that comes after."""
    read, sound = READERS[reader]
    refused = 0
    for data in sound:
        try:
            read(tmp_path, data)
        except InvalidInput:
            refused += 1
    assert refused < len(sound)


@pytest.mark.parametrize("reader", READERS)
def test_no_file_takes_a_reader_long_or_far(reader: str) -> None:
    taken = attack_all(reader, SIZE)
    assert [one for one in taken if one.fault] == []
    # What grows faster than its file would be far over the limits at 50 MB.
    assert max(one.seconds for one in taken) < 2.0
