"""Servers as a cluster of two tiers where they are alike, and as a graph always."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from interlock.errors import InvalidInput
from interlock.interchange.machines.server import Server
from interlock.topology import Cluster, Fabric, MissingGpu, NicFault, Topology, from_edges
from interlock.topology.presets import CLUSTER_KEYS
from interlock.units import format_bandwidth, format_seconds

__all__ = ["Field", "ImportedTopology", "fields_of_cluster", "fields_of_graph", "from_graph", "join_servers"]


UNSAID = "files of servers do not say it; "
PRESET = UNSAID + "taken from the presets"
SHOWN = (
    *("servers", "gpus_per_server", "scale_up", "scale_up_bandwidth", "scale_up_latency", "multicasts", "reduces"),
    *("nics_per_gpu", "scale_out_bandwidth", "scale_out", "oversubscription", "scale_out_latency"),
    *("message_overhead", "stage_overhead", "fabric"),
    *("gpu_launch", "gpu_hop", "gpu_message", "gpu_copy_bandwidth", "gpu_costs"),
)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a cluster or graph."""

    name: str
    value: str
    is_stated: bool
    why: str


def fields_of_cluster(cluster: Cluster, servers: list[Server], *, files: int) -> tuple[Field, ...]:
    """Every field of a cluster that was made from files of servers."""
    first = servers[0].said
    says_links = all(server.said.links for server in servers)
    says_link_rates = all(server.said.link_rates for server in servers)
    says_rates = all(server.said.nic_rates for server in servers)
    rails = {nic.rail for server in servers for nic in server.nics}
    knows_rails = bool(rails) and None not in rails
    has_nics = any(server.nics for server in servers)
    flat = UNSAID + ("taken as flat" if cluster.servers > 1 else "unused")
    said = {
        "servers": (True, f"{files} files" if files > 1 else "as asked for (--servers)"),
        "gpus_per_server": (True, "the most GPUs of a file"),
        "scale_up": (says_links, first.links_why),
        "scale_up_bandwidth": (says_links and says_link_rates, first.links_why),
        "multicasts": (False, UNSAID + "without it nothing is promised"),
        "reduces": (False, UNSAID + "without it nothing is promised"),
        "nics_per_gpu": (has_nics, "NICs nearest to each GPU"),
        "scale_out_bandwidth": (says_rates and has_nics, first.nics_why),
        "scale_out": (knows_rails, "from the `rail` numbers of NICs" if knows_rails else flat),
        "oversubscription": (False, UNSAID + "taken as none"),
        "fabric": (False, UNSAID + "taken as one that loses nothing"),
        "gpu_costs": (False, "what a file of links cannot say is assumed"),
    }
    return tuple(Field(key, _worded(cluster, CLUSTER_KEYS[key]), *said.get(key, (False, PRESET))) for key in SHOWN)


def _worded(cluster: Cluster, field: str) -> str:
    value = getattr(cluster, field)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.endswith("_s"):
        return (format_bandwidth if field.endswith("bytes_per_s") else format_seconds)(value)
    return value.name if isinstance(value, Fabric) else f"{value:g}" if isinstance(value, float) else str(value)


def fields_of_graph(topology: Topology, servers: list[Server], source: str) -> tuple[Field, ...]:
    """Every field of a graph: a network's file, or servers whose GPUs are not joined alike."""
    rates = sorted(set(topology.bandwidth_bytes_per_s.tolist()), reverse=True)
    latencies = sorted(set(topology.latency_s.tolist()))
    says_links = all(server.said.links for server in servers)
    says_rates = says_links and all(server.said.link_rates for server in servers)
    why = servers[0].said.links_why if servers else f"as {source} has them"
    given = not servers
    none = "no such cost in the file; taken as none"
    cost = none if given else PRESET
    return (
        Field("ranks", str(topology.num_ranks), True, f"as {source} has them"),
        Field("links", str(topology.num_links), says_links, why),
        Field("bandwidth", ", ".join(format_bandwidth(rate) for rate in rates[:6]), says_rates, why),
        Field(
            "latency",
            ", ".join(format_seconds(latency) for latency in latencies[:6]),
            given,
            why if given else PRESET,
        ),
        Field("message_overhead", format_seconds(float(topology.message_overhead_s.max(initial=0.0))), False, cost),
        Field("stage_overhead", format_seconds(topology.stage_overhead_s), False, cost),
        Field("fabric", topology.fabric.name, False, none.replace("cost", "limit")),
    )


# What no file of a server says: as in the presets.
SCALE_UP_LATENCY_S = 1e-6
SCALE_OUT_LATENCY_S = 3e-6
MESSAGE_OVERHEAD_S = 0.2e-6
STAGE_OVERHEAD_S = 10e-6
MAX_SERVERS = 65_536
NEARLY = 0.01  # rates that differ by less are the same


@dataclass(frozen=True, slots=True, eq=False)
class ImportedTopology:
    """What was understood: the servers, a cluster where two tiers describe them, a graph, and what was guessed."""

    source: str
    servers: tuple[Server, ...]
    cluster: Cluster | None
    topology: Topology
    guesses: tuple[str, ...]
    fields: tuple[Field, ...]


def from_graph(source: str, topology: Topology, guesses: list[str], cluster: Cluster | None = None) -> ImportedTopology:
    """A file that describes a network rather than servers."""
    return ImportedTopology(source, (), cluster, topology, tuple(guesses), fields_of_graph(topology, [], source))


def join_servers(servers: list[Server], copies: int = 1) -> ImportedTopology:
    """One network of all servers; `copies` repeats a single one."""
    if not 1 <= copies <= MAX_SERVERS:
        raise InvalidInput(f"servers={copies} must be a whole number between 1 and {MAX_SERVERS}")
    if copies > 1 and len(servers) != 1:
        raise InvalidInput(f"servers={copies}: one file can stand for several equal servers; {len(servers)} were given")
    all_servers = servers * copies
    guesses = list(dict.fromkeys(text for server in servers for text in server.guesses))
    source = ", ".join(server.source for server in servers)
    cluster = _cluster(all_servers, guesses)
    topology = cluster.topology if cluster is not None else _graph(all_servers, guesses)
    if cluster is not None:
        fields = fields_of_cluster(cluster, all_servers, files=len(servers))
    else:
        fields = fields_of_graph(topology, all_servers, source)
    return ImportedTopology(source, tuple(all_servers), cluster, topology, tuple(guesses), fields)


def _cluster(servers: list[Server], guesses: list[str]) -> Cluster | None:
    """Two tiers, if every GPU's scale-up is alike; missing GPUs and slower NICs become faults."""
    width = max(len(server.gpus) for server in servers)
    up = _scale_up(servers, width, guesses)
    if up is None:
        return None
    scale_up, rate = up
    ports = [server.nic_bytes_per_s(gpu) for server in servers for gpu in range(len(server.gpus))]
    nominal, per_gpu = _nominal_nic(servers)
    faults: list[MissingGpu | NicFault] = []
    for s, server in enumerate(servers):
        faults += [MissingGpu(s, gpu) for gpu in range(len(server.gpus), width)]
        for gpu in range(len(server.gpus)):
            have = server.nic_bytes_per_s(gpu)
            if nominal and abs(have - nominal * per_gpu) > NEARLY * nominal * per_gpu:
                faults += _nic_faults(s, gpu, have, nominal, per_gpu)
    if nominal == 0.0 and len(servers) > 1:
        raise InvalidInput(f"{servers[0].source} names no NIC, and {len(servers)} servers need one: say --nic")
    if nominal and max(ports) > nominal * per_gpu * (1 + NEARLY):
        return None  # some GPU has more than the usual; faults only take away
    rails = {nic.rail for server in servers for nic in server.nics}
    knows_rails = bool(rails) and None not in rails
    if len(servers) > 1:
        how = "rails joined by a spine, from the `rail` numbers" if knows_rails else "a flat network"
        guesses.append(f"files of servers do not say how they are joined: taken as {how}")
    return Cluster(
        name=servers[0].source.partition(",")[0].rsplit(".", 1)[0][:64] or "imported",
        servers=len(servers),
        gpus_per_server=width,
        scale_up="mesh" if scale_up == "mesh" else "switch",
        scale_up_bandwidth_bytes_per_s=rate,
        scale_up_latency_s=SCALE_UP_LATENCY_S,
        scale_out="rail-spine" if knows_rails else "flat",
        scale_out_bandwidth_bytes_per_s=nominal or 1e9,
        nics_per_gpu=per_gpu,
        scale_out_latency_s=SCALE_OUT_LATENCY_S,
        message_overhead_s=MESSAGE_OVERHEAD_S,
        stage_overhead_s=STAGE_OVERHEAD_S,
        faults=tuple(faults),
    )


def _nic_faults(server: int, gpu: int, have: float, nominal: float, per_gpu: int) -> list[NicFault]:
    """NICs that are slower or missing, so that the port adds up to what the GPU has."""
    faults = []
    for nic in range(per_gpu):
        rate = min(nominal, max(0.0, have - nominal * nic))
        if rate < nominal:
            faults.append(NicFault(server, gpu, nic, rate))
    return faults


def _nominal_nic(servers: list[Server]) -> tuple[float, int]:
    """The usual NIC of a GPU and how many of them it has; shared NICs count as one of the shared rate."""
    shapes: Counter[tuple[float, int]] = Counter()
    for server in servers:
        for shares in server.nics_of_gpu:
            rates = {round(server.nics[part.nic].bandwidth_bytes_per_s * part.share) for part in shares}
            if len(rates) == 1:
                shapes[float(rates.pop()), len(shares)] += 1
            elif shares:
                shapes[sum(server.nics[part.nic].bandwidth_bytes_per_s * part.share for part in shares), 1] += 1
    if not shapes:
        return 0.0, 1
    return max(shapes, key=lambda shape: (shapes[shape], shape))


def _scale_up(servers: list[Server], width: int, guesses: list[str]) -> tuple[str, float] | None:
    """("switch" or "mesh" or "pcie", bytes per second of a GPU), or None where GPUs are not alike."""
    gpus = [gpu for server in servers for gpu in server.gpus]
    switched = [gpu.switch_bytes_per_s for gpu in gpus]
    if min(switched) > 0 and not any(gpu.peers for gpu in gpus):
        return ("switch", min(switched)) if _alike(switched) else None
    if max(switched) == 0 and all(len(gpu.peers) == width - 1 for gpu in gpus):
        rates = [rate for gpu in gpus for _, rate in gpu.peers]
        if width > 1 and _alike(rates):
            return "mesh", sum(rates) / len(rates) * (width - 1)
    if max(switched) == 0 and not any(gpu.peers for gpu in gpus):
        rates = [gpu.pcie_bytes_per_s for gpu in gpus]
        if width > 1:
            guesses.append("GPUs reach each other over PCIe; bridges and host links are counted as one switch")
        return ("pcie", min(rates)) if min(rates) > 0 else None
    return None


def _alike(rates: list[float]) -> bool:
    return bool(rates) and max(rates) <= min(rates) * (1 + NEARLY)


def _graph(servers: list[Server], guesses: list[str]) -> Topology:
    """GPUs, one switch per server for NVSwitch or PCIe, direct links, and one switch for all NICs."""
    ranks = sum(len(server.gpus) for server in servers)
    src: list[int] = []
    dst: list[int] = []
    rate: list[float] = []
    latency: list[float] = []

    def join(a: int, b: int, bandwidth: float, latency_s: float) -> None:
        src.extend((a, b))
        dst.extend((b, a))
        rate.extend((bandwidth, bandwidth))
        latency.extend((latency_s, latency_s))

    network = ranks + len(servers)
    first = 0
    for s, server in enumerate(servers):
        for k, gpu in enumerate(server.gpus):
            for peer, bandwidth in gpu.peers:
                src.append(first + k)
                dst.append(first + peer)
                rate.append(bandwidth)
                latency.append(SCALE_UP_LATENCY_S)
            through = gpu.switch_bytes_per_s or gpu.pcie_bytes_per_s
            if through > 0:
                join(first + k, ranks + s, through, SCALE_UP_LATENCY_S / 2)
            port = server.nic_bytes_per_s(k)
            if port > 0:
                join(first + k, network, port, SCALE_OUT_LATENCY_S / 2)
        first += len(server.gpus)
    if not src:
        raise InvalidInput("nothing joins the GPUs of these files")
    guesses.append("GPUs are not joined alike: described as a graph, PCIe as one switch per server")
    made = from_edges(
        np.array(src),
        np.array(dst),
        np.array(rate),
        np.array(latency),
        MESSAGE_OVERHEAD_S,
        num_ranks=ranks,
        switches=np.arange(ranks, network + 1),
        name="imported",
    )
    return replace(made, stage_overhead_s=STAGE_OVERHEAD_S)
