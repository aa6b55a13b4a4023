"""What is connected to what: clusters of two tiers, and any graph."""

from interlock.topology.cluster import Cluster
from interlock.topology.fabric import Fabric
from interlock.topology.faults import Fault, MissingGpu, NicFault, dead_nic, missing_gpu, slow_nic
from interlock.topology.graph import NodeKind, Topology, from_edges
from interlock.topology.named import clos, dgx1, dragonfly, rail
from interlock.topology.ports import receiving_ports
from interlock.topology.presets import cluster, cluster_with, preset_names
from interlock.topology.shapes import fully_connected, hypercube, mesh, product, rfs, ring, switch, torus
from interlock.topology.symmetry import find_symmetries, is_symmetry, map_links

__all__ = [
    "Cluster",
    "Fabric",
    "Fault",
    "MissingGpu",
    "NicFault",
    "NodeKind",
    "Topology",
    "clos",
    "cluster",
    "cluster_with",
    "dead_nic",
    "dgx1",
    "dragonfly",
    "find_symmetries",
    "from_edges",
    "fully_connected",
    "hypercube",
    "is_symmetry",
    "map_links",
    "mesh",
    "missing_gpu",
    "preset_names",
    "product",
    "rail",
    "receiving_ports",
    "rfs",
    "ring",
    "slow_nic",
    "switch",
    "torus",
]
