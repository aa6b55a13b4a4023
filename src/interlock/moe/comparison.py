"""MoE schemes side by side on one layer: time, traffic by direction, distance from the fluid bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from interlock.moe.constants import PAPER, Machine
from interlock.moe.fluid import fluid_time_s, loads
from interlock.moe.layer import Layer, LayerTraffic
from interlock.moe.replicas import choose_replicas
from interlock.moe.schemes import SCHEMES, layer_time
from interlock.moe.tiles import LayerTime
from interlock.traffic.routing import Routing

__all__ = ["LayerRow", "compare_schemes", "lower_bound_s"]


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One scheme; `makespan_s` is simulated at tile level, bytes are the busiest link's, heads and lists included."""

    algorithm: str
    makespan_s: float
    fluid_s: float | None  # closed form, where there is one
    lower_bound_s: float
    gap: float
    up_bytes: int
    down_bytes: int
    compute_s: float  # of the busiest GPU


def lower_bound_s(layer: Layer, traffic: LayerTraffic, machine: Machine, backward: bool = False) -> float:
    """No scheme with these replicas takes less: tokens leave once, copies arrive, the reverse, and experts run."""
    part = loads(layer, traffic, machine, backward)
    return max(part.fused_up_s, part.fused_down_s, part.experts_s)


def compare_schemes(
    layer: Layer,
    traffic: LayerTraffic | Routing,
    schemes: Sequence[str] | None = None,
    machine: Machine = PAPER,
    *,
    backward: bool = False,
    progress: Callable[[str], None] | None = None,
) -> list[tuple[LayerRow, LayerTime]]:
    """Every scheme on the same tokens; `inswitch` also chooses replicas where the routing has some.

    The bound of each row is that of its own replica choice.
    """
    made = []
    for name in schemes or list(SCHEMES):
        if progress is not None:
            progress(name)
        where = traffic_of(name, layer, traffic, machine)
        time = layer_time(name, layer, where, machine, backward=backward)
        bound_s = lower_bound_s(layer, where, machine, backward)
        made.append((_row(name, layer, where, machine, time, bound_s, backward), time))
    return made


def traffic_of(name: str, layer: Layer, traffic: LayerTraffic | Routing, machine: Machine) -> LayerTraffic:
    """The replica choice of a scheme: ours for `inswitch`, the routing's own for the others."""
    if isinstance(traffic, LayerTraffic):
        return traffic
    if name == "inswitch":
        return LayerTraffic.from_targets(traffic, choose_replicas(traffic, layer, machine))
    return LayerTraffic.from_routing(traffic)


def _row(
    name: str,
    layer: Layer,
    traffic: LayerTraffic,
    machine: Machine,
    time: LayerTime,
    bound_s: float,
    backward: bool,
) -> LayerRow:
    return LayerRow(
        algorithm=name,
        makespan_s=time.makespan_s,
        fluid_s=fluid_time_s(name, layer, traffic, machine, backward),
        lower_bound_s=bound_s,
        gap=time.makespan_s / bound_s - 1 if bound_s > 0 else 0.0,
        up_bytes=int(np.max(time.up_busy_s) * machine.reached_bytes_per_s),
        down_bytes=int(np.max(time.down_busy_s) * machine.reached_bytes_per_s),
        compute_s=float(np.max(time.compute_busy_s)),
    )
