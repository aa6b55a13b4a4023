"""Draws docs/images/step.svg: the step of docs/howto/overlap.md in every way."""

from __future__ import annotations

from pathlib import Path

import interlock as il
from interlock.report.step_page import step_picture


def main() -> None:
    """Plan, simulate, draw."""
    cluster = il.cluster("h200", servers=2)
    demand = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="64 MB", seed=0)
    step = il.step(cluster)
    dispatch = step.move("dispatch", demand)
    experts = step.compute("experts", "0.8 ms", after=dispatch)
    step.move("combine", demand.transposed(), after=experts)
    step.move("gradients", il.reduce_scatter("512 MiB", group=[0, 8]), ready="0.1 ms")
    made = il.compare(step)
    picture = step_picture(made).replace("currentColor", "#808080").replace('width="100%"', 'width="760"')
    Path(__file__).parents[1].joinpath("docs/images/step.svg").write_text(picture + "\n")
    print(made)


if __name__ == "__main__":
    main()
