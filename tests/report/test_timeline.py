"""The timeline of a page in a real browser: by rank and by link, zoomed by mouse, keys and buttons."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock.report import timeline
from interlock.report.compare_page import save_compare_page

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("view", ["sending rank", "receiving rank", "link"])
def test_the_timeline_holds_each_message_on_its_rows(opened: Any, comparison: il.Comparison, view: str) -> None:
    opened.page.select_option("#choice", "direct")
    opened.page.select_option("#view", view)
    result = next(made for made in comparison.plans if made.algorithm == "direct").simulate()
    rows = {"sending rank": result.schedule.src, "receiving rank": result.schedule.dst, "link": result.path}[view]
    shown = opened.value("timeline.rows.flatMap((row, k) => row.bars.map(bar => [k, timeline.data.end[bar]]))")
    expected = [[row, 1e3 * end] for m, end in enumerate(result.finish_s.tolist()) for row in rows[m].tolist()]

    assert sorted(shown) == sorted(expected)


SPAN = "timeline.t1 - timeline.t0"
ROWS = "timeline.r1 - timeline.r0"


def test_dragging_zooms_the_timeline_and_a_double_click_goes_back(opened: Any) -> None:
    page = opened.page
    page.select_option("#choice", "spreadout")
    page.select_option("#view", "sending rank")
    whole = opened.value(SPAN)
    page.locator("#timeline canvas").scroll_into_view_if_needed()
    box = page.locator("#timeline canvas").bounding_box()
    left, width, height = (opened.value(f"timeline.{name}") for name in ("left", "width", "height"))
    assert box is not None
    x, y = box["x"] + left + width / 4, box["y"] + height / 4
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + width / 4, y + height / 4, steps=4)
    page.mouse.up()
    zoomed, rows = opened.value(SPAN), opened.value(ROWS)
    page.mouse.dblclick(x, y)

    assert zoomed == pytest.approx(whole / 4, rel=0.05)
    assert rows in (2, 3)  # of eight: whole rows, a quarter of the height
    assert (opened.value(SPAN), opened.value(ROWS)) == (whole, 8)


@pytest.mark.parametrize(
    ("keys", "span", "rows"),
    [
        (["+"], 1 / 2, 1),
        (["+", "+", "-"], 1 / 2, 1),
        (["Shift+ArrowUp"], 1, 1 / 2),
        (["+", "ArrowRight", "ArrowLeft", "Shift+ArrowUp", "ArrowDown", "0"], 1, 1),
    ],
)
def test_keys_zoom_the_timeline(opened: Any, keys: list[str], span: float, rows: float) -> None:
    page = opened.page
    page.select_option("#choice", "direct")
    before = opened.value(SPAN), opened.value(ROWS)
    page.focus("#timeline canvas")
    for key in keys:
        page.keyboard.press(key)

    assert opened.value(SPAN) == pytest.approx(span * before[0])
    assert opened.value(ROWS) == pytest.approx(rows * before[1])


@pytest.mark.parametrize(
    ("view", "words", "name"),
    [("sending rank", "3", "rank 3"), ("link", "rank 5 nic in", "rank 5 NIC in"), ("link", "0", "rank 0 scale-up out")],
)
def test_one_rank_or_link_can_be_shown_alone(opened: Any, view: str, words: str, name: str) -> None:
    page = opened.page
    page.select_option("#choice", "fast")
    page.select_option("#view", view)
    page.fill("#find", words)
    alone = opened.value("timeline.names.slice(timeline.r0, timeline.r1)")
    page.click("[data-do=whole]")
    again = opened.value(f"({ROWS}) === timeline.names.length")

    assert alone == [name]
    assert again is True


@pytest.mark.parametrize("way", ["mouse", "keyboard"])
def test_a_bar_says_which_message_it_is(opened: Any, way: str) -> None:
    page = opened.page
    page.select_option("#choice", "direct")
    page.select_option("#view", "sending rank")
    page.locator("#timeline canvas").scroll_into_view_if_needed()
    if way == "mouse":
        box = page.locator("#timeline canvas").bounding_box()
        left = opened.value("timeline.left")
        assert box is not None
        page.mouse.move(box["x"] + left + 20, box["y"] + 10, steps=3)
    else:
        page.focus("#timeline canvas")
        page.keyboard.press("n")
    words = page.text_content("#timeline-status") or ""

    assert re.search(r"from \d+, to \d+, stage \d+, [\d.]+ [kMG]?B, message \d+; ", words), words


def test_the_trace_saved_from_the_page_has_every_message(opened: Any, comparison: il.Comparison) -> None:
    opened.page.select_option("#choice", "fast")
    with opened.page.expect_download() as download:
        opened.page.click("#trace button")
    saved = json.loads(download.value.path().read_text())
    result = next(made for made in comparison.plans if made.algorithm == "fast").simulate()
    events = {event["args"]["message"]: event for event in saved["traceEvents"] if event["ph"] == "X"}

    assert download.value.suggested_filename == "fast.trace.json"
    assert len(events) == result.schedule.num_messages
    for message, event in events.items():
        assert event["ts"] + event["dur"] == pytest.approx(1e6 * result.finish_s[message])


def test_a_large_timeline_is_merged_and_its_trace_lies_beside_the_page(
    open_page: Callable[..., Any], comparison: il.Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "MAX_BARS", 40)
    save_compare_page(comparison, tmp_path / "big.html", "interlock compare")
    shown = open_page(tmp_path / "big.html")
    shown.page.select_option("#choice", "direct")
    result = next(made for made in comparison.plans if made.algorithm == "direct").simulate()
    address = shown.page.get_attribute("#trace a", "href")
    parts = shown.value(
        "[timeline.data.columns.parts, timeline.data.columns.bytes].map(c => c.reduce((a, b) => a + b))"
    )

    assert address == "big.traces/direct.json.gz"
    saved = json.loads(gzip.decompress((tmp_path / address).read_bytes()))
    assert sum(event["ph"] == "X" for event in saved["traceEvents"]) == result.schedule.num_messages
    assert parts == [result.schedule.num_messages, int(result.schedule.size_bytes.sum())]
    assert shown.value("timeline.data.start.length") <= 40
    assert shown.value("Math.max(...timeline.data.end)") == pytest.approx(1e3 * result.makespan_s)
    assert "56 messages" in (shown.page.text_content("#timeline-status") or "")
