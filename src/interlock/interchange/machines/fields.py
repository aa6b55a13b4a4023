"""What is known of an imported network, field by field: stated by its file or the user, or guessed, and why."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.interchange.machines.server import Server
from interlock.topology import Cluster, Topology
from interlock.units import format_bandwidth, format_seconds

__all__ = ["Field", "fields_of_cluster", "fields_of_graph"]

UNSAID = "files of servers do not say it; "
PRESET = UNSAID + "taken from the presets"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a cluster or graph."""

    name: str
    value: str
    is_stated: bool
    why: str


def fields_of_cluster(cluster: Cluster, servers: list[Server], *, files: int) -> tuple[Field, ...]:
    """Every field of a cluster that was made from files of servers."""
    first = servers[0]
    keys = ("says_links", "says_link_rates", "says_nic_rates")
    says_links, says_link_rates, says_rates = (all(getattr(server, key) for server in servers) for key in keys)
    rails = {nic.rail for server in servers for nic in server.nics}
    knows_rails = bool(rails) and None not in rails
    has_nics = any(server.nics for server in servers)
    several = cluster.servers > 1
    return (
        Field("servers", str(cluster.servers), True, f"{files} files" if files > 1 else "as asked for (--servers)"),
        Field("gpus_per_server", str(cluster.gpus_per_server), True, "the most GPUs of a file"),
        Field("scale_up", cluster.scale_up, says_links, first.links_why),
        Field(
            "scale_up_bandwidth",
            format_bandwidth(cluster.scale_up_bandwidth_bytes_per_s),
            says_links and says_link_rates,
            first.links_why,
        ),
        _time(cluster, "scale_up_latency"),
        Field("multicasts", _word(cluster.multicasts), False, UNSAID + "without it nothing is promised"),
        Field("reduces", _word(cluster.reduces), False, UNSAID + "without it nothing is promised"),
        Field("nics_per_gpu", str(cluster.nics_per_gpu), has_nics, "NICs nearest to each GPU"),
        Field(
            "scale_out_bandwidth",
            format_bandwidth(cluster.scale_out_bandwidth_bytes_per_s),
            says_rates and has_nics,
            first.nics_why,
        ),
        Field(
            "scale_out",
            cluster.scale_out,
            knows_rails,
            "from the `rail` numbers of NICs" if knows_rails else UNSAID + ("taken as flat" if several else "unused"),
        ),
        Field("oversubscription", f"{cluster.oversubscription:g}", False, UNSAID + "taken as none"),
        *(_time(cluster, name) for name in ("scale_out_latency", "message_overhead", "stage_overhead")),
        Field("fabric", cluster.fabric.name, False, UNSAID + "taken as one that loses nothing"),
        *(_time(cluster, name) for name in ("gpu_launch", "gpu_hop", "gpu_message")),
        Field("gpu_copy_bandwidth", format_bandwidth(cluster.gpu_copy_bandwidth_bytes_per_s), False, PRESET),
        Field("gpu_costs", cluster.gpu_costs, False, "what a file of links cannot say is assumed"),
    )


def fields_of_graph(topology: Topology, servers: list[Server], source: str) -> tuple[Field, ...]:
    """Every field of a graph: a network's file, or servers whose GPUs are not joined alike."""
    rates = sorted(set(topology.bandwidth_bytes_per_s.tolist()), reverse=True)
    latencies = sorted(set(topology.latency_s.tolist()))
    says_links = all(server.says_links for server in servers)
    says_rates = says_links and all(server.says_link_rates for server in servers)
    why = servers[0].links_why if servers else f"as {source} has them"
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


def _time(cluster: Cluster, name: str) -> Field:
    return Field(name, format_seconds(getattr(cluster, f"{name}_s")), False, PRESET)


def _word(flag: bool) -> str:
    return "yes" if flag else "no"
