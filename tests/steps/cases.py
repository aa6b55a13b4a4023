"""Steps that tests share."""

from __future__ import annotations

import interlock as il

DISPATCH_TOML = """[cluster]
preset = "h200"
servers = 2
gpus_per_server = 2
[[task]]
name = "dispatch"
move = "zipf:0.8"
size = "1 MB"
"""


def layer(servers: int = 2, size: str = "4 MB", **cluster: object) -> il.Step:
    """An expert-parallel layer beside gradients that are ready first and can wait."""
    made = il.cluster("h200", servers=servers, gpus_per_server=4, **cluster)
    demand = il.traffic.zipf(made, skew=0.8, bytes_per_gpu=size, seed=3)
    step = il.step(made, "layer")
    dispatch = step.move("dispatch", demand)
    experts = step.compute("experts", "60 us", after=dispatch)
    step.move("combine", demand.transposed(), after=experts)
    step.move("gradients", il.reduce_scatter("24 MiB", group=[0, 4]), ready="10 us")
    return step
