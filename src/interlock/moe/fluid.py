"""Closed forms for an MoE layer: every link and every GPU as a fluid, phases added or overlapped.

Notation of the paper's analysis: D dispatch, C combine, X experts. Used to check the tile-level model and to calibrate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.moe.constants import Machine
from interlock.moe.layer import Layer, LayerTraffic

__all__ = ["Loads", "experts_s", "fluid_time_s", "loads", "useless_nvls_traffic"]


@dataclass(frozen=True, slots=True)
class Loads:
    """Seconds that the busiest link or GPU spends on each part."""

    out_s: float  # a token copy to every GPU it goes to leaves its GPU
    in_s: float  # those copies arrive
    once_s: float  # every token that leaves, leaves once
    everyone_s: float  # every token goes to every GPU
    experts_s: float
    fused_up_s: float  # dispatch once and combine copies on one uplink
    fused_down_s: float  # dispatch copies and combine once on one downlink
    pulled_down_s: float  # the same, and a request for every partial


def loads(layer: Layer, traffic: LayerTraffic, machine: Machine, backward: bool = False) -> Loads:
    """Count copies per link and choices per GPU; backward doubles the compute."""
    gpus = traffic.num_gpus
    token, other = traffic.copies()
    token_s = layer.hidden * layer.dispatch_bytes / machine.goodput_bytes_per_s
    back_s = layer.hidden * layer.combine_bytes / machine.goodput_bytes_per_s
    arriving = np.bincount(other, minlength=gpus)
    leaving = np.bincount(traffic.gpu_of_token[token], minlength=gpus)
    leaves = np.zeros(traffic.num_tokens, np.bool_)
    leaves[token] = True
    leaving_once = np.bincount(traffic.gpu_of_token[leaves], minlength=gpus)
    tokens = np.bincount(traffic.gpu_of_token, minlength=gpus)
    passes = 2 if backward else 1
    down_s = arriving * token_s + leaving_once * back_s
    return Loads(
        out_s=float(leaving.max()) * token_s,
        in_s=float(arriving.max()) * token_s,
        once_s=float(leaving_once.max()) * token_s,
        everyone_s=float((tokens.sum() - tokens).max()) * token_s,
        experts_s=passes * float(experts_s(layer, traffic, machine).max()),
        fused_up_s=float((leaving_once * token_s + arriving * back_s).max()),
        fused_down_s=float(down_s.max()),
        pulled_down_s=float((down_s + arriving * back_s * machine.request_flits_per_payload_flit).max()),
    )


def experts_s(layer: Layer, traffic: LayerTraffic, machine: Machine) -> NDArray[np.float64]:
    """Seconds that each GPU's experts compute, forward, ``[num_gpus]``."""
    slots = traffic.slots.reshape(-1)
    tokens = np.bincount(slots)
    gpu_of_slot = np.zeros(len(tokens), np.int64)
    gpu_of_slot[slots] = traffic.targets.reshape(-1)
    slot_s = tokens * machine.gemms.row_s(layer, np.maximum(tokens, 1)).sum(axis=0)
    return np.asarray(np.bincount(gpu_of_slot, weights=slot_s, minlength=traffic.num_gpus), np.float64)


def fluid_time_s(scheme: str, layer: Layer, traffic: LayerTraffic, machine: Machine, backward: bool = False) -> float:
    """Layer time of a scheme; raises KeyError for one that has no closed form."""
    part = loads(layer, traffic, machine, backward)
    back = layer.combine_bytes / layer.dispatch_bytes
    dispatch_s = max(part.out_s, part.in_s)
    combine_s = back * dispatch_s
    alone_s = part.experts_s * machine.tile_slowdown(layer)
    beside_s = alone_s / machine.compute_share  # while some SMs send
    forms = {
        "deepep": dispatch_s + combine_s + alone_s,
        "dualpipe": max(dispatch_s + combine_s, beside_s),  # another micro-batch computes meanwhile
        "nvls": (1 + back) * part.everyone_s + alone_s,
        "comet": max(dispatch_s, beside_s / 2) + max(combine_s, beside_s / 2),
        "dysharp-addressing": max(part.in_s, beside_s / 2) + max(back * part.in_s, beside_s / 2),
        "dysharp-fusion": max((1 + back) * dispatch_s, beside_s),
        "dysharp": max(part.fused_up_s, part.pulled_down_s, beside_s),
        "inswitch": max(part.fused_up_s, part.fused_down_s, beside_s),
    }
    return forms[scheme]


def useless_nvls_traffic(layer: Layer, num_gpus: int) -> float:
    """Copies that NVLS all-gather delivers for nothing, over those that are needed, uniform routing."""
    per_gpu = layer.experts // num_gpus
    missed = 1.0
    for taken in range(layer.top_k):
        missed *= (layer.experts - per_gpu - taken) / (layer.experts - taken)
    needed = (num_gpus - 1) * (1 - missed)
    return (num_gpus - 1 - needed) / needed
