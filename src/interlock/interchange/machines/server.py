"""One server as its files describe it: GPUs, NICs, the links between them, and which NIC is near which GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

__all__ = ["Distance", "Gpu", "Nic", "NicShare", "Said", "Server", "share_nics", "unused_nics"]


class Distance(IntEnum):
    """How far two devices are apart inside a server, as nvidia-smi names it."""

    PIX = 0  # at most one PCIe bridge between them
    PXB = 1  # several bridges, no host bridge
    PHB = 2  # a host bridge
    NODE = 3  # host bridges of one NUMA node
    SYS = 4  # the link between NUMA nodes


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU and its direct links. `peers` maps other GPUs of the server to bytes per second each way."""

    name: str
    busid: str = ""
    numa: str = ""
    bridges: tuple[str, ...] = ()  # PCIe bridges above it, outermost first
    pcie_bytes_per_s: float = 0.0
    switch_bytes_per_s: float = 0.0  # to the scale-up switch
    peers: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Nic:
    """A NIC port."""

    name: str
    bandwidth_bytes_per_s: float
    numa: str = ""
    bridges: tuple[str, ...] = ()
    rail: int | None = None


@dataclass(frozen=True, slots=True)
class NicShare:
    """The part of a NIC's rate that a GPU can count on."""

    nic: int
    share: float
    distance: Distance


@dataclass(frozen=True, slots=True)
class Said:
    """What the file of a server says itself, and where what it does not say comes from."""

    links: bool = True  # how GPUs are joined
    link_rates: bool = True
    links_why: str = "links in the file, at the rate NCCL counts for one, which is below the nominal one"
    nic_rates: bool = True
    nics_why: str = "speeds in the file"


@dataclass(frozen=True, slots=True)
class Server:
    """GPUs in rank order, NICs, and the NICs of each GPU."""

    source: str
    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]
    nics_of_gpu: tuple[tuple[NicShare, ...], ...]
    guesses: tuple[str, ...]
    said: Said

    def nic_bytes_per_s(self, gpu: int) -> float:
        """Rate of a GPU's NICs together."""
        return sum(self.nics[part.nic].bandwidth_bytes_per_s * part.share for part in self.nics_of_gpu[gpu])


def distance_of(gpu: Gpu, nic: Nic) -> Distance:
    """How far a NIC is from a GPU, from the bridges above both."""
    shared = 0
    for a, b in zip(gpu.bridges, nic.bridges, strict=False):
        if a != b:
            break
        shared += 1
    if shared:
        return Distance.PIX if shared == len(gpu.bridges) == len(nic.bridges) else Distance.PXB
    if gpu.numa == nic.numa:
        return Distance.PHB if not gpu.bridges or not nic.bridges else Distance.NODE
    return Distance.SYS


def share_nics(distances: list[list[Distance]], num_nics: int) -> tuple[tuple[NicShare, ...], ...]:
    """Deal NICs to the GPUs whose nearest they are.

    NICs that are equally near to the same GPUs are dealt in order, several to each GPU where there are more NICs, one
    to several GPUs where there are fewer. A GPU that gets none shares its nearest one. Shares of a NIC are equal. A NIC
    that is nobody's nearest, as those for storage often are, is dealt to nobody.

    Parameters
    ----------
    distances
        ``[num_gpus][num_nics]``.
    """
    num_gpus = len(distances)
    nearest_of = [min(row, default=Distance.SYS) for row in distances]
    near: dict[tuple[int, ...], list[int]] = {}
    for nic in range(num_nics):
        served = [gpu for gpu in range(num_gpus) if distances[gpu][nic] == nearest_of[gpu]]
        best = min((distances[gpu][nic] for gpu in served), default=None)
        if best is not None:
            near.setdefault(tuple(gpu for gpu in served if distances[gpu][nic] == best), []).append(nic)
    dealt: list[list[int]] = [[] for _ in range(num_gpus)]
    users = [0] * num_nics
    for gpus, nics in sorted(near.items()):
        pairs = max(len(gpus), len(nics))
        for k in range(pairs):
            dealt[gpus[k * len(gpus) // pairs]].append(nics[k * len(nics) // pairs])
            users[nics[k * len(nics) // pairs]] += 1
    for gpu in range(num_gpus):
        if num_nics and not dealt[gpu]:
            nearest = min(range(num_nics), key=lambda nic: (distances[gpu][nic], users[nic], nic))
            dealt[gpu].append(nearest)
            users[nearest] += 1
    return tuple(
        tuple(NicShare(nic, 1.0 / users[nic], distances[gpu][nic]) for nic in nics) for gpu, nics in enumerate(dealt)
    )


def unused_nics(nics: Sequence[Nic], nics_of_gpu: tuple[tuple[NicShare, ...], ...]) -> list[str]:
    """A sentence for every NIC that no GPU counts on."""
    used = {part.nic for parts in nics_of_gpu for part in parts}
    return [
        f"{nic.name} is farther from every GPU than another NIC, and left out"
        for number, nic in enumerate(nics)
        if number not in used
    ]
