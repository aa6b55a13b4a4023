"""What is connected to what: clusters of two tiers, and any graph."""

from interlock.topology.cluster import Cluster
from interlock.topology.fabric import Fabric
from interlock.topology.faults import Fault, MissingGpu, NicFault, dead_nic, missing_gpu, slow_nic
from interlock.topology.graph import NodeKind, Topology, from_edges
from interlock.topology.ports import receiving_ports
from interlock.topology.presets import cluster, cluster_with, preset_names
from interlock.topology.shapes import fully_connected, mesh, ring, torus

__all__ = [
    "Cluster",
    "Fabric",
    "Fault",
    "MissingGpu",
    "NicFault",
    "NodeKind",
    "Topology",
    "cluster",
    "cluster_with",
    "dead_nic",
    "from_edges",
    "fully_connected",
    "mesh",
    "missing_gpu",
    "preset_names",
    "receiving_ports",
    "ring",
    "slow_nic",
    "torus",
]
