"""Which links end at a receiver's port, where senders can be too many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interlock.topology.graph import NodeKind, Topology
from interlock.topology.lowering import TwoTierRoutes

__all__ = ["receiving_ports"]


def receiving_ports(topology: Topology) -> NDArray[np.bool_]:
    """Links on which concurrent senders are counted, ``[num_links]``.

    In a cluster these are the NICs, inward: a scale-up switch paces its senders. In any other graph they are the links
    from a switch to a rank or NIC.
    """
    if isinstance(topology.router, TwoTierRoutes):
        ports = np.zeros(topology.num_links, np.bool_)
        ports[topology.router.nic_in : topology.router.nic_in + topology.num_ranks] = True
        return ports
    from_switch = topology.node_kinds[topology.link_src] == NodeKind.SWITCH
    to_end = topology.node_kinds[topology.link_dst] != NodeKind.SWITCH
    return np.asarray(from_switch & to_end, np.bool_)
