"""A real browser, and a report opened in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock.report.compare_page import compare_page

CHROMIUM = Path("/usr/bin/chromium")


class Opened:
    """A page in the browser, and what it asked for and complained about."""

    def __init__(self, browser: Any, file: Path, width: int = 1280) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900})
        self.page.set_default_timeout(120_000)  # the page may share its processors with the other tests
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda line: self.complaints.append(line.text) if line.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("html[data-ready=true]", state="attached")

    def value(self, script: str) -> Any:
        return self.page.evaluate(script)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip("Chromium is not installed")
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
def opened(browser: Any, report: Path) -> Opened:
    return Opened(browser, report)


@pytest.fixture(scope="module")
def open_page(browser: Any) -> Callable[..., Opened]:
    """Opens another file in the same browser."""
    return lambda file, width=1280: Opened(browser, file, width)
