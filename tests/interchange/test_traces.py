"""Expert-distribution dumps, EPLB loads and routing in parquet."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import interlock as il
from interlock.interchange.routing_traces import demand_of_routing, read_expert_counts, read_routing_trace

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch


def test_sglang_counts_are_added_over_steps(tmp_path: Path) -> None:
    counts = torch.arange(2 * 3 * 4, dtype=torch.int32).reshape(2, 3, 4)
    torch.save({"rank": 0, "logical_count": counts, "average_utilization_rate_over_window": None}, tmp_path / "a.pt")
    found = read_expert_counts(tmp_path / "a.pt")
    assert found.counts.tolist() == counts.sum(dim=0).tolist()


def test_loads_of_replicas_are_added_by_expert(tmp_path: Path) -> None:
    dump = {
        "expert_load_pass": torch.tensor([[5, 6, 7, 8]]),
        "physical_to_logical_map": torch.tensor([[0, 1, 2, 1]]),
    }
    torch.save(dump, tmp_path / "a.pt")
    assert read_expert_counts(tmp_path / "a.pt").counts.tolist() == [[5, 14, 7]]


def test_per_token_records_become_routing(tmp_path: Path) -> None:
    ids = torch.tensor([[[0, 1], [2, 3]], [[3, 2], [1, 0]]])  # [layers, tokens, k]
    records = [{"forward_pass_id": k, "rank": 0, "topk_ids_of_layer": ids} for k in range(2)]
    torch.save({"records": records, "last_physical_to_logical_map": None}, tmp_path / "a.pt")
    routing = read_routing_trace(tmp_path / "a.pt", num_ranks=2, layer=1)
    assert routing.experts.tolist() == [[3, 2], [1, 0], [3, 2], [1, 0]]
    demand = demand_of_routing(routing, bytes_per_gpu=4000)
    assert demand.bytes_matrix.sum() == 8000 and demand.bytes_matrix.tolist() == [[2000, 2000], [2000, 2000]]


def test_flame_moe_parquet_becomes_routing_with_weights(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    generator = np.random.default_rng(0)
    ids = [generator.permutation(64)[:6].astype(np.int16) for _ in range(300)]
    scores = [generator.random(6).astype(np.float16) for _ in range(300)]
    table = arrow.table(
        {
            "indices": arrow.array(ids, type=arrow.list_(arrow.int16())),
            "scores": arrow.array(scores, type=arrow.list_(arrow.float16())),
        }
    )
    parquet.write_table(table, tmp_path / "layer_02.parquet")
    routing = read_routing_trace(tmp_path / "layer_02.parquet", num_ranks=8, num_experts=64, max_tokens=256)
    assert routing.num_tokens == 256 and routing.top_k == 6
    assert np.array_equal(routing.experts, np.stack(ids)[:256])
    assert routing.gate_weights is not None and np.allclose(routing.gate_weights, np.stack(scores)[:256])
    ragged = arrow.table({"indices": arrow.array([[1, 2], [3]], type=arrow.list_(arrow.int16()))})
    parquet.write_table(ragged, tmp_path / "ragged.parquet")
    with pytest.raises(il.InvalidInput, match="of one length"):
        read_routing_trace(tmp_path / "ragged.parquet", num_ranks=2)


class _Harm:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch harmed",)


def test_code_in_a_dump_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"logical_count": _Harm()}, tmp_path / "a.pt")
    with pytest.raises(il.InvalidInput, match=r"no \.pt file of plain tensors"):
        read_expert_counts(tmp_path / "a.pt")
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not really", b"\x80\x04garbage", b"hello"])
def test_broken_files_are_refused(content: bytes, tmp_path: Path) -> None:
    for name in ("a.pt", "a.parquet"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(il.InvalidInput, match=rf"{name} is no (\.pt file of plain tensors|readable parquet file)"):
            read_routing_trace(tmp_path / name, num_ranks=2)


@pytest.mark.parametrize(
    ("dump", "reason"),
    [
        ({"weights": 3}, "none of them are expert loads"),
        ({"logical_count": [1, 2]}, "is list, not a tensor"),
        ({"records": []}, "no list of recorded passes"),
        ({"logical_count": "x"}, "is str, not a tensor"),
    ],
)
def test_dumps_without_loads_are_refused_by_name(dump: object, reason: str, tmp_path: Path) -> None:
    torch.save(dump, tmp_path / "a.pt")
    with pytest.raises(il.InvalidInput, match=reason):
        read_expert_counts(tmp_path / "a.pt")


def test_negative_loads_are_refused(tmp_path: Path) -> None:
    torch.save(torch.tensor([[1, -2]]), tmp_path / "a.pt")
    with pytest.raises(il.InvalidInput, match="at least 0"):
        read_expert_counts(tmp_path / "a.pt")


def test_eplb_loads_in_text_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("90 132 40\n20 107 104\n")
    assert read_expert_counts(tmp_path / "a.txt").counts.tolist() == [[90, 132, 40], [20, 107, 104]]


@pytest.mark.parametrize("name", ["logical_count", "expert_load_pass"])
def test_loads_given_as_traffic_are_told_from_routing(name: str, tmp_path: Path) -> None:
    torch.save({name: torch.ones(2, 3, 4)}, tmp_path / "a.pt")
    with pytest.raises(il.InvalidInput, match=f"{name}, the loads of experts, not which expert each token chose"):
        read_routing_trace(tmp_path / "a.pt", num_ranks=2)
