"""Timelines: parts of a training step follow each other, or overlap where the model says so; tracks of schemes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from interlock.moe import Iteration, Layer, layer_time, uniform_traffic
from interlock.moe.pictures import layer_spans, step_svg, timeline_svg

ROW = Iteration(
    model="m",
    algorithm="a<b",
    overlap=False,
    attention_s=0.6,
    experts_s=1.2,
    communication_s=1.2,
    iteration_s=3.0,
    communication_share=0.4,
    moe_layers=2,
    dispatch_s=0.1,
    combine_s=0.2,
)


def test_parts_follow_each_other_and_fill_the_layer() -> None:
    spans = layer_spans(ROW)
    assert [span.part for span in spans[:4]] == ["attention", "dispatch", "experts", "combine"]
    assert all(after.start_s == before.end_s for before, after in pairwise(spans))
    assert spans[-1].end_s == pytest.approx(ROW.iteration_s / ROW.moe_layers)


def test_with_overlap_experts_and_communication_start_together() -> None:
    spans = layer_spans(replace(ROW, overlap=True))
    start = {span.part: span.start_s for span in reversed(spans)}
    assert start["dispatch"] == start["experts"] == pytest.approx(0.1)
    assert max(span.end_s for span in spans) < ROW.iteration_s / ROW.moe_layers


def test_the_picture_is_well_formed_and_names_every_algorithm() -> None:
    root = ElementTree.fromstring(step_svg([ROW, replace(ROW, algorithm="c")]))
    words = " ".join(element.text or "" for element in root.iter())
    assert "a<b: 1.5 s" in words and "c: 1.5 s" in words and "modelled" in words


def test_the_picture_of_schemes_has_their_tracks_one_below_the_other() -> None:
    layer = Layer("small", hidden=1024, ffn=512, experts=16, top_k=3, tokens_per_gpu=64)
    times = [layer_time(name, layer, uniform_traffic(layer, 4)) for name in ("deepep", "dysharp")]
    root = ElementTree.fromstring(timeline_svg(times))
    words = " ".join(element.text or "" for element in root.iter())
    assert all(f"{time.scheme}: " in words for time in times) and words.count("SMs, GEMM-1") == 2
    rows = {float(element.get("y") or 0) for element in root.iter() if element.get("height") == "24"}
    # Of deepep both GEMMs are on one group of SMs.
    assert len(rows) == 7 and max(rows) + 24 < float((root.get("viewBox") or "").split()[3])
