"""What is connected to what: clusters of two tiers, and any graph."""

from interlock.topology.cluster import Cluster
from interlock.topology.cluster_files import cluster_to_toml, read_cluster, write_cluster
from interlock.topology.edge_files import read_edges, write_edges
from interlock.topology.fabric import FABRICS, Fabric
from interlock.topology.faults import Fault, MissingGpu, NicFault, dead_nic, missing_gpu, parse_fault, slow_nic
from interlock.topology.graph import NodeKind, Topology, from_edges
from interlock.topology.graph_files import topology_to_toml, write_topology
from interlock.topology.lowering import receiving_ports
from interlock.topology.named import clos, dgx1, dragonfly, rail
from interlock.topology.networkx_graphs import from_networkx, to_networkx
from interlock.topology.parse import parse_topology, read_topology, shape_names
from interlock.topology.presets import cluster, cluster_with, preset_names
from interlock.topology.shapes import fully_connected, hypercube, mesh, product, rfs, ring, switch, torus
from interlock.topology.symmetry import find_symmetries, is_symmetry, map_links

__all__ = [
    "Cluster",
    "FABRICS",
    "Fabric",
    "Fault",
    "MissingGpu",
    "NicFault",
    "NodeKind",
    "Topology",
    "clos",
    "cluster",
    "cluster_to_toml",
    "cluster_with",
    "dead_nic",
    "dgx1",
    "dragonfly",
    "find_symmetries",
    "from_edges",
    "from_networkx",
    "fully_connected",
    "hypercube",
    "is_symmetry",
    "map_links",
    "mesh",
    "missing_gpu",
    "parse_fault",
    "parse_topology",
    "preset_names",
    "product",
    "rail",
    "read_cluster",
    "read_edges",
    "read_topology",
    "receiving_ports",
    "rfs",
    "ring",
    "shape_names",
    "slow_nic",
    "switch",
    "to_networkx",
    "topology_to_toml",
    "torus",
    "write_cluster",
    "write_edges",
    "write_topology",
]
