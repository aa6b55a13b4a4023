"""Routing traces as traffic of every command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import interlock as il
from interlock.cli.main import run
from interlock.cli.options import build_traffic


def test_every_kind_of_trace_is_traffic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = np.argsort(np.random.default_rng(5).random((2, 64, 16)), axis=2)[:, :, :2]
    np.savez(tmp_path / "a.npz", math=ids, other=ids)
    np.save(tmp_path / "a.npy", ids)
    words = ["plan", "--cluster", "h200", "--servers", "1", "--algorithm", "direct", "--json", "--traffic"]
    for trace in ("a.npz:math:1", "a.npy:1", "a.npy:1,placement=eplb:1"):
        assert run([*words, f"{tmp_path / trace},token=1000"]) == 0, trace
    where = il.cluster("h200", servers=1)
    found = build_traffic(f"{tmp_path / 'a.npz'}:math:1,token=1000", where, None, 0)
    kept = build_traffic(f"{tmp_path / 'a.npy'}:1,token=1000", where, None, 0)
    assert (found.bytes_matrix == kept.bytes_matrix).all() and found.bytes_matrix.sum() == 64 * 2 * 1000
    np.savez(tmp_path / "matrix.npz", demand=np.full((8, 8), 5))
    assert build_traffic(str(tmp_path / "matrix.npz"), where, None, 0).bytes_matrix.max() == 5
    for bad, why in ((":math:x", "LAYER"), (":math:0,colour=red", "placement=contiguous"), (":nope", "no array named")):
        with pytest.raises(il.InvalidInput, match=why):
            build_traffic(f"{tmp_path / 'a.npz'}{bad}", where, None, 0)
