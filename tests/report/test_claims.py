"""Verdicts on published figures: never more than was shown, and where less, why."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import interlock as il
from interlock.cli.main import run
from interlock.errors import InvalidInput
from interlock.moe import SCHEMES
from interlock.report import reproduce_dysharp, reproduce_rails
from interlock.report.claims import (
    Claim,
    Constants,
    Published,
    Source,
    Status,
    counts,
    faster_than,
    judge,
    judge_share,
    judge_together,
)
from interlock.report.reproduce import PAPERS, SOURCES, reproduce
from interlock.report.reproduce_fast import padding_s, source_rail_load
from interlock.topology import Fabric

BAND = Published(1.2, 1.3)
STAYING = ("rails", "pxn", "forward")


@pytest.mark.parametrize(
    ("ours", "status"),
    [(1.25, "reproduced"), (1.1, "reproduced"), (1.4, "reproduced"), (1.0, "not reached"), (2.0, "not reached")],
)
def test_a_figure_is_judged_by_its_band_and_a_slack_on_either_side(ours: float, status: str) -> None:
    verdict = judge(ours, BAND, 0.1)
    assert verdict.status == status and bool(verdict.why) == (status == "not reached")


def test_an_open_band_has_no_top_and_says_how_far_below() -> None:
    assert judge(9.0, Published(3.0, math.inf), 0.1).status is Status.REPRODUCED
    assert judge(1.5, Published(3.0, math.inf), 0.1).why == "ours is 50 % below"


def test_a_band_without_a_foot_is_no_more_than_its_top() -> None:
    assert judge(0.2, Published(-math.inf, 1.0), 0.05).status is Status.REPRODUCED
    assert judge(1.2, Published(-math.inf, 1.0), 0.05).why == "ours is 20 % above"


def test_a_fitted_figure_is_fitted_and_no_more() -> None:
    assert judge(1.25, BAND, 0.1, fitted=True).status is Status.FITTED
    assert judge(2.0, BAND, 0.1, fitted=True).status is Status.NOT_REACHED


@pytest.mark.parametrize(("ours", "status"), [(10.0, "reproduced"), (5.0, "beaten"), (20.0, "not reached")])
def test_less_time_beats_and_more_does_not_reach(ours: float, status: str) -> None:
    assert faster_than(ours, Published.figure(10.0)).status == status


def test_no_row_is_reproduced_whose_place_is_reversed() -> None:
    """58 / 58 / 60 published; 66 / 65 / 64 of ours are all within 15 %, but the last should be first."""
    figures = [Published.figure(value) for value in (58.0, 58.0, 60.0)]
    verdicts = judge_together(["A", "B", "C"], [66.0, 65.0, 64.0], figures, 0.15, [False] * 3)
    assert [v.status for v in verdicts] == [Status.NOT_REACHED] * 3
    assert [v.why for v in verdicts[:2]] == [f"order reversed: ours puts {name} above C" for name in "AB"]
    in_order = judge_together(["A", "B", "C"], [65.0, 64.0, 66.0], figures, 0.15, [False] * 3)
    assert [v.status for v in in_order] == [Status.REPRODUCED] * 3


def test_overlapping_bands_have_no_order() -> None:
    bands = [Published(1.5, 1.9), Published(1.5, 1.7), Published(1.0, 1.1)]
    verdicts = judge_together(["A", "B", "C"], [1.5, 1.6, 1.05], bands, 0.1, [False] * 3)
    assert {v.status for v in verdicts} == {Status.REPRODUCED}


def test_a_lead_within_the_slack_is_not_reproduced_by_a_loss() -> None:
    """1.01-1.1 published: 0.95 and 1.13 are within 15 % of it, and are no gain and a third more of one."""
    lead = Published(1.01, 1.1)
    whys = [judge(ours, lead, 0.15, is_lead=True).why for ours in (0.95, 1.008, 1.009, 1.114, 1.13)]
    said = ["600 % less", "20 % less", "", "", "30 % more"]
    assert whys == [away and f"what ours has above 1 is {away}" for away in said]
    for ours, status in ((1.114, Status.REPRODUCED), (1.13, Status.NOT_REACHED)):
        assert judge_together(["NCCL"], [ours], [lead], 0.15, [False], are_leads=True)[0].status is status


def test_no_figure_is_called_better_founded_than_it_is() -> None:
    """Rates that a paper names are published, costs that it does not name are assumed, and RailS names neither."""
    rails = reproduce(["rails"], quick=True)
    assert {claim.constants for claim in rails} == {Constants.MODEL}
    assert all("scale_out_bandwidth" in claim.origins["assumed"] for claim in rails)
    assert {claim.constants for claim in reproduce(["tacos"], quick=True)} == {Constants.PROBLEM, Constants.TIMED}


def test_the_share_of_the_ideal_is_of_every_kind_of_topology_that_the_paper_names() -> None:
    claim = reproduce(["tacos"], quick=True)[-1]
    kinds = ("torus 8x8", "torus 4x4x4", "mesh 8x8", "mesh 4x4x4", "hypercube 2^6", "switch 16", "2D switch 4x8")
    assert all(f"{kind} " in claim.note for kind in (*kinds, "DGX-1", "DragonFly 4x5", "3D-RFS 2x4x8"))
    assert 90 < claim.ours <= 100 and claim.constants is Constants.PROBLEM
    assert (claim.status is Status.REPRODUCED) == (0.85 * 3 <= 100 - claim.ours <= 1.15 * 3)


@pytest.mark.parametrize(
    ("ours", "why"), [(97.4, ""), (96.6, ""), (94.4, "87 % more"), (96.5, "17 % more"), (98.5, "50 % less")]
)
def test_a_share_of_the_ideal_is_judged_by_what_it_lacks(ours: float, why: str) -> None:
    """97 % published: 94.4 % is 3 % of it away, and is nearly twice as far from the ideal."""
    verdict = judge_share(ours, Published.figure(97.0), 0.15)
    assert verdict.status is (Status.NOT_REACHED if why else Status.REPRODUCED)
    assert verdict.why == (why and f"what ours lacks of 100 % is {why}")


@pytest.fixture(scope="module")
def fast_claims() -> dict[str, Claim]:
    return {claim.claim: claim for claim in reproduce(["fast"], quick=True)}


def test_fast_has_all_rows_of_its_tables_on_both_clusters(fast_claims: dict[str, Claim]) -> None:
    for name, baselines in (
        ("H200", ("NCCL with PXN", "DeepEP", "TACCL, padded")),
        ("MI300X", ("SpreadOut", "RCCL", "TACCL, padded")),
    ):
        for load in ("random", "skewed"):
            assert {f"{name}, {load}: FAST over {what}" for what in baselines} < set(fast_claims)
        assert sum(word.startswith(f"{name}, balanced: throughput per GPU of ") for word in fast_claims) == 4


def test_what_was_fitted_is_never_called_reproduced(fast_claims: dict[str, Claim]) -> None:
    """RCCL, no-stage and the goodput of FAST were fitted to the logs that these rows stand beside."""
    balanced = [f"balanced: throughput per GPU of {system}" for system in ("FAST", "RCCL", "no-stage")]
    for words in ("random: FAST over RCCL", "skewed: FAST over RCCL", *balanced):
        claim = fast_claims[f"MI300X, {words}"]
        assert claim.constants is Constants.THIS
        assert claim.status in (Status.FITTED, Status.NOT_REACHED)
    assert fast_claims["MI300X, balanced: throughput per GPU of FAST"].source is Source.LOGS
    h200 = [claim for words, claim in fast_claims.items() if words.startswith("H200, ")]
    assert {claim.constants_text for claim in h200} == {"2 published, 4 assumed"}


def test_balanced_traffic_on_h200_is_not_reproduced_in_its_order(fast_claims: dict[str, Claim]) -> None:
    """Ours have no protocol overhead, and DeepEP, the fastest published, is last."""
    rows = [claim for words, claim in fast_claims.items() if words.startswith("H200, balanced")]
    assert [claim.status for claim in rows] == [Status.NOT_REACHED] * 4
    assert all("order reversed" in claim.note for claim in rows)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_fluid_model_of_deepep_s_routes_gives_the_published_lead(seed: int) -> None:
    """Its source rails carry at most 1.3 of the bound on random traffic; a lead of 1.5 needs more than routes."""
    cluster = il.cluster("h200", servers=4)
    assert 1.0 < source_rail_load(cluster, il.traffic.random(cluster, "512 MB", seed=seed)) < 1.3


def test_source_rails_by_hand() -> None:
    """GPU 0 owes the other server everything: its NIC carries twice the mean of the two."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    matrix = np.zeros((4, 4), np.int64)
    matrix[0, 2:] = 500
    assert source_rail_load(cluster, il.traffic.matrix(matrix)) == 2.0


def test_dysharp_s_halves_are_named_as_they_are_modelled() -> None:
    """Addressing overlaps as COMET does; fusion has no multicast and no sums."""
    assert SCHEMES["dysharp-addressing"].splits_gemms and SCHEMES["comet"].splits_gemms
    assert not SCHEMES["dysharp-fusion"].multicast and not SCHEMES["dysharp-fusion"].reduces
    times = {name: np.ones(9) for name in ("comet", "dysharp-addressing", "dysharp-fusion")}
    names = [claim.claim for claim in reproduce_dysharp._ablation(times)]
    assert names == ["addressing with COMET's overlap, over COMET, geomean", "fusion alone, over COMET, geomean"]


def test_tacos_rows_that_were_timed_say_so() -> None:
    made = reproduce(["tacos"], quick=True)
    assert len(made) == 13 and not any(claim.status is Status.NOT_COMPARABLE for claim in made)
    for claim in made:
        is_ours = claim.claim.startswith("All-Gather")
        assert (claim.source is Source.MEASURED) == is_ours
        assert ("measured by us" in claim.published_text) == is_ours


def test_rails_rows_are_rails_and_explain_the_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "rails", "--quick", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert sum(said["counts"].values()) == len(said["claims"]) == 5
    published = [claim["published"] for claim in said["claims"]]
    assert published == ["20", "78", "17", "78", "18-40"]  # ends beside ends: no place between them is "reproduced"
    step = said["claims"][-1]
    assert step["status"] == "not reached" and "at its lower bound the step would be" in step["note"]


@pytest.mark.parametrize(("most", "status"), [(1.78, Status.REPRODUCED), (3.0, Status.NOT_REACHED)])
def test_a_band_is_reproduced_where_both_of_its_ends_are(
    most: float, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = {"rails": 1.0, "ecmp": 1.2, "forward": 1.5, "pxn": most}
    monkeypatch.setattr(reproduce_rails, "_seconds", lambda where, demand, name: seconds[name])
    least, best, *_ = reproduce_rails._bands(il.cluster("h200", servers=2))
    assert (least.ours, best.ours) == (pytest.approx(20.0), pytest.approx(100 * (most - 1)))
    assert least.status is best.status is status
    assert ("by chance" in least.note) == (status is Status.NOT_REACHED)


def test_only_ecmp_leaves_the_rails_that_a_clos_joins() -> None:
    """Collisions of the Clos are ECMP's own; all others take what they take without a hash."""
    plain = il.cluster("h200", servers=4, scale_out="rail-spine")
    demand = il.traffic.zipf(plain, 0.8, "16 MB", seed=5)
    clos = plain.with_(fabric=Fabric("Clos", ecmp_radix=4))
    seconds = {name: [reproduce_rails._seconds(on, demand, name) for on in (plain, clos)] for name in STAYING}
    assert all(with_hash == without for without, with_hash in seconds.values())
    assert reproduce_rails._seconds(clos, demand, "ecmp") != reproduce_rails._seconds(plain, demand, "ecmp")


def test_notes_are_printed_on_request_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "rails", "--quick"]) == 0
    short = capsys.readouterr().out
    assert run(["reproduce", "rails", "--quick", "--notes"]) == 0
    long = capsys.readouterr().out
    assert "0 reproduced, 0 beaten, 0 fitted, 5 not reached" in short and "lower bound" not in short
    assert "lower bound" in long and SOURCES["rails"] in long


def test_counts_name_every_badge() -> None:
    assert list(counts([])) == list(Status) and set(counts([]).values()) == {0}


def test_every_paper_has_a_source() -> None:
    assert set(SOURCES) == set(PAPERS)
    assert all("arXiv" in source for source in SOURCES.values())


def test_an_unknown_paper_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'rails'"):
        reproduce(["rials"])


@pytest.mark.parametrize("preset", ["h200", "mi300x-100g"])
@pytest.mark.parametrize("skew", [0.0, 0.8])
def test_what_padding_costs_is_the_largest_pair_and_not_the_fabric(preset: str, skew: float) -> None:
    """Shifts of one size follow each other without loss, whatever the congestion control: 24 of them at 4x8."""
    cluster = il.cluster(preset, servers=4)
    demand = il.traffic.zipf(cluster, skew, "512 MB", seed=7)
    took_s = il.plan(cluster, demand, algorithm="padded").simulate(1e-3).makespan_s
    assert took_s == pytest.approx(padding_s(cluster, demand), rel=0.02)
