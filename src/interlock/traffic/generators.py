"""Seeded demand generators. `bytes_per_gpu` is what one GPU sends on average, its own share included."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.traffic.demand import MAX_TOTAL_BYTES, Demand, HasRanks
from interlock.units import Quantity, parse_bytes

__all__ = ["hot_expert", "lognormal", "random", "sparse", "uniform", "zipf"]


def uniform(cluster: HasRanks, bytes_per_gpu: Quantity = "512 MB") -> Demand:
    """Every pair the same.

    >>> from interlock.topology import cluster
    >>> uniform(cluster("h200", servers=1), "8 MB").bytes_matrix[0, :3].tolist()
    [1000000, 1000000, 1000000]
    """
    weights = np.ones((cluster.num_ranks, cluster.num_ranks))
    return _demand(cluster, weights, bytes_per_gpu, "uniform", None)


def random(cluster: HasRanks, bytes_per_gpu: Quantity = "512 MB", seed: int = 0) -> Demand:
    """Each pair uniform between nothing and twice the mean."""
    weights = _rng(seed).random((cluster.num_ranks, cluster.num_ranks))
    return _demand(cluster, weights, bytes_per_gpu, "random", seed)


def zipf(cluster: HasRanks, skew: float = 0.8, bytes_per_gpu: Quantity = "512 MB", seed: int = 0) -> Demand:
    """Each pair takes a Zipf weight of its own rank among all pairs, in random order (as FAST draws it)."""
    _check_range(skew, "skew", 0.0, 10.0)
    pairs = cluster.num_ranks**2
    weights = np.arange(1, pairs + 1, dtype=np.float64) ** -skew
    order = _rng(seed).permutation(pairs)
    return _demand(cluster, weights[order].reshape(cluster.num_ranks, -1), bytes_per_gpu, f"zipf:{skew:g}", seed)


def hot_expert(cluster: HasRanks, skew: float = 0.8, bytes_per_gpu: Quantity = "512 MB", seed: int = 0) -> Demand:
    """Destinations have Zipf popularity, the same for every sender: some experts are hot."""
    _check_range(skew, "skew", 0.0, 10.0)
    rng = _rng(seed)
    popularity = np.arange(1, cluster.num_ranks + 1, dtype=np.float64) ** -skew
    popularity = popularity[rng.permutation(cluster.num_ranks)]
    noise = 0.9 + 0.2 * rng.random((cluster.num_ranks, cluster.num_ranks))
    return _demand(cluster, popularity[None, :] * noise, bytes_per_gpu, f"hot:{skew:g}", seed)


def lognormal(cluster: HasRanks, sigma: float = 1.0, bytes_per_gpu: Quantity = "512 MB", seed: int = 0) -> Demand:
    """Each pair log-normal with shape `sigma`."""
    _check_range(sigma, "sigma", 0.0, 10.0)
    weights = _rng(seed).lognormal(0.0, sigma, (cluster.num_ranks, cluster.num_ranks))
    return _demand(cluster, weights, bytes_per_gpu, f"lognormal:{sigma:g}", seed)


def sparse(cluster: HasRanks, density: float = 0.05, bytes_per_gpu: Quantity = "512 MB", seed: int = 0) -> Demand:
    """Only a share `density` of the pairs talk, each uniform between nothing and twice their mean."""
    _check_range(density, "density", 0.0, 1.0)
    rng = _rng(seed)
    shape = (cluster.num_ranks, cluster.num_ranks)
    weights = rng.random(shape) * (rng.random(shape) < density)
    return _demand(cluster, weights, bytes_per_gpu, f"sparse:{density:g}", seed)


def _demand(
    cluster: HasRanks, weights: NDArray[np.float64], bytes_per_gpu: Quantity, name: str, seed: int | None
) -> Demand:
    """Scale weights so that the whole matrix holds bytes_per_gpu per present GPU; missing GPUs get nothing."""
    per_gpu = parse_bytes(bytes_per_gpu, "bytes_per_gpu")
    here = cluster.present
    weights = weights * here[:, None] * here[None, :]
    total = per_gpu * int(here.sum())
    if total > MAX_TOTAL_BYTES:
        raise InvalidInput(f"bytes_per_gpu={bytes_per_gpu!r} on {int(here.sum())} GPUs is more than 2^62 bytes in all")
    mass = float(weights.sum())
    scaled = weights * (total / mass) if mass > 0 else weights
    return Demand(np.floor(scaled).astype(np.int64), name, seed)


def _rng(seed: int) -> np.random.Generator:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InvalidInput(f"seed={seed!r} must be a whole number of at least 0")
    return np.random.Generator(np.random.PCG64(seed))


def _check_range(value: float, name: str, least: float, most: float) -> None:
    if not least <= value <= most:
        raise InvalidInput(f"{name}={value!r} must be between {least:g} and {most:g}")
