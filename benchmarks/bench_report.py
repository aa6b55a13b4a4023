"""How large is the report of 512 ranks, and how soon can one use it?

Goals for 64x8: at most 15 MB, interactive within 3 s in Chromium on 2 cores. Needs playwright and Chromium.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

import interlock as il
from common import arguments, report
from interlock.report.compare_page import compare_page

ALGORITHMS = "adaptive,rails-split,no-stage,spray,direct,ecmp,pxn,forward,rails,padded"
BROWSER = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def main() -> None:
    """Size, the time from opening the file to every figure drawn, and how much of it the page's own thread worked."""
    options = arguments(__doc__ or "", servers=64, algorithms=ALGORITHMS, chromium="/usr/bin/chromium")
    cluster = il.cluster("h200", servers=options.servers)
    traffic = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="512 MB", seed=options.seed)
    made = il.compare(cluster, traffic, options.algorithms.split(","), seed=options.seed)
    start = time.perf_counter()
    text = compare_page(made, "benchmarks/bench_report.py")
    took = time.perf_counter() - start
    seconds, worked = [], []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        file = Path(folder) / "report.html"
        file.write_text(text)
        browser = driver.chromium.launch(executable_path=options.chromium, args=BROWSER)
        for _ in range(options.repeats):
            page = browser.new_page()
            page.set_default_timeout(120_000)
            meter = page.context.new_cdp_session(page)
            meter.send("Performance.enable", {"timeDomain": "threadTicks"})
            start = time.perf_counter()
            page.goto(file.as_uri())
            page.wait_for_selector("html[data-ready=true]", state="attached")
            seconds.append(time.perf_counter() - start)
            metrics = {m["name"]: m["value"] for m in meter.send("Performance.getMetrics")["metrics"]}
            worked.append(metrics["TaskDuration"])
            page.close()
        browser.close()
    row = {
        "algorithms": len(made.results),
        "cluster": f"{options.servers}x{cluster.gpus_per_server}",
        "size_mb": len(text.encode()) / 1e6,
        "write_s": took,
        "ready_median_s": statistics.median(seconds),
        "ready_least_s": min(seconds),
        "ready_most_s": max(seconds),
        "page_thread_median_s": statistics.median(worked),
    }
    report("report", [row], options)


if __name__ == "__main__":
    main()
