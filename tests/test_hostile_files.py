"""Files that are made to choke a reader: ended in time and memory, refused in words; small ones here, for speed."""

from __future__ import annotations

import pytest

from hostile_files import READERS, attack_all

SIZE = 200_000


@pytest.mark.parametrize("reader", READERS)
def test_no_file_takes_a_reader_long_or_far(reader: str) -> None:
    taken = attack_all(reader, SIZE)
    assert [one for one in taken if one.fault] == []
    # What grows faster than its file would be far over the limits at 50 MB.
    assert max(one.seconds for one in taken) < 2.0
