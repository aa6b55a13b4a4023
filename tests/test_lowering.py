"""A cluster's links as a graph."""

import numpy as np
import pytest

import interlock as il


@pytest.mark.parametrize("scale_out", ["flat", "rail", "rail-spine"])
@pytest.mark.parametrize("oversubscription", [1.0, 2.0])
def test_routes_are_connected_chains_of_links(scale_out: str, oversubscription: float) -> None:
    """Each route starts at its source, ends at its destination, and every link starts where the one before ended."""
    cluster = il.cluster("h200", servers=3, gpus_per_server=4, scale_out=scale_out, oversubscription=oversubscription)
    ranks = np.arange(cluster.num_ranks, dtype=np.int32)
    src, dst = (axis.reshape(-1) for axis in np.meshgrid(ranks, ranks, indexing="ij"))
    apart = src != dst
    if scale_out == "rail":
        apart &= (src // 4 == dst // 4) | (src % 4 == dst % 4)
    topology = cluster.topology
    for a, b, links in zip(src[apart], dst[apart], topology.routes(src[apart], dst[apart]), strict=True):
        stops = [topology.link_src[links[0]], *topology.link_dst[links]]
        assert stops[0] == a and stops[-1] == b
        assert topology.link_src[links[1:]].tolist() == stops[1:-1]
