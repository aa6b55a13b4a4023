"""Things that are broken: a slower or dead NIC, a missing GPU."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.errors import InvalidInput
from interlock.units import Quantity, parse_bandwidth

__all__ = ["Fault", "MissingGpu", "NicFault", "dead_nic", "missing_gpu", "slow_nic"]


@dataclass(frozen=True, slots=True)
class NicFault:
    """One NIC of one GPU runs at `bandwidth_bytes_per_s`; 0 means it is dead."""

    server: int
    gpu: int
    nic: int
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class MissingGpu:
    """The rank keeps its number but has no links and no traffic."""

    server: int
    gpu: int


Fault = NicFault | MissingGpu


def slow_nic(server: int, gpu: int, bandwidth: Quantity, nic: int = 0) -> NicFault:
    """A NIC that runs below its nominal rate.

    >>> slow_nic(server=1, gpu=3, bandwidth="200 Gb/s").bandwidth_bytes_per_s
    25000000000.0
    """
    return NicFault(_index(server, "server"), _index(gpu, "gpu"), _index(nic, "nic"), parse_bandwidth(bandwidth))


def dead_nic(server: int, gpu: int, nic: int = 0) -> NicFault:
    """A NIC that carries nothing."""
    return NicFault(_index(server, "server"), _index(gpu, "gpu"), _index(nic, "nic"), 0.0)


def missing_gpu(server: int, gpu: int) -> MissingGpu:
    """A GPU that is not there; demand must not name its rank."""
    return MissingGpu(_index(server, "server"), _index(gpu, "gpu"))


def _index(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(f"{name}={value!r} must be a whole number of at least 0")
    return value
