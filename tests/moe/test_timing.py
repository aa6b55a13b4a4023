"""The tile-level model: the paper's calibration, the closed form beside it, and what ours gains."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.errors import InvalidInput
from interlock.moe import (
    PAPER,
    SCHEMES,
    FixedRate,
    Layer,
    LayerTraffic,
    Machine,
    h200_gemms,
    layer_time,
    paper_layers,
    uniform_traffic,
)
from interlock.moe.comparison import choose_replicas, compare_schemes, lower_bound_s
from interlock.moe.constants import H200, MEASURED, ORIGIN, PAPER_RATE, Origin, list_flits
from interlock.moe.fluid import fluid_time_s, loads, useless_nvls_traffic
from interlock.moe.tiles import cut_chunks, cut_tiles
from interlock.traffic import Routing, eplb_placement, read_routing

GPUS = 8
LAYER = Layer("test", hidden=2048, ffn=512, experts=32, top_k=4, tokens_per_gpu=1024)


@st.composite
def traffics(draw: st.DrawFn) -> LayerTraffic:
    """Any tokens on any GPUs, experts anywhere."""
    gpus, top_k = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    tokens = draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    targets = rng.integers(0, gpus, (tokens, top_k)).astype(np.int32)
    slots = targets * 4 + rng.integers(0, 4, (tokens, top_k)).astype(np.int32)
    return LayerTraffic(gpus, rng.integers(0, gpus, tokens).astype(np.int32), targets, slots)


@settings(max_examples=60)
@given(traffics(), st.integers(1, 20), st.integers(1, 9))
def test_every_token_is_in_a_tile_of_each_of_its_slots(traffic: LayerTraffic, chunk: int, tile: int) -> None:
    chunks = cut_chunks(traffic, chunk)
    assert chunks.size.sum() == traffic.num_tokens
    assert chunks.copy_tokens.sum() == len(traffic.copies()[0])
    assert chunks.piece_tokens.sum() == traffic.targets.size
    for waves in (np.zeros(chunks.per_gpu, np.int64), np.arange(chunks.per_gpu)):
        tiles = cut_tiles(chunks, tile, waves)
        assert tiles.tokens.sum() == traffic.targets.size and tiles.tokens.max() <= tile and tiles.tokens.min() >= 1
        assert len(np.unique(tiles.piece)) == len(chunks.piece_tokens)


@settings(max_examples=40)
@given(traffics(), st.sampled_from(sorted(SCHEMES)), st.booleans())
def test_no_scheme_beats_the_bound_and_all_work_is_done(traffic: LayerTraffic, name: str, backward: bool) -> None:
    time = layer_time(name, LAYER, traffic, backward=backward)
    assert time.makespan_s >= lower_bound_s(LAYER, traffic, PAPER, backward) * (1 - 1e-9) or name == "nvls"
    choices = np.bincount(traffic.targets.reshape(-1), minlength=traffic.num_gpus)
    busy_s = (2 if backward else 1) * LAYER.flops_per_choice * choices / (0.95 * 1979e12)
    assert (time.compute_busy_s >= busy_s * (1 - 1e-9)).all()
    assert (time.compute_busy_s <= time.makespan_s * (1 + 1e-9)).all()


@settings(max_examples=40)
@given(traffics(), st.sampled_from(sorted(SCHEMES)))
def test_no_scheme_beats_the_bound_with_measured_gemms(traffic: LayerTraffic, name: str) -> None:
    measured = replace(PAPER, gemms=h200_gemms())
    time = layer_time(name, LAYER, traffic, measured)
    assert time.makespan_s >= lower_bound_s(LAYER, traffic, measured) * (1 - 1e-9) or name == "nvls"


def test_measured_gemms_are_slow_with_few_tokens_and_steady_with_many() -> None:
    large = next(layer for layer in paper_layers() if layer.name == "large-8")
    tokens = np.array([1, 64, 128, 512, 2048, 8192, 100_000])
    rate = large.flops_per_choice / h200_gemms().row_s(large, tokens).sum(axis=0)
    assert (np.diff(rate[:4]) > 0).all() and rate[0] < 10e12
    assert (np.abs(rate[3:] / 680e12 - 1) < 0.1).all() and rate[5] == rate[6]
    assert h200_gemms().row_s(replace(large, ffn=2 * large.ffn), tokens) == pytest.approx(
        2 * h200_gemms().row_s(large, tokens)
    )


@pytest.mark.parametrize("ffn", [512, 2048, 4096])  # links or experts are the bottleneck
@pytest.mark.parametrize("name", ["deepep", "nvls", "comet", "dysharp", "inswitch"])
def test_tiles_and_fluid_agree_where_both_apply(name: str, ffn: int) -> None:
    """Within 5 % once the layer is long against one tile; the fill and drain of the pipeline is what they differ by."""
    layer = replace(LAYER, tokens_per_gpu=8192, ffn=ffn)
    traffic = uniform_traffic(layer, GPUS, seed=1)
    tile, fluid = layer_time(name, layer, traffic).makespan_s, fluid_time_s(name, layer, traffic, PAPER)
    assert fluid <= tile * (1 + 1e-9)
    assert tile / fluid < 1.05


def test_useless_traffic_of_the_nvls_workaround_is_the_papers() -> None:
    large = next(layer for layer in paper_layers() if layer.name == "large-8")
    assert 100 * useless_nvls_traffic(large, 32) == pytest.approx(340, abs=10)


def test_communication_share_is_the_papers() -> None:
    large = next(layer for layer in paper_layers() if layer.name == "large-8")
    part = loads(large, uniform_traffic(large, 32), PAPER)
    dispatch_s = max(part.out_s, part.in_s)
    assert 100 * 2 * dispatch_s / (2 * dispatch_s + part.experts_s) == pytest.approx(70.4, abs=3)


def test_neither_half_of_dysharp_helps_alone() -> None:
    """With few targets per token both together gain less, the more so as packets carry lists of them."""
    layer = replace(LAYER, experts=64, top_k=8, tokens_per_gpu=2048)
    traffic = uniform_traffic(layer, 2 * GPUS)
    time = {name: layer_time(name, layer, traffic).makespan_s for name in SCHEMES}
    assert time["dysharp-addressing"] > 0.97 * time["comet"] and time["dysharp-fusion"] > 0.97 * time["comet"]
    assert time["dysharp"] < 0.75 * time["comet"]


@pytest.mark.parametrize(
    ("field", "small", "papers"), [("tlb_entries", 64, 512), ("reduction_buffer_bytes", 8 * 1024, 64 * 1024)]
)
def test_the_papers_sizes_are_enough_and_smaller_ones_cost(field: str, small: int, papers: int) -> None:
    layer = replace(LAYER, tokens_per_gpu=512, experts=128, top_k=32)
    traffic = uniform_traffic(layer, 32)
    time = [
        layer_time("dysharp", layer, traffic, replace(PAPER, **{field: size})).makespan_s
        for size in (small, papers, 4 * papers)
    ]
    assert time[0] > 1.1 * time[1] and time[1] == pytest.approx(time[2], rel=0.01)


def test_tiles_of_128_tokens_are_best_where_experts_press() -> None:
    """Shorter ones run at a lower measured rate, taller ones start later."""
    large = replace(paper_layers()[6], tokens_per_gpu=4096, ffn=4096)  # at 2048 links press, and 64 is as good
    traffic = uniform_traffic(large, 32)
    time = {
        tile: layer_time("dysharp", large, traffic, replace(PAPER, tile_tokens=tile)) for tile in (32, 64, 128, 512)
    }
    assert min(time, key=lambda tile: time[tile].makespan_s) == 128
    assert time[32].makespan_s > 1.3 * time[128].makespan_s


def test_short_tiles_are_slower_and_none_is_faster_than_the_standard() -> None:
    slowdown = [replace(PAPER, tile_tokens=tile).tile_slowdown(LAYER) for tile in (8, 16, 32, 64, 128, 256, 4096)]
    assert (np.diff(slowdown[:5]) < 0).all() and slowdown[4:] == [1.0, 1.0, 1.0]
    assert slowdown[0] == pytest.approx(2 * slowdown[1])


def test_entries_in_use_do_not_depend_on_the_number_of_gpus() -> None:
    """512 entries hold 16 rows of top-32, the most of the paper's layers."""
    assert PAPER.multicast_factor(32) == 1.0 < replace(PAPER, tlb_entries=256).multicast_factor(32)
    assert replace(PAPER, tlb_entries=128).multicast_factor(8) == 1.0


def test_lists_of_targets_lengthen_what_names_them_and_nothing_else() -> None:
    """Sixteen targets are two extension flits, eight one: 11 flits for 8 of payload instead of 10; a unicast has 9."""
    token = np.array(1)
    alone, eight, sixteen = (
        float(PAPER.wire_s(LAYER, 2.0, token, list_flits(np.array(count)))) for count in (0, 8, 16)
    )
    assert (eight / alone, sixteen / alone) == pytest.approx((10 / 9, 11 / 9))
    few, many = np.full((64, 9), 1, np.int32), np.full((64, 8), 1, np.int32)
    home = np.zeros(64, np.int32)
    nine, ten = (LayerTraffic(2, home, targets, targets) for targets in (many, few))
    for name, how in SCHEMES.items():
        layer = replace(LAYER, tokens_per_gpu=32)
        up = [float(layer_time(name, layer, traffic).up_busy_s[0]) for traffic in (nine, ten)]
        if how.names_targets:
            assert up[1] > 1.05 * up[0]
        else:
            assert up[1] == pytest.approx(up[0])


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_depends_on_the_constants_it_names_and_on_no_others(name: str) -> None:
    layer = replace(LAYER, experts=128, top_k=32, tokens_per_gpu=200)
    traffic = uniform_traffic(layer, GPUS)
    # So that tables and buffers press, and launches and flags take time.
    tight = replace(PAPER, tlb_entries=64, reduction_buffer_bytes=16 * 1024, launch_s=2e-6, flag_s=1e-6)

    def times(machine: Machine) -> list[float]:
        """Of the whole, of links and SMs, which may have time to spare, and of every start."""
        made = layer_time(name, layer, traffic, machine)
        parts = (made.up_busy_s, made.down_busy_s, made.compute_busy_s, made.start_s)
        return [made.makespan_s, *(float(part.sum()) for part in parts)]

    before = times(tight)
    half = {
        field: value / 2 if isinstance(value, float) else max(1, value // 2)
        for field, value in ((field.name, getattr(tight, field.name)) for field in fields(Machine))
        if isinstance(value, int | float)
    }
    half["gemms"] = FixedRate(PAPER_RATE.flops_per_s / 2)
    half["tile_rows"] = 16
    moved = {field for field, value in half.items() if times(replace(tight, **{field: value})) != before}
    assert moved == set(SCHEMES[name].constants) - {"FLIT_BYTES", "IDS_PER_FLIT"}
    assert set(ORIGIN) == {field.name for field in fields(Machine)} | {"FLIT_BYTES", "IDS_PER_FLIT"}


def test_the_h200_says_which_constants_were_measured_and_slows_what_computes_beside_copies() -> None:
    assert [name for name in ORIGIN if H200.origin(name) is Origin.MEASURED] == list(MEASURED)
    assert PAPER.origin("gemms") is Origin.FITTED and replace(PAPER, sms=100).origin("sms") is None
    layer = replace(LAYER, ffn=4096, tokens_per_gpu=2048)  # experts press
    traffic = uniform_traffic(layer, GPUS)
    beside, foreign, launched = (
        {name: layer_time(name, layer, traffic, replace(PAPER, **change)).makespan_s for name in SCHEMES}
        for change in ({"beside_slowdown": 1.5}, {"foreign_slowdown": 2.5}, {"launch_s": 50e-6})
    )
    before = {name: layer_time(name, layer, traffic).makespan_s for name in SCHEMES}
    assert {name for name in SCHEMES if beside[name] > 1.2 * before[name]} == {
        "comet", "dysharp-addressing", "dysharp-fusion", "dysharp", "inswitch",
    }  # fmt: skip
    assert foreign["tutel"] > 1.05 * before["tutel"] and foreign["deepep"] == before["deepep"]
    assert launched["deepep"] - before["deepep"] == pytest.approx(3 * 50e-6)  # experts, second GEMM, combine


def test_waves_of_a_librarys_gemm_read_weights_again() -> None:
    """Few tokens of an expert in a wave run at the rate of few tokens."""
    layer = replace(LAYER, hidden=4096, ffn=1536, tokens_per_gpu=512)
    chunks = cut_chunks(uniform_traffic(layer, GPUS), 128)
    whole, halves = (cut_tiles(chunks, 128, np.arange(chunks.per_gpu) * waves // chunks.per_gpu) for waves in (1, 2))
    assert (whole.wave_tokens == whole.slot_tokens).all() and (halves.wave_tokens < halves.slot_tokens).all()
    assert H200.gemms.row_s(layer, np.array([128])).sum() > 1.2 * H200.gemms.row_s(layer, np.array([512])).sum()


def _routing(seed: int, replicas: int) -> Routing:
    rng = np.random.default_rng(seed)
    weights = np.arange(1, 17) ** -1.0
    experts = np.stack([rng.choice(16, 3, replace=False, p=weights / weights.sum()) for _ in range(400)])
    rank = (np.arange(400) * 4 // 400).astype(np.int32)
    loads_ = np.bincount(experts.reshape(-1), minlength=16)
    return Routing(experts.astype(np.int32), rank, eplb_placement(loads_, 4, replicas))


@pytest.mark.parametrize("seed", range(5))
def test_chosen_replicas_hold_the_expert_and_lower_the_bound(seed: int) -> None:
    routing = _routing(seed, replicas=2)
    targets = choose_replicas(routing, LAYER, PAPER)
    ranks = routing.placement.ranks_of_expert
    assert all(targets[t, k] in ranks[routing.experts[t, k]] for t in range(400) for k in range(3))
    ours = LayerTraffic.from_targets(routing, targets)
    assert lower_bound_s(LAYER, ours, PAPER) < lower_bound_s(LAYER, LayerTraffic.from_routing(routing), PAPER)


def test_without_replicas_there_is_nothing_to_choose() -> None:
    routing = _routing(0, replicas=0)
    assert np.array_equal(choose_replicas(routing, LAYER, PAPER), routing.targets())


@pytest.mark.parametrize("task", ["intent", "summary"])
def test_ours_is_faster_than_dysharp_on_real_routing(shared_data: Path, task: str) -> None:
    """Equal precision, two extra replica slots per GPU for both, one partial per GPU for both."""
    ratios = []
    for number, gpus in ((3, 8), (10, 16), (20, 32)):
        routing = read_routing(shared_data / "moe" / "esft_top6_routing.npz", gpus, task, number, 64)
        routing = routing.with_placement(eplb_placement(routing.expert_loads(), gpus, 2))
        layer = Layer("esft", 2048, 1408, 64, 6, routing.num_tokens // gpus)
        rows = {row.algorithm: row for row, _ in compare_schemes(layer, routing, ["dysharp", "inswitch"])}
        ratios.append(rows["dysharp"].makespan_s / rows["inswitch"].makespan_s)
    assert min(ratios) >= 1.0 and np.exp(np.mean(np.log(ratios))) >= 1.08


def test_odd_shapes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="evenly"):
        uniform_traffic(LAYER, 7)
    with pytest.raises(InvalidInput, match="did you mean 'dysharp'"):
        layer_time("dysharb", LAYER, uniform_traffic(LAYER, 8))
