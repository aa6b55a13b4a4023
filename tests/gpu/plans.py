"""Plans and bytes for tests on a device: what every rank puts in and must end with."""

from __future__ import annotations

import numpy as np
import torch

import interlock as il
from interlock.problem import Problem
from interlock.schedule import Layout


def make_inputs(problem: Problem, dtype: torch.dtype, seed: int = 0) -> list[torch.Tensor]:
    """Small whole numbers in every element, so that sums are exact in any order; any bytes where nothing is summed."""
    generator = torch.Generator("cuda").manual_seed(seed)
    made = []
    for rank in range(problem.num_ranks):
        size = Layout.packed(problem, rank).input.size_bytes
        if problem.items.are_reduced:
            count = size // dtype.itemsize
            made.append(torch.randint(0, 4, (count,), generator=generator, device="cuda").to(dtype))
        else:
            made.append(torch.randint(0, 256, (size,), generator=generator, device="cuda", dtype=torch.uint8))
    return made


def wanted(problem: Problem, inputs: list[torch.Tensor], operation: str = "sum") -> list[torch.Tensor]:
    """What every rank must end with, as bytes, computed by torch item by item."""
    layouts = [Layout.packed(problem, rank) for rank in range(problem.num_ranks)]
    value: dict[int, torch.Tensor] = {}
    combine = {"sum": torch.add, "max": torch.maximum, "min": torch.minimum}[operation]
    for layout, data in zip(layouts, inputs, strict=True):
        raw, region = data.view(torch.uint8), layout.input
        for item, start, length in zip(*(c.tolist() for c in (region.item, region.start, region.length)), strict=True):
            part = raw[start : start + length].clone()
            if item in value:
                combine(part.view(data.dtype), value[item].view(data.dtype), out=part.view(data.dtype))
            value[item] = part
    nothing = torch.empty(0, dtype=torch.uint8, device="cuda")
    return [torch.cat([value[item] for item in layout.output.item.tolist()] or [nothing]) for layout in layouts]


def odd_demand(cluster: il.Cluster, seed: int, largest: int) -> il.Demand:
    """Sizes of every kind: nothing, a byte, odd ones, and some up to `largest`."""
    rng = np.random.default_rng(seed)
    kinds = np.array([0, 1, 15, 16, 17, 1000, 4097, 65_536, largest - 1, largest])
    matrix = rng.choice(kinds, size=(cluster.num_ranks,) * 2)
    matrix[rng.integers(cluster.num_ranks)] = 0
    return il.traffic.matrix(matrix.astype(np.int64))
