"""Report pages in a real browser: they open from disk, fetch nothing, and do what they offer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import interlock as il
from interlock.comparison import row_of
from interlock.moe import compare_schemes, paper_layers, uniform_traffic
from interlock.moe.picture import timeline_svg
from interlock.report.claims import Claim, Status
from interlock.report.compare_page import compare_page, plan_page
from interlock.report.moe_page import moe_page
from interlock.report.reproduce_page import reproduce_page
from interlock.report.sweep_page import sweep_page

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = Path("/usr/bin/chromium")
if not CHROMIUM.exists():
    pytest.skip("Chromium is not installed", allow_module_level=True)


class Opened:
    """A page in the browser, and what it asked for and complained about."""

    def __init__(self, browser: playwright.Browser, file: Path, width: int = 1280) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900})
        self.page.set_default_timeout(120_000)  # the page may share its processors with the other tests
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda line: self.complaints.append(line.text) if line.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("html[data-ready=true]", state="attached")

    def value(self, script: str) -> object:
        return self.page.evaluate(script)


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=str(CHROMIUM), args=options)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def comparison() -> il.Comparison:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4)
    traffic = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="64 MB", seed=0)
    return il.compare(cluster, traffic, ["direct", "spreadout", "fast", "adaptive"])


@pytest.fixture(scope="module")
def report(comparison: il.Comparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(compare_page(comparison, "interlock compare --html report.html"))
    return file


@pytest.fixture(scope="module")
def opened(browser: playwright.Browser, report: Path) -> Opened:
    return Opened(browser, report)


def test_a_report_fetches_nothing_and_complains_of_nothing(opened: Opened, report: Path) -> None:
    opened.page.select_option("#choice", "spreadout")
    opened.page.click("#theme")
    opened.page.click("#theme")

    assert [url for url in opened.requests if not url.startswith(("data:", "blob:"))] == [report.as_uri()]
    assert opened.complaints == []


def test_every_figure_is_drawn(opened: Opened) -> None:
    drawn = opened.value(
        "[...document.querySelectorAll('.plot')].filter(p => p.querySelector('.main-svg')).map(p => p.id)"
    )

    assert drawn == ["times", "traffic", "timeline"]


def test_numbers_on_the_page_are_those_of_json(opened: Opened, comparison: il.Comparison) -> None:
    results = json.loads(json.dumps(comparison.to_dict()))["results"]
    shown = opened.value("document.getElementById('times').data.map(bar => [...bar.x])")
    cells = opened.value(
        "[...document.querySelectorAll('tr[data-name]')].map(r => [...r.cells].map(c => c.textContent.trim()))"
    )

    assert shown == [[1e3 * row[field] for row in reversed(results)] for field in ("makespan_s", "plan_s")]
    assert [row[0] for row in cells] == [row["algorithm"] for row in results]
    assert [row[2] for row in cells] == [f"{1 + row['gap']:.3f}" for row in results]
    assert [int(row[5]) for row in cells] == [row["stages"] for row in results]


def test_the_timeline_holds_each_message_of_the_plan(opened: Opened, comparison: il.Comparison) -> None:
    opened.page.select_option("#choice", "direct")
    made = next(made for made in comparison.plans if made.algorithm == "direct")
    ends = "document.getElementById('timeline')._fullData.flatMap(b => [...b.base].map((s, k) => s + b.x[k]))"
    shown = opened.value(ends)

    assert isinstance(shown, list)
    assert sorted(shown) == pytest.approx(sorted((1e3 * made.simulate().finish_s).tolist()))


@pytest.mark.parametrize("way", ["select", "click", "keyboard"])
def test_choosing_an_algorithm_changes_words_picture_and_timeline(opened: Opened, way: str) -> None:
    page = opened.page
    page.select_option("#choice", "direct")
    parts = "['explanation', 'drawing', 'stages'].map(id => document.getElementById(id).innerHTML)"
    bars = "document.getElementById('timeline').data.map(bar => bar.name).join()"
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
    assert all(old != new for old, new in zip(before[0], after[0], strict=True))  # type: ignore[call-overload]
    assert before[1] != after[1]


def test_dark_mode_changes_page_and_figures_and_back(opened: Opened) -> None:
    paper = "[getComputedStyle(document.body).backgroundColor, document.getElementById('times').layout.paper_bgcolor]"
    light = opened.value(paper)
    opened.page.click("#theme")
    dark = opened.value(paper)
    opened.page.click("#theme")

    assert light == ["rgb(255, 255, 255)", "#ffffff"]
    assert dark == ["rgb(20, 25, 30)", "#14191e"]
    assert opened.value(paper) == light


def test_a_reader_who_prefers_dark_gets_dark(browser: playwright.Browser, report: Path) -> None:
    page = browser.new_page(color_scheme="dark")
    page.set_default_timeout(120_000)
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-ready=true]", state="attached")

    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_dragging_zooms_the_timeline_and_a_double_click_goes_back(opened: Opened) -> None:
    page = opened.page
    page.select_option("#choice", "spreadout")
    span = "(([low, high]) => high - low)(document.getElementById('timeline')._fullLayout.xaxis.range)"
    whole = opened.value(span)
    area = page.locator("#timeline .nsewdrag")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 4, box["y"] + box["height"] / 4
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + box["width"] / 4, y + box["height"] / 4, steps=4)
    page.mouse.up()
    page.wait_for_function(f"{span} < {whole} / 2")
    zoomed = opened.value(span)
    page.mouse.dblclick(x, y)
    page.wait_for_function(f"Math.abs({span} - {whole}) < 1e-9")

    assert zoomed == pytest.approx(float(str(whole)) / 4, rel=0.05)


def test_hovering_names_the_message(opened: Opened) -> None:
    page = opened.page
    page.select_option("#choice", "direct")
    page.locator("#timeline").scroll_into_view_if_needed()
    box = page.locator("#timeline .bars .point path").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=3)
    page.wait_for_selector("#timeline .hovertext")
    words = page.locator("#timeline .hovertext").first.text_content() or ""

    assert re.search(r"\d+ to \d+, stage \d+, \d+ B", words), words


def test_a_phone_never_scrolls_sideways(browser: playwright.Browser, report: Path) -> None:
    narrow = Opened(browser, report, width=390)

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
        Claim("fast", f"a rather long claim that ends {status}", "1.2 to 1.3", 1.25, "x", status, "deviation: none")
        for status in Status
    ]
    return reproduce_page(claims, "interlock reproduce", quick=True)


def _layer_text() -> str:
    layer = paper_layers()[0]
    made = compare_schemes(layer, uniform_traffic(layer, 4, 0), ["deepep", "inswitch"])
    rows = [[row.algorithm, str(row.makespan_s)] for row, _ in made]
    seconds = {"time": [row.makespan_s for row, _ in made]}
    picture = timeline_svg([time for _, time in made])
    return moe_page(layer.name, "simulated", "interlock moe", ["scheme", "time"], rows, seconds, picture)


def _collective_text() -> str:
    torus = il.topology.torus(2, 4, bandwidth="50 GB/s")
    made = il.synthesize(torus, il.all_reduce("8 MB"), algorithm="hierarchical")
    return plan_page(made, row_of(made), "interlock synth")


@pytest.mark.parametrize("text", [_sweep_text, _claims_text, _layer_text, _collective_text])
def test_every_kind_of_page_opens_from_disk_and_fits_a_phone(
    browser: playwright.Browser, text: Callable[[], str], tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(text())
    shown = Opened(browser, file, width=390)
    shown.page.click("#theme")

    assert [url for url in shown.requests if not url.startswith(("data:", "blob:"))] == [file.as_uri()]
    assert shown.complaints == []
    assert shown.value("document.documentElement.scrollWidth") == 390
    assert shown.value("[...document.querySelectorAll('.plot')].every(p => p.querySelector('.main-svg'))")
