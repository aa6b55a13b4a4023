"""MoE schemes side by side on one layer: time, traffic by direction, distance from the fluid bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.moe.constants import PAPER, Machine
from interlock.moe.fluid import fluid_time_s, loads
from interlock.moe.layer import Layer, LayerTraffic
from interlock.moe.schemes import SCHEMES, layer_time
from interlock.moe.tiles import LayerTime
from interlock.traffic.routing import Routing

__all__ = ["LayerRow", "choose_replicas", "compare_schemes", "lower_bound_s"]


ROUNDS = 3  # after the first, each round gains less than 1 % on the shared traces


def choose_replicas(routing: Routing, layer: Layer, machine: Machine) -> NDArray[np.int32]:
    """GPU of every choice, ``[num_tokens, top_k]``.

    A copy costs a GPU's links, a choice costs its SMs. Experts with one replica are fixed. The others are placed token
    by token, where the busier of the GPU's links and SMs ends lowest; a GPU that the token visits anyway, or is on,
    costs no copy. Every round gives each token another try against all the others.
    """
    ranks = routing.placement.ranks_of_expert
    targets = np.ascontiguousarray(routing.targets())
    if not routing.placement.is_replicated:
        return targets
    link_s = float(machine.wire_s(layer, max(layer.dispatch_bytes, layer.combine_bytes), np.array(1)))
    mean_tokens = routing.experts.size // max(1, routing.placement.num_slots)
    work_s = float(machine.gemms.row_s(layer, np.array([max(1, mean_tokens)])).sum())
    gpus = routing.num_ranks
    arriving = [0] * gpus  # copies
    serving = [0] * gpus  # choices
    # What a GPU's own tokens put on its links, whatever is chosen: each leaves once and comes back once.
    base_s = (np.bincount(routing.rank_of_token, minlength=gpus) * link_s).tolist()
    replicas = [ranks[e].tolist() for e in range(len(ranks))]
    experts, home = routing.experts.tolist(), routing.rank_of_token.tolist()
    chosen = targets.tolist()
    for token, row in enumerate(chosen):
        _count(row, home[token], arriving, serving, 1)
    movable = [token for token, row in enumerate(experts) if any(len(replicas[e]) > 1 for e in row)]
    for _ in range(ROUNDS):
        for token in movable:
            _count(chosen[token], home[token], arriving, serving, -1)
            chosen[token] = _place(experts[token], replicas, home[token], arriving, serving, base_s, link_s, work_s)
            _count(chosen[token], home[token], arriving, serving, 1)
    return np.array(chosen, np.int32)


def _count(row: list[int], home: int, arriving: list[int], serving: list[int], sign: int) -> None:
    for gpu in set(row):
        if gpu != home:
            arriving[gpu] += sign
    for gpu in row:
        serving[gpu] += sign


def _place(
    experts: list[int],
    replicas: list[list[int]],
    home: int,
    arriving: list[int],
    serving: list[int],
    base_s: list[float],
    link_s: float,
    work_s: float,
) -> list[int]:
    """Fixed experts first, then each replicated one where it hurts least."""
    visited = {home} | {replicas[e][0] for e in experts if len(replicas[e]) == 1}
    extra: dict[int, int] = {}
    placed = []
    for expert in experts:
        options = replicas[expert]
        best = options[0]
        if len(options) > 1:
            best = min(
                options,
                key=lambda gpu: (
                    max(
                        base_s[gpu] + (arriving[gpu] + (gpu not in visited)) * link_s,
                        (serving[gpu] + extra.get(gpu, 0) + 1) * work_s,
                    ),
                    gpu,
                ),
            )
            visited.add(best)
        extra[best] = extra.get(best, 0) + 1
        placed.append(best)
    return placed


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
