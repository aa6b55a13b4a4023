"""Things that are broken: a slower or dead NIC, a missing GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.errors import InvalidInput, check_whole, nearest
from interlock.units import Quantity, format_bandwidth, parse_bandwidth, whole_or_none

__all__ = ["Fault", "MissingGpu", "NicFault", "dead_nic", "describe_faults", "missing_gpu", "parse_fault", "slow_nic"]

MAX_NAMED = 12


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
    return NicFault(
        check_whole(server, "server", 0),
        check_whole(gpu, "gpu", 0),
        check_whole(nic, "nic", 0),
        parse_bandwidth(bandwidth),
    )


def dead_nic(server: int, gpu: int, nic: int = 0) -> NicFault:
    """A NIC that carries nothing."""
    return NicFault(check_whole(server, "server", 0), check_whole(gpu, "gpu", 0), check_whole(nic, "nic", 0), 0.0)


def missing_gpu(server: int, gpu: int) -> MissingGpu:
    """A GPU that is not there; demand must not name its rank."""
    return MissingGpu(check_whole(server, "server", 0), check_whole(gpu, "gpu", 0))


def parse_fault(text: str, name: str = "fault") -> Fault:
    """A fault as the command line writes it.

    >>> parse_fault("dead-nic:0:5"), parse_fault("slow-nic:1:2:200Gb/s")
    (NicFault(server=0, gpu=5, nic=0, bandwidth_bytes_per_s=0.0), \
NicFault(server=1, gpu=2, nic=0, bandwidth_bytes_per_s=25000000000.0))
    """
    kind, *rest = text.split(":")
    forms = {"dead-nic": "SERVER:GPU", "slow-nic": "SERVER:GPU:RATE", "missing-gpu": "SERVER:GPU"}
    if kind not in forms:
        raise InvalidInput(f"{name}={text[:64]!r}: unknown fault {kind[:64]!r}; {nearest(kind[:64], forms)}")
    server, gpu = (*map(whole_or_none, rest[:2]), None, None)[:2]
    if len(rest) != forms[kind].count(":") + 1 or server is None or gpu is None:
        raise InvalidInput(f"{name}={text[:64]!r} must have the form {kind}:{forms[kind]}")
    if kind == "slow-nic":
        return slow_nic(server, gpu, parse_bandwidth(rest[2], name))
    return (dead_nic if kind == "dead-nic" else missing_gpu)(server, gpu)


def describe_faults(faults: Sequence[Fault]) -> str:
    """What is broken; of many faults the first few and how many more."""
    broken = []
    for fault in faults[:MAX_NAMED]:
        place = f"server {fault.server}, GPU {fault.gpu}"
        if isinstance(fault, MissingGpu):
            broken.append(f"{place} is missing")
        elif fault.bandwidth_bytes_per_s == 0:
            broken.append(f"the NIC of {place} is dead")
        else:
            broken.append(f"the NIC of {place} runs at {format_bandwidth(fault.bandwidth_bytes_per_s)}")
    more = [f"{len(faults) - MAX_NAMED} more"] if len(faults) > MAX_NAMED else []
    return "; ".join([*broken, *more]) or "nothing"
