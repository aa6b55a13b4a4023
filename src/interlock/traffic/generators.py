"""Seeded demand generators. `bytes_per_gpu` is what one GPU sends on average, its own share included."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.memory import check_memory
from interlock.traffic.demand import MAX_RANKS, MAX_TOTAL_BYTES, Demand, HasRanks
from interlock.units import Quantity, parse_bytes

__all__ = [
    "check_range",
    "check_seed",
    "generator",
    "hot_expert",
    "lognormal",
    "random",
    "sparse",
    "square",
    "uniform",
    "zipf",
]

ZIPF_VALUES = 100_000
DRAWN_BYTES = 42  # most for each pair of ranks, while it is drawn


def uniform(cluster: HasRanks, bytes_per_gpu: Quantity = "512 MB") -> Demand:
    """Every pair the same.

    >>> from interlock.topology import cluster
    >>> uniform(cluster("h200", servers=1), "8 MB").bytes_matrix[0, :3].tolist()
    [1000000, 1000000, 1000000]
    """
    return _demand(cluster, np.ones(square(cluster)), bytes_per_gpu, "uniform", None)


def random(cluster: HasRanks, bytes_per_gpu: Quantity = "512 MB", seed: int = 0) -> Demand:
    """Each pair uniform between nothing and twice the mean."""
    weights = generator(seed).random(square(cluster))
    return _demand(cluster, weights, bytes_per_gpu, "random", seed)


def zipf(cluster: HasRanks, skew: float = 0.8, bytes_per_gpu: Quantity = "512 MB", seed: int = 0) -> Demand:
    """Each pair an independent Zipf sample: size k with probability proportional to ``k ** -skew``, k up to 100,000.

    This is how FAST draws its skewed load (docs/reference/traffic.md tells how we know). ``skew=0`` is `random`;
    0.8 puts 18 % of a server's bytes on the wrong NIC; above 2 the samples would become equal again, so it is refused.
    """
    check_range(skew, "skew", 0.0, 2.0)
    shape, rng = square(cluster), generator(seed)
    cumulative = _zipf_cumulative(float(skew))
    drawn = np.sort(rng.random(shape[0] * shape[1])) * cumulative[-1]  # in order the lookups stay in the cache
    weights = rng.permutation(np.searchsorted(cumulative, drawn) + 1.0).reshape(shape)
    return _demand(cluster, weights, bytes_per_gpu, f"zipf:{skew:g}", seed)


@lru_cache(maxsize=8)
def _zipf_cumulative(skew: float) -> NDArray[np.float64]:
    """Weights of all sizes up to each, the same for every demand of a skew."""
    cumulative = np.cumsum(np.arange(1, ZIPF_VALUES + 1, dtype=np.float64) ** -skew)
    cumulative.flags.writeable = False
    return cumulative


def hot_expert(cluster: HasRanks, skew: float = 0.8, bytes_per_gpu: Quantity = "512 MB", seed: int = 0) -> Demand:
    """Destinations have Zipf popularity, the same for every sender within 10 %: some experts are hot."""
    check_range(skew, "skew", 0.0, 10.0)
    shape, rng = square(cluster), generator(seed)
    popularity = np.arange(1, cluster.num_ranks + 1, dtype=np.float64) ** -skew
    popularity = popularity[rng.permutation(cluster.num_ranks)]
    noise = 0.9 + 0.2 * rng.random(shape)
    return _demand(cluster, popularity[None, :] * noise, bytes_per_gpu, f"hot:{skew:g}", seed)


def lognormal(cluster: HasRanks, sigma: float = 1.0, bytes_per_gpu: Quantity = "512 MB", seed: int = 0) -> Demand:
    """Each pair log-normal with shape `sigma`."""
    check_range(sigma, "sigma", 0.0, 10.0)
    weights = generator(seed).lognormal(0.0, sigma, square(cluster))
    return _demand(cluster, weights, bytes_per_gpu, f"lognormal:{sigma:g}", seed)


def sparse(cluster: HasRanks, density: float = 0.05, bytes_per_gpu: Quantity = "512 MB", seed: int = 0) -> Demand:
    """Only a share `density` of the pairs talk, each uniform between nothing and twice their mean."""
    check_range(density, "density", 0.0, 1.0)
    shape, rng = square(cluster), generator(seed)
    weights = rng.random(shape) * (rng.random(shape) < density)
    return _demand(cluster, weights, bytes_per_gpu, f"sparse:{density:g}", seed)


def generator(seed: int) -> np.random.Generator:
    """The one source of random numbers of this package's inputs."""
    return np.random.Generator(np.random.PCG64(check_seed(seed)))


def check_seed(seed: int) -> int:
    """A seed, if it is one."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise InvalidInput(f"seed={seed!r} must be a whole number between 0 and 2^64 - 1")
    return int(seed)


def check_range(value: float, name: str, least: float, most: float) -> None:
    """Raise unless a number lies between two others."""
    is_number = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        raise InvalidInput(f"{name}={value!r} must be between {least:g} and {most:g}")


def square(cluster: HasRanks) -> tuple[int, int]:
    """Shape of its demands, if they have a legal number of ranks and fit into memory."""
    if not hasattr(cluster, "num_ranks") or not hasattr(cluster, "present"):
        raise InvalidInput(f"cluster={str(cluster)[:64]!r} must be a cluster or a graph; see il.cluster, il.topology")
    if cluster.num_ranks > MAX_RANKS:
        raise InvalidInput(f"the cluster has {cluster.num_ranks} ranks; demand is limited to {MAX_RANKS}")
    check_memory(DRAWN_BYTES * cluster.num_ranks**2, f"a demand of {cluster.num_ranks} ranks")
    return (cluster.num_ranks, cluster.num_ranks)


def _demand(
    cluster: HasRanks, weights: NDArray[np.float64], bytes_per_gpu: Quantity, name: str, seed: int | None
) -> Demand:
    """Scale weights so that the whole matrix holds bytes_per_gpu per present GPU; missing GPUs get nothing."""
    per_gpu = parse_bytes(bytes_per_gpu, "bytes_per_gpu")
    here = cluster.present
    if not here.all():
        weights = weights * here[:, None] * here[None, :]
    total = per_gpu * int(here.sum())
    if total > MAX_TOTAL_BYTES:
        raise InvalidInput(f"bytes_per_gpu={bytes_per_gpu!r} on {int(here.sum())} GPUs is more than 2^62 bytes in all")
    mass = float(weights.sum())
    scaled = weights * (total / mass) if mass > 0 else weights
    return Demand(scaled.astype(np.int64), name, seed)
