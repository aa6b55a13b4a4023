"""Verdicts on published figures: never more than was shown, and where less, why."""

from __future__ import annotations

import pytest

from interlock.errors import InvalidInput
from interlock.report import reproduce_tacos
from interlock.report.claims import Status, judge, judge_over_baseline, within
from interlock.report.reproduce import PAPERS, SOURCES, reproduce


@pytest.mark.parametrize(
    ("ours", "status"),
    [(1.25, "reproduced"), (1.1, "reproduced"), (1.4, "reproduced"), (1.0, "not reached"), (2.0, "beaten")],
)
def test_a_figure_is_judged_by_its_band_and_a_tenth(ours: float, status: str) -> None:
    assert judge(ours, 1.2, 1.3) == status


@pytest.mark.parametrize(("ours", "status"), [(10.0, "reproduced"), (5.0, "beaten"), (20.0, "not reached")])
def test_less_time_beats_and_more_does_not_reach(ours: float, status: str) -> None:
    assert judge(ours, 10.0, less_is_better=True) == status


@pytest.mark.parametrize(
    ("ours", "high", "status"),
    [(1.25, 1.3, "reproduced"), (4.0, 1.3, "not comparable"), (0.9, 1.3, "not reached"), (4.0, None, "reproduced")],
)
def test_a_baseline_worse_than_theirs_proves_nothing(ours: float, high: float | None, status: str) -> None:
    assert judge_over_baseline(ours, 1.2, high, slack=0.1) == status


def test_a_model_reproduces_within_its_slack_or_not_at_all() -> None:
    assert within(2.0, 2.1, 0.1) is Status.REPRODUCED
    assert within(3.0, 2.1, 0.1) is Status.NOT_REACHED


@pytest.mark.parametrize("paper", ["fast", "rails", "tacos"])
def test_every_claim_that_is_not_reached_or_not_comparable_says_why(paper: str) -> None:
    made = reproduce([paper], quick=True)

    assert {claim.paper for claim in made} == {paper}
    assert len({claim.claim for claim in made}) == len(made) >= 7
    for claim in made:
        if claim.status in (Status.NOT_REACHED, Status.NOT_COMPARABLE):
            assert len(claim.note) > len("simulated, 512 MB per GPU; adaptive (ours): 1.23x"), claim


def test_fast_has_all_rows_of_its_tables_on_both_clusters() -> None:
    words = [claim.claim for claim in reproduce(["fast"], quick=False)]
    for name, baselines in (
        ("H200", ("NCCL with PXN", "DeepEP", "TACCL, padded")),
        ("MI300X", ("SpreadOut", "RCCL", "TACCL, padded", "TE-CCL, padded")),
    ):
        for load in ("random", "skewed"):
            assert {f"{name}, {load}: FAST over {what}" for what in baselines} < set(words)
        assert sum(word.startswith(f"{name}, balanced: throughput per GPU of ") for word in words) == 4
    assert [word for word in words if "planning" in word] == [
        f"planning time, {gpus} GPUs" for gpus in (16, 32, 64, 96, 320)
    ]


def test_tacos_is_set_against_baselines_on_all_its_kinds_of_topology(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(reproduce_tacos, "_speedups", lambda name, _: asked.append(name) or [])
    reproduce_tacos._over_baselines(quick=False)
    for kind in ("mesh", "torus", "hypercube", "switch of", "switches", "DGX-1", "DragonFly", "3D-RFS", "unlike"):
        assert any(kind in name for name in asked), kind


def test_every_paper_has_a_source() -> None:
    assert set(SOURCES) == set(PAPERS)
    assert all("arXiv" in source for source in SOURCES.values())


def test_an_unknown_paper_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'rails'"):
        reproduce(["rials"])
