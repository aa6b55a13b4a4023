"""How uneven traffic is, and profiles of published routing."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlock as il
from interlock.cli.main import run
from interlock.traffic import Unevenness, gini
from interlock.traffic.moe_router import PROFILES, moe_routing


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30))
def test_gini_is_half_the_mean_difference_over_the_mean(values: list[int]) -> None:
    given_values = np.array(values, float)
    apart = np.abs(given_values[:, None] - given_values).mean()
    expected = apart / (2 * given_values.mean()) if given_values.any() else 0.0
    assert gini(values) == pytest.approx(expected, abs=1e-12)


def test_pairs_leave_the_diagonal_out_and_idle_ranks_do_not_count() -> None:
    matrix = np.array([[5, 2, 0], [2, 5, 0], [0, 0, 0]])
    assert Unevenness.of(matrix) == Unevenness(0.0, 1.0, 0.0, 1.0)
    hot = np.array([[0, 4], [0, 0]])
    assert Unevenness.of(hot) == Unevenness(0.5, 2.0, 0.5, 2.0)


def test_zipf_is_skewed_by_pairs_and_a_hot_expert_by_receivers(h200_4x8: il.Cluster) -> None:
    zipf = il.traffic.zipf(h200_4x8, skew=0.8, seed=0).unevenness
    hot = il.traffic.hot_expert(h200_4x8, skew=0.8, seed=0).unevenness
    assert zipf.pairs_gini > 4 * zipf.received_gini
    assert hot.pairs_gini == pytest.approx(hot.received_gini, abs=0.05)


@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.parametrize(("experts", "top_k"), [(256, 8), (64, 6)])
def test_profiles_have_the_published_gini(h200_4x8: il.Cluster, profile: str, experts: int, top_k: int) -> None:
    """Tokens per expert, drawn token by token; two seeds that nothing was tuned on."""
    for seed in (11, 12):
        loads = moe_routing(h200_4x8, 512, experts, top_k, profile=profile, seed=seed).expert_loads()
        assert gini(loads) == pytest.approx(PROFILES[profile], abs=0.01)


def test_profiles_hold_while_popularity_drifts(h200_4x8: il.Cluster) -> None:
    loads = [moe_routing(h200_4x8, 512, 64, 6, profile="mla", drift=0.3, step=step).expert_loads() for step in (0, 5)]
    assert not np.array_equal(np.argsort(loads[0]), np.argsort(loads[1]))
    assert [gini(each) for each in loads] == pytest.approx([0.265, 0.265], abs=0.012)


def test_a_profile_is_a_word_of_traffic(h200_4x8: il.Cluster) -> None:
    by_word = il.traffic.parse("moe:mla", h200_4x8, "64 MB", seed=3)
    assert by_word.name == "moe:mla"
    assert by_word == il.traffic.moe(h200_4x8, profile="mla", bytes_per_gpu="64 MB", seed=3)


def test_a_profile_that_is_unknown_or_out_of_reach_is_refused(h200_4x8: il.Cluster) -> None:
    with pytest.raises(il.InvalidInput, match="did you mean 'mla'"):
        il.traffic.moe(h200_4x8, profile="mlaa")
    with pytest.raises(il.InvalidInput, match="more than 8 experts of which a token takes 8"):
        il.traffic.moe(h200_4x8, experts=8, top_k=8, profile="mla")


GRID = 'clusters = [{preset = "h200", servers = 2, gpus_per_server = 2}]\nalgorithms = ["direct"]\nsizes = ["1 MB"]\n'
DRAW = {
    "compare": ["--servers", "2", "--algorithms", "direct", "--traffic", "moe:gqa"],
    "plan": ["--servers", "2", "--algorithm", "direct"],
    "synth": ["--topology", "mesh:2x2", "--collective", "all-to-allv", "--traffic", "zipf:0.8"],
    "step": ["deepseek-pair", "--algorithms", "serial"],
    "moe layer": ["--layer", "small-8", "--gpus", "4", "--schemes", "deepep"],
    "moe across": ["--servers", "2", "--tokens", "64"],
    "moe plan": ["--servers", "2", "--tokens", "64", "--algorithms", "serial"],
    "moe step": ["--servers", "2", "--algorithms", "direct"],
}


@pytest.mark.parametrize("command", DRAW)
def test_commands_that_draw_traffic_say_how_uneven_it_is(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*command.split(), *DRAW[command]]
    assert run(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    part = r"Gini (0\.\d\d), max/mean (\d+\.\d\d)"
    told = re.search(f"ranks receive {part}; pairs {part}", said)
    assert told is not None
    assert run([*words, "--json"]) == 0
    problem = json.loads(capsys.readouterr().out)["problem"]
    held = [*problem.get("tasks", []), problem]
    found = [tuple(f"{value:.2f}" for value in each["unevenness"].values()) for each in held if "unevenness" in each]
    assert told.groups() in found


def test_a_sweep_says_it_for_every_load(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(GRID + 'traffic = ["uniform", "zipf:0.8"]\nseeds = [1, 2]\n')
    assert run(["sweep", str(grid), "--workers", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    drawn = [il.traffic.zipf(cluster, 0.8, "1 MB", seed=seed).unevenness for seed in (1, 2)]
    gini, peak = (np.mean([getattr(each, f"pairs_{what}") for each in drawn]) for what in ("gini", "peak"))
    assert next(line for line in lines if "zipf:0.8" in line).count(f"{gini:.2f}, {peak:.2f}") == 1
    assert next(line for line in lines if "uniform" in line).count("0.00, 1.00") == 2


FILES = {
    "a demand": ["plan", "--servers", "2", "--algorithm", "direct"],
    "a step": ["step", "deepseek-pair", "--algorithms", "serial"],
}
READ = {"simulate": [], "verify": [], "export": ["--to", "chrome-trace", "-o", "trace.json"]}


def pairs_gini(printed: str) -> list[float]:
    """Of each demand of a problem; what ranks receive differs in a step's file, which leaves out what stays."""
    problem = json.loads(printed)["problem"]
    held = [*problem.get("tasks", []), problem]
    return [each["unevenness"]["pairs_gini"] for each in held if "unevenness" in each]


@pytest.mark.parametrize("command", READ)
@pytest.mark.parametrize("held", FILES)
def test_commands_that_read_a_schedule_of_bytes_say_it_too(
    held: str, command: str, tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*FILES[held], "-o", "plan.ilk", "--json"]) == 0
    drawn = pairs_gini(capsys.readouterr().out)
    assert run([command, "plan.ilk", *READ[command]]) == 0
    assert "ranks receive Gini 0." in " ".join(capsys.readouterr().out.split())
    assert run([command, "plan.ilk", *READ[command], "--json"]) == 0
    assert pairs_gini(capsys.readouterr().out) == drawn
