"""A synthetic MoE router: popularity of experts, its drift from step to step, and the tokens drawn from it.

Popularity is a Zipf law over the experts in a random order, independent draws from a power law, or the softmax of
normal scores, as a router's gate makes it. The scores keep their distribution while they drift from step to step:
``score' = sqrt(1 - drift^2) * score + drift * noise``, so
``drift=0`` never changes and ``drift=1`` forgets everything. A token takes its experts one after the other, each with
probability proportional to popularity among those left.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput, check_whole, nearest
from interlock.traffic.demand import MAX_TOTAL_BYTES, Demand, HasRanks, gini
from interlock.traffic.generators import check_range, generator, square
from interlock.traffic.placement import MAX_EXPERTS, Placement, contiguous_placement
from interlock.traffic.routing import Routing
from interlock.units import Quantity, parse_bytes

__all__ = [
    "DTYPE_BYTES",
    "PROFILES",
    "Popularity",
    "expert_popularity",
    "moe",
    "moe_routing",
    "profile_skew",
    "token_bytes",
]

Popularity = Literal["zipf", "power-law", "softmax"]
DTYPE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
# Gini of tokens per expert by kind of attention, measured on real text in five models (arXiv 2605.20982). Figures for
# mha and mamba2 are published; mla and gdn are published as above 0.24 and up to 0.29, gqa as between these and the
# others, random tokens as 0.29-0.38: we take the middle of each.
PROFILES = {"mha": 0.105, "mamba2": 0.150, "gqa": 0.195, "mla": 0.265, "gdn": 0.265, "random-tokens": 0.335}
MAX_TOKENS = 1 << 22
MAX_STEPS = 100_000
_TOKENS_AT_ONCE = 1 << 16


def token_bytes(hidden: int, dtype: str) -> int:
    """Bytes of one token.

    >>> token_bytes(7168, "bf16")
    14336
    """
    check_whole(hidden, "hidden", 1, 1 << 24)
    if dtype not in DTYPE_BYTES:
        raise InvalidInput(f"dtype={str(dtype)[:40]!r} is unknown; {nearest(str(dtype)[:40], DTYPE_BYTES)}")
    return int(hidden) * DTYPE_BYTES[dtype]


def expert_popularity(
    experts: int, skew: float = 0.8, popularity: Popularity = "zipf", drift: float = 0.0, step: int = 0, seed: int = 0
) -> NDArray[np.float64]:
    """Chance that a token's first choice is each expert, ``[experts]``, at one step of training."""
    check_whole(experts, "experts", 1, MAX_EXPERTS)
    check_range(skew, "skew", 0.0, 10.0)
    check_range(drift, "drift", 0.0, 1.0)
    check_whole(step, "step", 0, MAX_STEPS)
    rng = generator(seed)
    score = rng.standard_normal(experts)
    for _ in range(step if drift > 0 else 0):
        score = math.sqrt(1 - drift**2) * score + drift * rng.standard_normal(experts)
    if popularity == "zipf":
        weights = np.empty(experts)
        weights[np.argsort(-score, kind="stable")] = np.arange(1, experts + 1, dtype=np.float64) ** -skew
    elif popularity == "power-law":
        above = np.array([0.5 * math.erfc(value / math.sqrt(2)) for value in score])  # share of experts that are hotter
        weights = np.maximum(above, 1e-12) ** -skew
    elif popularity == "softmax":
        weights = np.exp(skew * (score - score.max()))
    else:
        raise InvalidInput(f"popularity={popularity!r} must be zipf, power-law or softmax")
    return np.asarray(weights / weights.sum(), np.float64)


def profile_skew(profile: str, experts: int, top_k: int, drift: float = 0.0, step: int = 0, seed: int = 0) -> float:
    """Scale of the scores whose softmax gives tokens per expert a profile's Gini coefficient, at one step.

    >>> profile_skew("mha", 256, 8) < profile_skew("mla", 256, 8) < 0.6
    True
    """
    if profile not in PROFILES:
        raise InvalidInput(f"profile={str(profile)[:40]!r} is unknown; {nearest(str(profile)[:40], PROFILES)}")
    _check_top_k(top_k, experts)

    def drawn_gini(skew: float) -> float:
        return gini(_chosen_share(expert_popularity(experts, skew, "softmax", drift, step, seed), top_k))

    low, high = 0.0, 10.0
    if drawn_gini(high) < PROFILES[profile]:
        raise InvalidInput(f"profile={profile!r} needs more than {experts} experts of which a token takes {top_k}")
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if drawn_gini(middle) < PROFILES[profile] else (low, middle)
    return high


def moe(
    cluster: HasRanks,
    tokens: int = 4096,
    experts: int = 256,
    top_k: int = 8,
    hidden: int = 7168,
    dtype: str = "bf16",
    skew: float = 0.8,
    popularity: Popularity = "zipf",
    drift: float = 0.1,
    step: int = 0,
    seed: int = 0,
    bytes_per_gpu: Quantity | None = None,
    profile: str | None = None,
) -> Demand:
    """Dispatch of an MoE layer, one copy of a token per chosen expert, experts contiguous over the GPUs.

    Counts are drawn per GPU and expert, not token by token, so that large clusters take milliseconds; `moe_routing`
    draws tokens. ``tokens=128`` is the decode regime.

    Parameters
    ----------
    tokens
        Per GPU; `bytes_per_gpu` gives it instead, to the nearest token.
    step
        Which step of a run whose popularity drifts; the same seed with the next step is the next matrix of that run.
    profile
        A kind of attention, by which tokens per expert were found to differ: mha, mamba2, gqa, mla, gdn, or
        random-tokens. It sets `skew` and `popularity`.

    Examples
    --------
    >>> from interlock.topology import cluster
    >>> decode = moe(cluster("h200", servers=4), tokens=128)
    >>> int(decode.bytes_matrix.sum()) == 32 * 128 * 8 * 7168 * 2
    True
    """
    size, shape = token_bytes(hidden, dtype), square(cluster)
    _check_top_k(top_k, experts)
    if profile is not None:
        skew, popularity = profile_skew(profile, experts, top_k, drift, step, seed), "softmax"
    if bytes_per_gpu is not None:
        tokens = max(1, round(parse_bytes(bytes_per_gpu, "bytes_per_gpu") / (top_k * size)))
    check_whole(tokens, "tokens", 1, 1 << 40)
    if tokens * top_k * size * cluster.num_ranks > MAX_TOTAL_BYTES:
        raise InvalidInput(
            f"tokens={tokens} of {size} bytes on {cluster.num_ranks} GPUs are more than 2^62 bytes in all"
        )
    share = _chosen_share(expert_popularity(experts, skew, popularity, drift, step, seed), top_k)
    rng = np.random.Generator(np.random.PCG64([seed, step, 1]))
    here = np.flatnonzero(cluster.present)
    pairs = _draw_counts(share, tokens, top_k, len(here), rng)  # [GPUs present, experts]
    placement = contiguous_placement(experts, cluster.num_ranks, cluster.present)
    copies = np.zeros(shape, np.int64)
    copies[here] = _per_rank(pairs, placement)
    return Demand(copies * size, f"moe:{profile or f'{skew:g}'}", seed)


def moe_routing(
    cluster: HasRanks,
    tokens: int = 4096,
    experts: int = 256,
    top_k: int = 8,
    skew: float = 0.8,
    popularity: Popularity = "zipf",
    drift: float = 0.1,
    step: int = 0,
    seed: int = 0,
    placement: Placement | None = None,
    profile: str | None = None,
) -> Routing:
    """Experts of every token, `tokens` on each GPU that is there, drawn one by one; gate weights are drawn apart."""
    _check_top_k(top_k, experts)
    if profile is not None:
        skew, popularity = profile_skew(profile, experts, top_k, drift, step, seed), "softmax"
    here = np.flatnonzero(cluster.present)
    check_whole(tokens, "tokens", 1, MAX_TOKENS // len(here))
    chance = expert_popularity(experts, skew, popularity, drift, step, seed)
    rng = np.random.Generator(np.random.PCG64([seed, step, 2]))
    num_tokens = tokens * len(here)
    starts = range(0, num_tokens, _TOKENS_AT_ONCE)
    chosen = [_draw_experts(chance, top_k, min(_TOKENS_AT_ONCE, num_tokens - first), rng) for first in starts]
    weights = -np.sort(-rng.standard_exponential((num_tokens, top_k), np.float32), axis=1) + np.float32(1e-6)
    return Routing(
        experts=np.concatenate(chosen),
        rank_of_token=np.repeat(here, tokens).astype(np.int32),
        placement=placement or contiguous_placement(experts, cluster.num_ranks, cluster.present),
        gate_weights=weights / weights.sum(axis=1, keepdims=True),
        name=f"moe:{profile or f'{skew:g}'}",
        seed=seed,
    )


def _check_top_k(top_k: int, experts: int) -> None:
    check_whole(experts, "experts", 1, MAX_EXPERTS)
    check_whole(top_k, "top_k", 1, 4096)
    if top_k > experts:
        raise InvalidInput(f"top_k={top_k} is more than experts={experts}; a token's experts must differ")


def _draw_experts(chance: NDArray[np.float64], top_k: int, count: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """First `top_k` different experts of a long row of draws per token, ``[count, top_k]``."""
    cumulative = np.cumsum(chance)
    drawn = np.searchsorted(cumulative, rng.random((count, 2 * top_k)) * cumulative[-1], side="right")
    drawn = np.minimum(drawn, len(chance) - 1)
    is_new = np.ones(drawn.shape, np.bool_)
    for later in range(1, 2 * top_k):
        is_new[:, later] = (drawn[:, :later] != drawn[:, later, None]).all(axis=1)
    keep = is_new & (np.cumsum(is_new, axis=1) <= top_k)
    found = keep.sum(axis=1)
    chosen = np.empty((count, top_k), np.int32)
    chosen[np.arange(top_k) < found[:, None]] = drawn[keep]
    for token in np.flatnonzero(found < top_k):  # where draws kept hitting hot experts, race those that are left
        held, left = chosen[token, : found[token]], chance.copy()
        left[held] = 0.0
        arrival = rng.standard_exponential(len(chance)) / np.maximum(left, 1e-300)
        arrival[held] = np.inf
        chosen[token, found[token] :] = np.argsort(arrival, kind="stable")[: top_k - found[token]]
    return chosen


def _chosen_share(chance: NDArray[np.float64], top_k: int) -> NDArray[np.float64]:
    """Chance that an expert is among a token's top k: those that arrive by the time the k-th is expected."""
    if top_k == len(chance):
        return np.ones_like(chance)
    low, high = 0.0, 1.0
    while float(-np.expm1(-high * chance).sum()) < top_k and high < 1e30:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if float(-np.expm1(-middle * chance).sum()) < top_k else (low, middle)
    share = -np.expm1(-high * chance)
    return np.asarray(share * (top_k / share.sum()), np.float64)


def _draw_counts(
    share: NDArray[np.float64], tokens: int, top_k: int, num_gpus: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Token-expert pairs per GPU, ``[num_gpus, experts]``: top_k per token, at most one per token and expert."""
    pairs = rng.multinomial(tokens * top_k, share / share.sum(), size=num_gpus)
    while (pairs > tokens).any():
        for gpu in np.flatnonzero((pairs > tokens).any(axis=1)):
            row = np.minimum(pairs[gpu], tokens)
            room = (tokens - row) * np.maximum(share, 1e-12)
            row += rng.multinomial(tokens * top_k - int(row.sum()), room / room.sum())
            pairs[gpu] = row
    return pairs


def _per_rank(pairs: NDArray[np.int64], placement: Placement) -> NDArray[np.int64]:
    """Copies to each rank, ``[num_gpus, num_ranks]``; replicas share evenly, the first take what is left over."""
    ranks = placement.ranks_of_expert
    expert = ranks.row_of_value
    replica = np.arange(placement.num_slots) - ranks.offsets[:-1][expert]
    count = ranks.counts[expert]
    per_slot = pairs[:, expert] // count + (replica < pairs[:, expert] % count)
    copies = np.zeros((len(pairs), placement.num_ranks), np.int64)
    order = np.argsort(ranks.values, kind="stable")
    held, first = np.unique(ranks.values[order], return_index=True)
    copies[:, held] = np.add.reduceat(per_slot[:, order], first, axis=1)
    return copies
