"""Topologies in: recognises a file's kind, reads it, and joins several servers' files into one network."""

from __future__ import annotations

from pathlib import Path

from interlock.errors import InvalidInput
from interlock.files import check_file
from interlock.interchange.machines.join import ImportedTopology, join_servers
from interlock.interchange.machines.nccl_topo import read_nccl_topology
from interlock.interchange.machines.server import Server
from interlock.interchange.machines.simulators import read_astra_network, read_htsim_topology, read_simai_topology
from interlock.interchange.machines.smi_topo import looks_like_smi_topology, read_smi_topology
from interlock.interchange.shared.files import MAX_FILE_BYTES

__all__ = ["import_topology", "topology_kind"]

SNIFFED_BYTES = 1 << 16


def topology_kind(path: Path) -> str:
    """ "nccl-xml", "nvidia-smi", "astra-network", "simai" or "htsim-topo"; raises where it is none of them."""
    check_file(path, MAX_FILE_BYTES)
    with path.open("rb") as file:
        text = file.read(SNIFFED_BYTES).decode("utf-8", "replace").lstrip("\ufeff")
    start = text.lstrip()
    if start.startswith("<"):
        return "nccl-xml"
    if looks_like_smi_topology(text):
        return "nvidia-smi"
    if start.startswith("{") or path.suffix in (".yml", ".yaml"):
        return "astra-network"
    words = start.split()
    if words and words[0] == "Nodes" and "Tier" in words:
        return "htsim-topo"
    first = start.split("\n", 1)[0].split()
    if len(first) in (5, 6) and all(word.isdigit() for word in first[:5]):
        return "simai"
    raise InvalidInput(
        f"{path} is no topology that is known here (NCCL XML, nvidia-smi topo -m, ASTRA-sim, SimAI, htsim)"
    )


def import_topology(
    paths: list[Path], servers: int = 1, gpu: str | None = None, nic_bytes_per_s: float | None = None
) -> ImportedTopology:
    """Read one network, or one server per file.

    Parameters
    ----------
    paths
        Files of one kind; several are several servers, in that order.
    servers
        How many equal servers a single server's file stands for.
    gpu
        One of `GPU_MODELS`, for files that do not say what their GPUs are.
    nic_bytes_per_s
        Rate of a NIC, for files that do not say it.
    """
    if not paths:
        raise InvalidInput("no file was given")
    kinds = [topology_kind(path) for path in paths]
    for path, kind in zip(paths, kinds, strict=True):
        for name, value in () if kind in ("nccl-xml", "nvidia-smi") else (("gpu", gpu), ("nic", nic_bytes_per_s)):
            if value is not None:
                raise InvalidInput(f"{name}={value} has no effect: {path} says its own")
    found: list[Server] = []
    for path, kind in zip(paths, kinds, strict=True):
        if kind in ("nccl-xml", "nvidia-smi"):
            found += (
                read_nccl_topology(path, gpu, nic_bytes_per_s)
                if kind == "nccl-xml"
                else read_smi_topology(path, gpu, nic_bytes_per_s)
            )
        elif len(paths) > 1:
            raise InvalidInput(f"{path} describes a whole network; it cannot be joined with other files")
    if found:
        return join_servers(found, servers)
    if servers != 1:
        raise InvalidInput(f"servers={servers}: {paths[0]} describes a whole network; it cannot be repeated")
    read = {"astra-network": read_astra_network, "simai": read_simai_topology, "htsim-topo": read_htsim_topology}
    return read[kinds[0]](paths[0])
