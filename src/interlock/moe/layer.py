"""An MoE layer: its shape, and where its tokens go."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.traffic.generators import generator
from interlock.traffic.routing import Routing

__all__ = ["Layer", "LayerTraffic", "paper_layers", "uniform_traffic"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Layer:
    """Sizes of one MoE layer. Two GEMMs per expert, as DySHARP counts them."""

    name: str
    hidden: int
    ffn: int
    experts: int
    top_k: int
    tokens_per_gpu: int
    dispatch_bytes: float = 2.0  # per value; bf16
    combine_bytes: float = 2.0

    @property
    def flops_per_choice(self) -> int:
        """One token through one expert, forward."""
        return 2 * 2 * self.hidden * self.ffn


def paper_layers() -> list[Layer]:
    """The nine configurations of DySHARP's evaluation."""
    sizes = {"small": (2048, 512, 64, 2048), "medium": (4096, 1024, 128, 4096), "large": (7168, 2048, 256, 8192)}
    return [
        Layer(f"{name}-{top_k}", hidden, ffn, experts, top_k, tokens)
        for name, (hidden, ffn, experts, tokens) in sizes.items()
        for top_k in (8, 16, 32)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class LayerTraffic:
    """Where every token of a layer goes inside one scale-up domain."""

    num_gpus: int
    gpu_of_token: NDArray[np.int32]  # [num_tokens]
    targets: NDArray[np.int32]  # [num_tokens, top_k] GPU of each choice
    slots: NDArray[np.int32]  # [num_tokens, top_k] which weights there: GPU and expert as one number
    _kept: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def keep(self, key: Hashable, make: Callable[[], T]) -> T:
        """What every scheme asks of the same tokens, made once and gone with them."""
        if key not in self._kept:
            self._kept[key] = make()
        made: T = self._kept[key]
        return made

    @classmethod
    def from_routing(cls, routing: Routing) -> LayerTraffic:
        """The routing's own replica choice."""
        return cls.from_targets(routing, routing.targets())

    @classmethod
    def from_targets(cls, routing: Routing, targets: NDArray[np.int32]) -> LayerTraffic:
        """Another choice of replicas for the same routing."""
        slots = targets.astype(np.int64) * routing.placement.num_experts + routing.experts
        return cls(routing.num_ranks, routing.rank_of_token, targets, slots.astype(np.int32))

    @property
    def num_tokens(self) -> int:
        """Tokens of all GPUs."""
        return len(self.targets)

    @property
    def top_k(self) -> int:
        """Experts per token."""
        return int(self.targets.shape[1])

    def copies(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
        """Each (token, other GPU it goes to) once, with how many of the token's experts are there."""
        ordered = np.sort(self.targets, axis=1)
        is_new = np.ones(ordered.shape, np.bool_)
        is_new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        starts = np.append(np.flatnonzero(is_new), ordered.size)
        is_remote = (ordered != self.gpu_of_token[:, None]).reshape(-1)[starts[:-1]]
        first, experts = starts[:-1][is_remote], np.diff(starts)[is_remote]
        return first // self.top_k, ordered.reshape(-1)[first], experts


def uniform_traffic(layer: Layer, num_gpus: int, seed: int = 0) -> LayerTraffic:
    """Every token picks its experts evenly; experts lie contiguously."""
    if layer.experts % num_gpus:
        raise InvalidInput(f"{layer.experts} experts do not divide over {num_gpus} GPUs evenly")
    rng = generator(seed)
    num_tokens = layer.tokens_per_gpu * num_gpus
    experts = np.empty((num_tokens, layer.top_k), np.int32)
    for first in range(0, num_tokens, 16384):  # in blocks, to bound memory
        keys = rng.random((min(16384, num_tokens - first), layer.experts), np.float32)
        experts[first : first + len(keys)] = np.argpartition(keys, layer.top_k - 1, axis=1)[:, : layer.top_k]
    targets = experts // np.int32(layer.experts // num_gpus)
    gpu_of_token = np.repeat(np.arange(num_gpus, dtype=np.int32), layer.tokens_per_gpu)
    return LayerTraffic(num_gpus, gpu_of_token, targets, experts)
