"""Closed forms for an MoE layer: every link and every GPU as a fluid, phases added or overlapped.

Notation of the paper's analysis: D dispatch, C combine, X experts. Used to check the tile-level model and to calibrate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.moe.constants import Machine, list_flits
from interlock.moe.layer import Layer, LayerTraffic

__all__ = ["Loads", "experts_s", "fluid_time_s", "loads", "useless_nvls_traffic"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Loads:
    """Seconds that the busiest link or GPU spends on each part."""

    out_s: float  # a token copy to every GPU it goes to leaves its GPU
    in_s: float  # those copies arrive
    listed_in_s: float  # the same of a multicast, with the lists of targets
    everyone_s: float  # every token goes to every GPU
    experts_s: float
    fused_up_s: float  # dispatch once and combine copies on one uplink, whoever names the targets
    fused_down_s: float  # dispatch copies and combine once on one downlink
    pushed_up_s: float  # the same with lists of targets
    pushed_down_s: float
    pulled_up_s: float  # and with requests for every partial
    pulled_down_s: float


def loads(layer: Layer, traffic: LayerTraffic, machine: Machine, backward: bool = False) -> Loads:
    """Count copies per link and choices per GPU; backward doubles the compute."""
    return traffic.keep((loads, layer, machine, backward), lambda: _loads(layer, traffic, machine, backward))


def _loads(layer: Layer, traffic: LayerTraffic, machine: Machine, backward: bool) -> Loads:
    gpus = traffic.num_gpus
    token, other, named = traffic.copies()

    def there_s(tokens: Ints, lists: Ints | int = 0) -> NDArray[np.float64]:
        return machine.wire_s(layer, layer.dispatch_bytes, tokens, lists)

    def back_s(tokens: Ints) -> NDArray[np.float64]:
        return machine.wire_s(layer, layer.combine_bytes, tokens)

    arriving = np.bincount(other, minlength=gpus)
    leaving = np.bincount(traffic.gpu_of_token[token], minlength=gpus)
    leaves = np.zeros(traffic.num_tokens, np.bool_)
    leaves[token] = True
    leaving_once = np.bincount(traffic.gpu_of_token[leaves], minlength=gpus)
    tokens = np.bincount(traffic.gpu_of_token, minlength=gpus)
    elsewhere = np.bincount(token, named, traffic.num_tokens).astype(np.int64)
    arriving_lists = np.bincount(other, list_flits(named), gpus).astype(np.int64)
    leaving_lists = np.bincount(traffic.gpu_of_token, list_flits(elsewhere), gpus).astype(np.int64)
    passes = 2 if backward else 1
    up_s = there_s(leaving_once, leaving_lists) + back_s(arriving)
    down_s = there_s(arriving, arriving_lists) + back_s(leaving_once)
    return Loads(
        out_s=float(there_s(leaving).max()),
        in_s=float(there_s(arriving).max()),
        listed_in_s=float(there_s(arriving, arriving_lists).max()),
        everyone_s=float(there_s(tokens.sum() - tokens).max()),
        experts_s=passes * float(experts_s(layer, traffic, machine).max()),
        fused_up_s=float((there_s(leaving_once) + back_s(arriving)).max()),
        fused_down_s=float((there_s(arriving) + back_s(leaving_once)).max()),
        pushed_up_s=float(up_s.max()),
        pushed_down_s=float(down_s.max()),
        pulled_up_s=float((up_s + machine.request_s(layer, leaving_once, leaving_lists)).max()),
        pulled_down_s=float((down_s + machine.request_s(layer, arriving, arriving_lists)).max()),
    )


def experts_s(layer: Layer, traffic: LayerTraffic, machine: Machine) -> NDArray[np.float64]:
    """Seconds that each GPU's experts compute, forward, ``[num_gpus]``."""
    slots = traffic.slots.reshape(-1)
    tokens = np.bincount(slots)
    gpu_of_slot = np.zeros(len(tokens), np.int64)
    gpu_of_slot[slots] = traffic.targets.reshape(-1)
    slot_s = tokens * machine.gemms.row_s(layer, np.maximum(tokens, 1)).sum(axis=0)
    return np.asarray(np.bincount(gpu_of_slot, weights=slot_s, minlength=traffic.num_gpus), np.float64)


def fluid_time_s(
    scheme: str, layer: Layer, traffic: LayerTraffic, machine: Machine, backward: bool = False
) -> float | None:
    """Layer time of a scheme; None for one that has no closed form."""
    part = loads(layer, traffic, machine, backward)
    back = layer.combine_bytes / layer.dispatch_bytes
    dispatch_s = max(part.out_s, part.in_s)
    combine_s = back * dispatch_s
    alone_s = part.experts_s * machine.tile_slowdown(layer)
    beside_s = alone_s / machine.compute_share * machine.beside_slowdown  # while some SMs send
    foreign_s = alone_s / machine.compute_share * machine.foreign_slowdown
    forms = {
        "deepep": dispatch_s + combine_s + alone_s,
        "dualpipe": max(dispatch_s + combine_s, foreign_s),  # another micro-batch computes meanwhile
        "nvls": (1 + back) * part.everyone_s + alone_s,
        "comet": max(dispatch_s, beside_s / 2) + max(combine_s, beside_s / 2),
        "dysharp-addressing": max(part.listed_in_s, beside_s / 2) + max(back * part.in_s, beside_s / 2),
        "dysharp-fusion": max((1 + back) * dispatch_s, beside_s),
        "dysharp": max(part.pulled_up_s, part.pulled_down_s, beside_s),
        "inswitch": max(part.pushed_up_s, part.pushed_down_s, beside_s),
    }
    return forms.get(scheme)


def useless_nvls_traffic(layer: Layer, num_gpus: int) -> float:
    """Copies that NVLS all-gather delivers for nothing, over those that are needed, uniform routing."""
    per_gpu = layer.experts // num_gpus
    missed = 1.0
    for taken in range(layer.top_k):
        missed *= (layer.experts - per_gpu - taken) / (layer.experts - taken)
    needed = (num_gpus - 1) * (1 - missed)
    return (num_gpus - 1 - needed) / needed
