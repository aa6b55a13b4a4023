"""Python as people use it: arguments are checked in words, objects show themselves in a notebook."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import interlock as il

CLUSTER = il.cluster("h200", servers=2, gpus_per_server=2, faults=[il.dead_nic(0, 1)])
TRAFFIC = il.traffic.zipf(CLUSTER, bytes_per_gpu="1 MB")
REDUCE = il.all_reduce("1 MB")
WRONG: dict[str, Callable[[Any], object]] = {
    "cluster=\"Demand('zipf:0.8'": lambda any_: il.plan(any_(TRAFFIC), any_(CLUSTER)),
    "traffic='Collective(": lambda any_: il.plan(CLUSTER, any_(REDUCE)),
    "cluster='h200' must be a cluster": lambda any_: il.planner(any_("h200")),
    "must be a demand; see il.traffic": lambda any_: il.planner(CLUSTER)(any_(REDUCE)),
    "path='5' must be the name of a file": lambda any_: il.load(any_(5)),
    "algorithms='direct' must be a list of names": lambda _: il.compare(CLUSTER, TRAFFIC, "direct"),
    "unknown algorithm 3": lambda any_: il.compare(CLUSTER, TRAFFIC, any_([3])),
    "previous='5' must be a plan": lambda any_: il.plan(CLUSTER, TRAFFIC, previous=any_(5)),
    "cluster='b200' must be a cluster or a graph": lambda any_: il.traffic.zipf(any_("b200")),
    "unknown format 3": lambda any_: il.plan(CLUSTER, TRAFFIC, "direct").export(any_(3), "x"),
    "path='3' must be": lambda any_: il.plan(CLUSTER, TRAFFIC, "direct").save(any_(3)),
    "tolerance='x' must be a number": lambda any_: il.plan(CLUSTER, TRAFFIC, "direct").simulate(any_("x")),
    "unknown algorithm 3; known": lambda any_: il.compare(CLUSTER, TRAFFIC, ["direct"], baseline=any_(3)),
    "cluster='Collective(": lambda any_: il.compare(any_(REDUCE), any_(CLUSTER)),
    "topology='Collective(": lambda any_: il.synthesize(any_(REDUCE), any_(CLUSTER)),
}


@pytest.mark.parametrize("says", WRONG)
def test_arguments_are_checked_in_words(says: str) -> None:
    with pytest.raises(il.InvalidInput) as caught:
        WRONG[says](lambda value: value)
    assert says in str(caught.value).replace('topology="', "topology='").replace('traffic="', "traffic='").replace(
        'cluster="Coll', "cluster='Coll"
    )


def test_objects_show_themselves() -> None:
    plan = il.plan(CLUSTER, TRAFFIC, "direct")
    proof, comparison = plan.certificate(), il.compare(CLUSTER, TRAFFIC, ["direct", "rails-split"])
    for shown in (CLUSTER, TRAFFIC, plan, proof, plan.simulate(), comparison):
        html = shown._repr_html_()  # type: ignore[attr-defined]
        assert html.startswith("<p><b>") and html.count("<tr>") >= 2 and "<script" not in html
    assert "the NIC of server 0, GPU 1 is dead" in CLUSTER._repr_html_()
    assert f"gap {100 * proof.gap:.2f} %" in repr(proof)
    assert repr(plan.messages).startswith("columns src, dst, kind") and repr(plan.messages).endswith("of 16 rows")


def test_comparisons_become_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = il.compare(CLUSTER, TRAFFIC, ["direct", "rails-split"], baseline="direct")
    rows = list(csv.DictReader(io.StringIO(made.to_csv())))
    assert [row["algorithm"] for row in rows] == [row.algorithm for row in made.results]
    assert [float(row["times_faster_than_direct"]) for row in rows] == [made.times_faster(row) for row in made.results]
    made.to_html(tmp_path / "page.html")
    made.plans[0].to_html(tmp_path / "plan.html")
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: bool(opened.append(address)) or True)
    made.show()
    made.plans[0].show()
    assert len(opened) == 2 and all(address.startswith("file://") for address in opened)
    assert (tmp_path / "page.html").read_text().count("<html") == 1
