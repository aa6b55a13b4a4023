"""Shapes of public MoE models; docs/reference/moe.md gives the source of every constant."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.errors import named

__all__ = ["ModelShape", "model", "model_names"]


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What decides the compute and the communication of an MoE transformer."""

    name: str
    layers: int
    moe_layers: int
    hidden: int
    ffn: int  # of one routed expert
    experts: int
    top_k: int
    shared_experts: int
    attention_params: int  # weights of one layer's attention
    attention_width: int  # heads x head size, for scores and values
    sequence: int
    dense_ffn: int = 0  # of layers without experts
    matrices: int = 3  # gate, up and down projections

    @property
    def expert_flops_per_token(self) -> int:
        """Forward, of one routed expert on one token."""
        return 2 * self.matrices * self.hidden * self.ffn

    @property
    def attention_flops_per_token(self) -> int:
        """Forward: projections, and scores and values over half the sequence (causal)."""
        return 2 * self.attention_params + 2 * self.sequence * self.attention_width

    @property
    def dense_flops_per_token(self) -> int:
        """Forward, of the feed-forward part of a layer without experts."""
        return 2 * self.matrices * self.hidden * self.dense_ffn


def _grouped_query(hidden: int, heads: int, kv_heads: int, head: int) -> int:
    """Weights of query, key, value and output projections."""
    return hidden * head * (2 * heads + 2 * kv_heads)


_MODELS = {
    shape.name: shape
    for shape in (
        ModelShape("mixtral-8x7b", 32, 32, 4096, 14336, 8, 2, 0, _grouped_query(4096, 32, 8, 128), 4096, 4096),
        ModelShape("mixtral-8x22b", 56, 56, 6144, 16384, 8, 2, 0, _grouped_query(6144, 48, 8, 128), 6144, 4096),
        # Multi-head latent attention: 7168x1536 + 1536x128x192 + 7168x576 + 512x128x256 + 16384x7168.
        ModelShape("deepseek-v3", 61, 58, 7168, 2048, 256, 8, 1, 187_105_280, 128 * 160, 4096, dense_ffn=18432),
        ModelShape("qwen3-235b", 94, 94, 4096, 1536, 128, 8, 0, _grouped_query(4096, 64, 4, 128), 8192, 4096),
    )
}


def model_names() -> list[str]:
    """Names that `model` accepts."""
    return list(_MODELS)


def model(name: str) -> ModelShape:
    """A model's shape by name.

    >>> model("mixtral-8x7b").top_k
    2
    """
    return named(_MODELS, name, "model")
