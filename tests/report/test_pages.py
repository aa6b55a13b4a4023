"""Report pages in a real browser: they open from disk, fetch nothing, and do what they offer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock.comparison import row_of
from interlock.moe import compare_schemes, paper_layers, uniform_traffic
from interlock.report.claims import Claim, Status
from interlock.report.compare_page import plan_page
from interlock.report.lab_page import lab_page
from interlock.report.moe_page import layer_page, moe_page
from interlock.report.reproduce import reproduce_page
from interlock.report.sweep_page import sweep_page
from interlock.units import format_bytes

pytestmark = pytest.mark.browser


def test_a_report_fetches_nothing_and_complains_of_nothing(opened: Any, report: Path) -> None:
    opened.page.select_option("#choice", "spreadout")
    opened.page.click("#theme")
    opened.page.click("#theme")

    assert [url for url in opened.requests if not url.startswith(("data:", "blob:"))] == [report.as_uri()]
    assert opened.complaints == []


def test_every_figure_is_drawn(opened: Any) -> None:
    colours = """[...document.querySelectorAll('canvas')].map(canvas => {
        const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(image.data.buffer)).size;
    })"""
    sides, heat, timeline = opened.value(colours)
    assert sides > 20

    assert heat > 10 and timeline > 5
    assert opened.value("document.querySelectorAll('#times .bar, #planning .bar').length") == 8
    assert opened.value("document.querySelectorAll('#totals [data-y]').length") == 16
    assert opened.value(
        "[...document.querySelectorAll('.bar')].every(bar => bar.clientWidth > 0 && bar.clientHeight > 9)"
    )


def test_the_heat_map_tells_the_bytes_by_mouse_and_keys(opened: Any, comparison: il.Comparison) -> None:
    matrix = comparison.problem.demand.bytes_matrix  # type: ignore[union-attr]
    cells = opened.value("[...decode(page.heat.cells)]")
    opened.page.hover("#traffic", position={"x": 1, "y": 1})
    first = opened.page.text_content("#heat-status")
    opened.page.focus("#traffic")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        opened.page.keyboard.press(key)

    assert cells == matrix.ravel().tolist()
    assert first == f"From rank 0 to rank 0: {format_bytes(float(matrix[0, 0]))}"
    assert opened.page.text_content("#heat-status") == f"From rank 2 to rank 1: {format_bytes(float(matrix[2, 1]))}"


def test_numbers_on_the_page_are_those_of_json(opened: Any, comparison: il.Comparison) -> None:
    results = json.loads(json.dumps(comparison.to_dict()))["results"]
    bars = (
        "['times', 'planning'].map(id => [...document.querySelectorAll(`#${id} .bar`)].map(b => Number(b.dataset.ms)))"
    )
    shown = opened.value(bars)
    cells = opened.value(
        "[...document.querySelectorAll('tr[data-name]')].map(r => [...r.cells].map(c => c.textContent.trim()))"
    )

    assert shown == [[1e3 * row[field] for row in results] for field in ("makespan_s", "plan_s")]
    assert [row[0] for row in cells] == [row["algorithm"] for row in results]
    assert [row[2] for row in cells] == [f"{1 + row['gap']:.3f}" for row in results]
    assert [int(row[5]) for row in cells] == [row["stages"] for row in results]


def test_link_load_is_drawn_as_simulated(opened: Any, comparison: il.Comparison) -> None:
    opened.page.select_option("#choice", "fast")
    result = next(made for made in comparison.plans if made.algorithm == "fast").simulate()
    links = "[...document.querySelectorAll('#drawing [data-links]')]"
    loads = opened.value(f"{links}.map(m => [Number(m.dataset.links), parseFloat(m.style.getPropertyValue('--load'))])")
    capacity = result.topology.bandwidth_bytes_per_s * result.makespan_s

    assert sorted(link for link, _ in loads) == list(range(result.topology.num_links))
    for link, load in loads:
        assert load == pytest.approx(100 * result.link_bytes[link] / capacity[link], abs=1e-3)


@pytest.mark.parametrize("way", ["select", "click", "keyboard"])
def test_choosing_an_algorithm_changes_words_picture_and_timeline(opened: Any, way: str) -> None:
    page = opened.page
    page.select_option("#choice", "direct")
    parts = "['explanation', 'drawing', 'busiest', 'stages'].map(id => document.getElementById(id).innerHTML)"
    bars = "timeline.timeline.groups.map(group => group.name).join()"
    before = opened.value(parts), opened.value(bars)
    if way == "select":
        page.select_option("#choice", "fast")
    elif way == "click":
        page.click('tr[data-name="fast"]')
    else:
        page.focus('tr[data-name="fast"]')
        page.keyboard.press("Enter")
    after = opened.value(parts), opened.value(bars)

    assert page.input_value("#choice") == "fast"
    assert page.get_attribute('tr[data-name="fast"]', "aria-selected") == "true"
    assert all(old != new for old, new in zip(before[0], after[0], strict=True))
    assert before[1] != after[1]


def test_dark_mode_changes_page_and_figures_and_back(opened: Any) -> None:
    paper = """[getComputedStyle(document.body).backgroundColor, timeline.colours.paper,
        getComputedStyle(document.querySelector('#drawing .gpu')).fill]"""
    light = opened.value(paper)
    opened.page.click("#theme")
    dark = opened.value(paper)
    opened.page.click("#theme")

    assert light == ["rgb(255, 255, 255)", "#ffffff", "rgb(255, 255, 255)"]
    assert dark == ["rgb(20, 25, 30)", "#14191e", "rgb(20, 25, 30)"]
    assert opened.value(paper) == light


def test_a_reader_who_prefers_dark_gets_dark(browser: Any, report: Path) -> None:
    page = browser.new_page(color_scheme="dark")
    page.set_default_timeout(120_000)
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-ready=true]", state="attached")

    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_phone_never_scrolls_sideways(open_page: Callable[..., Any], report: Path) -> None:
    narrow = open_page(report, width=390)

    assert narrow.value("document.documentElement.scrollWidth") == 390
    assert narrow.complaints == []


def _sweep_text() -> str:
    problem = {"cluster": "2x8 h200", "traffic": "zipf:0.8", "valid": True, "lower_bound_s": 1.0, "seed": 0}
    rows = [
        problem | {"algorithm": name, "size_bytes": size, "gap": gap + 1e6 / size}
        for size in (10**6, 10**8)
        for name, gap in (("fast", 0.1), ("adaptive", 0.0))
    ]
    return sweep_page(rows, "grid", "interlock sweep grid.toml")


def _claims_text() -> str:
    claims = [
        Claim(
            "fast", f"a rather long claim that ends {status}", "1.2-1.3", 1.25, "x", status, 0.1, note="deviation: none"
        )
        for status in Status
    ]
    return reproduce_page(claims, "interlock reproduce", quick=True)


def _layer_text() -> str:
    layer = paper_layers()[0]
    traffic = uniform_traffic(layer, 4, 0)
    made = compare_schemes(layer, traffic, ["deepep", "inswitch"])
    cells = (["scheme", "time"], [[row.algorithm, str(row.makespan_s)] for row, _ in made])
    return layer_page(layer.name, "simulated", "interlock moe", {}, cells, made, (layer, traffic))


def _step_text() -> str:
    rows = [["ecmp", "2 s"], ["adaptive", "1 s"]]
    seconds = {"experts": [0.5, 0.5], "communication": [1.5, 0.5]}
    return moe_page(
        "mixtral", "modelled", "interlock moe --iteration", ["algorithm", "step"], rows, seconds, {"seed": "0"}
    )


def _lab_text() -> str:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    demand = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="1 MB", seed=0)
    return lab_page(
        "zipf in a lab", LAB_ROWS, demand, [il.plan(cluster, demand, algorithm="adaptive")], "interlock lab"
    )


LAB_ROWS = [
    {
        "algorithm": name,
        "valid": True,
        "measured_s": measured_s,
        "measured_least_s": 0.9 * measured_s,
        "measured_most_s": 1.25 * measured_s,
        "predicted_s": 0.15,
        "lower_bound_s": 0.125,
        "gap": measured_s / 0.125 - 1,
        "plan_s": 0.001,
        "exchange_s": 0.002,
        "total_s": measured_s + 0.003,
        "repeats": 5,
    }
    for name, measured_s in (("native", 0.25), ("adaptive", 0.1875))
]


def _collective_text() -> str:
    torus = il.topology.torus(2, 4, bandwidth="50 GB/s")
    made = il.synthesize(torus, il.all_reduce("8 MB"), algorithm="hierarchical")
    return plan_page(made, row_of(made), "interlock synth")


@pytest.mark.parametrize("text", [_sweep_text, _claims_text, _layer_text, _step_text, _lab_text, _collective_text])
def test_every_kind_of_page_opens_from_disk_and_fits_a_phone(
    open_page: Callable[..., Any], text: Callable[[], str], tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(text())
    shown = open_page(file, width=390)
    shown.page.click("#theme")

    assert [url for url in shown.requests if not url.startswith(("data:", "blob:"))] == [file.as_uri()]
    assert shown.complaints == []
    assert shown.value("document.documentElement.scrollWidth") == 390
    assert shown.value("document.querySelectorAll('.bar, [data-y], .verdict').length") > 0


def test_the_page_of_a_lab_says_measured_and_has_the_numbers_of_json(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "lab.html").write_text(_lab_text())
    shown = open_page(tmp_path / "lab.html")
    bars = [
        shown.value(f"[...document.querySelectorAll('.{kind}[data-ms]')].map(mark => Number(mark.dataset.ms))")
        for kind in ("bar", "mark")
    ]
    cells = shown.value(
        "[...document.querySelectorAll('tr[data-name]')].map(r => [...r.cells].map(c => c.textContent))"
    )

    assert bars == [[250.0, 187.5], [150.0, 150.0]]
    assert shown.page.text_content(".badge") == "measured"
    assert [row[:7] for row in cells] == [
        ["native", "250 ms", "225 ms", "312.5 ms", "150 ms", "125 ms", "2.00"],
        ["adaptive", "187.5 ms", "168.8 ms", "234.4 ms", "150 ms", "125 ms", "1.50"],
    ]
    assert "(measured)" in (shown.page.text_content("h2") or "")
