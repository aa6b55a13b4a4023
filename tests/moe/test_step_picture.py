"""The timeline of a training step: parts follow each other, or overlap where the model says so."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from interlock.moe import Iteration
from interlock.moe.step_picture import layer_spans, step_svg

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
