"""Byte matrices: what they say of themselves, and reading them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import interlock as il
from interlock.traffic import matrix, parse, read_demand, read_expert_loads


def test_a_matrix_knows_its_sums() -> None:
    demand = matrix([[7, 5], [3, 2]])

    assert (demand.num_ranks, demand.moved_bytes, demand.largest_rank_bytes) == (2, 8, 12)
    assert demand.transposed().bytes_matrix.tolist() == [[7, 3], [5, 2]]
    assert not demand.bytes_matrix.flags.writeable


def test_the_array_given_stays_the_callers() -> None:
    array = np.ones((2, 2), np.int64)
    demand = matrix(array)
    array[0, 0] = 9

    assert demand.bytes_matrix[0, 0] == 1


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
def test_any_whole_numbers_will_do(dtype: type) -> None:
    made = matrix(np.array([[0, 5], [3, 0]], dtype)).bytes_matrix
    assert made.dtype == np.int64 and made.tolist() == [[0, 5], [3, 0]]


@pytest.mark.parametrize(
    "text",
    [
        "0 5\n3 0\n",
        "0\t5\n3\t0",
        " 0   5 \n\n 3 0 ",
        "0,5\n3,0\n",
        "0, 5\n3, 0",
        "0;5;\n3;0;\n",
        "# bytes\n0 5\n3 0",
        "0 +5\r\n3 0\r\n",
    ],
)
def test_text_matrices_of_every_tool(text: str, tmp_path: Path) -> None:
    (tmp_path / "demand.txt").write_bytes(text.encode())

    assert read_demand(tmp_path / "demand.txt").bytes_matrix.tolist() == [[0, 5], [3, 0]]


def test_npz_matrices(tmp_path: Path, h200_2x4: il.Cluster) -> None:
    wanted = np.arange(64).reshape(8, 8)
    np.savez(tmp_path / "one.npz", anything=wanted)
    np.savez_compressed(tmp_path / "many.npz", other=wanted[:2], demand=wanted.astype(np.uint16))

    assert np.array_equal(read_demand(tmp_path / "one.npz").bytes_matrix, wanted)
    assert np.array_equal(parse(str(tmp_path / "many.npz"), h200_2x4).bytes_matrix, wanted)


def test_units_other_than_bytes(tmp_path: Path) -> None:
    (tmp_path / "chunks.csv").write_text("0,5\n3,0\n")

    assert read_demand(tmp_path / "chunks.csv", scale_bytes=4096).bytes_matrix.tolist() == [[0, 20480], [12288, 0]]


def test_the_shared_matrices(shared_data: Path) -> None:
    eight = read_demand(shared_data / "examples" / "nccl_tests_a2av_matrix_8.txt")
    chunks = read_demand(shared_data / "moe" / "a2av-128_chunks.csv")

    assert eight.num_ranks == 8 and eight.bytes_matrix[0, 1] == 905136
    assert chunks.num_ranks == 128 and set(chunks.bytes_matrix.sum(axis=0)) == {1024} == set(
        chunks.bytes_matrix.sum(axis=1)
    )


def test_expert_loads(tmp_path: Path) -> None:
    (tmp_path / "loads.txt").write_text("5 4 3\n1 2 3\n")
    np.savez(tmp_path / "loads.npz", weight=np.array([5, 4, 3], np.uint32))

    assert read_expert_loads(tmp_path / "loads.txt").tolist() == [[5, 4, 3], [1, 2, 3]]
    assert read_expert_loads(tmp_path / "loads.npz").tolist() == [[5, 4, 3]]
