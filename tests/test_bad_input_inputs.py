"""Bad clusters, graphs, demand, routing and collectives: one sentence that names the value and the rule.

Files of them are in test_bad_input_files.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import interlock as il
from interlock.collectives import collective
from interlock.errors import InvalidInput
from interlock.problem import collective_problem, combine_problem, demand_problem, dispatch_problem
from interlock.ragged import Ragged
from interlock.traffic import Placement, Routing, contiguous_placement, eplb_placement

T, D = il.topology, il.traffic
RING = T.ring(4, bandwidth=1e9)
SMALL = il.cluster("h200", servers=2, gpus_per_server=2)
ONE_TOKEN = Routing(np.array([[0, 1]], np.int32), np.array([0], np.int32), contiguous_placement(4, 4))

Case = tuple[Callable[[], object], str]


def cluster(**changes: object) -> Callable[[], object]:
    return lambda: il.cluster("h200", **changes)


def edges(src: object, dst: object, bandwidth: object = 1e9, **more: object) -> Callable[[], object]:
    return lambda: T.from_edges(src, dst, bandwidth, **more)  # type: ignore[arg-type]


def routing(experts: object, ranks: object, weights: object = None, num_experts: int = 4) -> Callable[[], object]:
    return lambda: Routing(experts, ranks, contiguous_placement(num_experts, 4), weights)  # type: ignore[arg-type]


CLUSTERS: list[Case] = [
    (lambda: il.cluster("h2000"), "unknown cluster preset 'h2000'; did you mean 'h200'?"),
    (lambda: il.cluster(""), "unknown cluster preset ''"),
    (lambda: il.cluster(None), "unknown cluster preset None"),  # type: ignore[arg-type]
    (lambda: il.cluster("x" * 10_000), "unknown cluster preset 'xxx"),
    (cluster(servers=0), "servers=0 must be a whole number between 1"),
    (cluster(servers=-2), "servers=-2"),
    (cluster(servers=1.5), "servers=1.5 must be a whole number"),
    (cluster(servers=True), "servers=True"),
    (cluster(servers=None), "servers=None"),
    (cluster(servers=65_537), "servers=65537"),
    (cluster(servers=10_000), "above 65536 ranks"),
    (cluster(gpus_per_server=0), "gpus_per_server=0"),
    (cluster(gpus_per_server="many"), "gpus_per_server='many' must be a whole number"),
    (cluster(nics_per_gpu=0), "nics_per_gpu=0"),
    (cluster(nics_per_gpu=65), "nics_per_gpu=65 must be a whole number between 1 and 64"),
    (cluster(scale_up="tree"), "scale_up='tree' is unknown"),
    (cluster(scale_out="rial"), "scale_out='rial' is unknown; did you mean 'rail'?"),
    (cluster(scale_out=3), "scale_out='3' is unknown; known: flat, rail"),
    (cluster(scale_up_bandwidth=0), "scale_up_bandwidth=0 must be between 1 and"),
    (cluster(scale_out_bandwidth="0 Gb/s"), "scale_out_bandwidth='0 Gb/s' must be between 1 and"),
    (cluster(scale_out_bandwidth=float("inf")), "scale_out_bandwidth=inf must be finite"),
    (cluster(scale_out_bandwidth="400 Gbps/h"), "400 Gbps/h"),
    (cluster(scale_out_bandwidth=[1]), "scale_out_bandwidth='[1]' is not a number with a unit"),
    (cluster(scale_out_latency="-1 us"), "scale_out_latency='-1 us' must be between 0"),
    (cluster(scale_up_latency="1 fortnight"), "unknown unit 'fortnight'"),
    (cluster(message_overhead=float("nan")), "message_overhead=nan must be finite"),
    (cluster(stage_overhead="1e40 s"), "stage_overhead='1e40 s'"),
    (cluster(oversubscription=0.9), "oversubscription=0.9 must be between 1 and 1000"),
    (cluster(oversubscription=float("nan")), "oversubscription=nan"),
    (cluster(oversubscription="lots"), "oversubscription='lots' must be between 1 and 1000"),
    (cluster(fan_in=0), "fan_in=0"),
    (cluster(fan_in=2.5), "fan_in=2.5"),
    (cluster(fabric="roce"), "unknown fabric 'roce'; did you mean 'roce-pfc'?"),
    (cluster(fabric=3), "fabric=3 must be a Fabric"),
    (cluster(multicasts="perhaps"), "multicasts='perhaps' must be true or false"),
    (cluster(name=""), "name='' must be 1 to 200 printable characters"),
    (cluster(name="a\nb"), "printable"),
    (cluster(scale_outbandwidth=1), "unknown cluster field 'scale_outbandwidth'; did you mean 'scale_out_bandwidth'?"),
    (cluster(nic_rates=[["400 Gb/s"]] * 7), "nic_rates lists 7 GPUs but gpus_per_server=8"),
    (cluster(nic_rates=[[]] * 8), "nic_rates lists no NIC at all"),
    (cluster(nic_rates="400 Gb/s"), "nic_rates must be a list of lists"),
    (cluster(nic_rates=[["0 Gb/s"]] * 8), "nic_rates[0][0]='0 Gb/s' must be between 1 and"),
    (cluster(nic_rates=[["1 Gb/s"]] * 8, nics_per_gpu=1), "nic_rates replaces"),
    (lambda: SMALL.with_(nic_rates_bytes_per_s=((1e9,), (1e9,))), "contradict nic_rates"),
    (lambda: SMALL.with_(warp=9), "unknown cluster field 'warp'"),
    (lambda: SMALL.with_(multicasts=1), "multicasts=1 must be true or false"),
    (cluster(faults=[il.dead_nic(4, 0)]), "server=4 must be below 4"),
    (cluster(faults=[il.dead_nic(0, 8)]), "gpu=8 must be below 8"),
    (cluster(faults=[il.slow_nic(0, 0, "1 Gb/s", nic=1)]), "nic=1 must be below 1"),
    (cluster(faults=[il.dead_nic(0, 0), il.slow_nic(0, 0, "1 Gb/s")]), "another fault of the same part"),
    (cluster(faults=["nic"]), "faults must be a list of slow_nic"),
    (cluster(faults=3), "faults must be a list"),
    (cluster(servers=1, gpus_per_server=1, faults=[il.missing_gpu(0, 0)]), "faults remove all 1 GPUs"),
    (lambda: il.slow_nic(0, 0, "0 Gb/s"), "bandwidth='0 Gb/s' must be between 1 and"),
    (lambda: il.dead_nic(-1, 0), "server=-1"),
    (lambda: il.missing_gpu(0, 1.0), "gpu=1.0 must be a whole number"),  # type: ignore[arg-type]
]

GRAPHS: list[Case] = [
    (lambda: T.torus(bandwidth=1e9), "must have between 1 and 8 entries"),
    (lambda: T.torus(*[2] * 9, bandwidth=1e9), "must have between 1 and 8 entries"),
    (lambda: T.torus(4, 0, bandwidth=1e9), "at least 1, not 0"),
    (lambda: T.torus(4, 2.0, bandwidth=1e9), "not 2.0"),  # type: ignore[arg-type]
    (lambda: T.torus(True, 4, bandwidth=1e9), "not True"),
    (lambda: T.mesh(1001, 1000, bandwidth=1e9), "above the limit of 1000000 ranks"),
    (lambda: T.mesh(1, 1, bandwidth=1e9), "has a single rank"),
    (lambda: T.ring(1, bandwidth=1e9), "has a single rank"),
    (lambda: T.switch(1, bandwidth=1e9), "has a single rank"),
    (lambda: T.torus(4, 4, bandwidth=(1e9, 1e9, 1e9)), "bandwidth has 3 entries for 2 dimensions"),
    (lambda: T.torus(4, 4, bandwidth=(1e9, "slow")), "bandwidth[1]='slow'"),
    (lambda: T.torus(4, 4, bandwidth=0), "bandwidth=0 must be between 1 and"),
    (lambda: T.torus(4, 4, bandwidth=1e9, latency="-1 us"), "latency='-1 us'"),
    (lambda: T.hypercube(0, bandwidth=1e9), "num_dims=0"),
    (lambda: T.hypercube(17, bandwidth=1e9), "num_dims=17 must be a whole number between 1 and 16"),
    (lambda: T.fully_connected(10_000, bandwidth=1e9), "99990000 links; at most 50000000 are supported"),
    (lambda: T.product(("moebius", 4), bandwidth=1e9), "unknown kind of dimension 'moebius'"),
    (lambda: T.dragonfly(1, 1, bandwidth=1e9), "single rank"),
    (lambda: T.dragonfly(0, 5, bandwidth=1e9), "at least 1"),
    (lambda: T.clos(2, 0, 2, bandwidth=1e9), "at least 1"),
    (lambda: T.rail(0, 8, bandwidth=1e9), "servers=0"),
    (edges([], []), "src is empty"),
    (edges([0], [1, 2]), "src has 1 entries and dst 2"),
    (edges([0.0], [1]), "src must be a flat list of whole numbers"),
    (edges([0], [-1]), "dst[0]=-1 must be between 0"),
    (edges([0], [1_000_000]), "dst[0]=1000000"),
    (edges([2], [2]), "node 2 has a link to itself"),
    (edges([0, 1], [1, 0], [1e9]), "bandwidth must be one quantity or 2 of them"),
    (edges([0, 1], [1, 0], [1e9, -1.0]), "bandwidth[1]=-1.0"),
    (edges([0, 1], [1, 0], [1e9, np.nan]), "bandwidth[1]=nan"),
    (edges([0, 1], [1, 0], ["1 GB/s", "1 GB/h"]), "bandwidth[1]='1 GB/h'"),
    (edges([0], [1], 1e9, latency=[-1.0]), "latency[0]=-1.0"),
    (edges([0], [1], 1e9, num_ranks=0), "num_ranks=0"),
    (edges([0], [1], 1e9, num_ranks=True), "num_ranks=True"),
    (edges([0], [5], 1e9, num_nodes=4), "num_nodes=4 but node 5 is named"),
    (edges([0, 1], [1, 2], 1e9, switches=[0]), "switch 0 is among the first"),
    (edges([0], [1], 1e9, channel=[1]), "channel holds 1..1"),
    (edges([0], [1], 1e9, symmetries=np.array([[0, 0]], np.int32)), "symmetries[0] is not a permutation"),
    (edges([0], [1], 1e9, symmetries=np.array([[0, 1, 2]], np.int32)), "symmetries must be int32 of shape"),
    (lambda: T.parse_topology(""), "the topology is empty"),
    (lambda: T.parse_topology("klein-bottle:4"), "unknown shape 'klein-bottle'"),
    (lambda: T.parse_topology("tors:4x4"), "did you mean 'torus'?"),
    (lambda: T.parse_topology("torus"), "torus takes one or more dimensions"),
    (lambda: T.parse_topology("torus:0x4"), "every dimension must be a whole number of at least 1"),
    (lambda: T.parse_topology("torus:4x-4"), "'4x-4' must be whole numbers joined by x"),
    (lambda: T.parse_topology("torus:4*4"), "'4' must be a dimension like ring:4"),
    (lambda: T.parse_topology("torus:٤x٤"), "must be whole numbers joined by x"),
    (lambda: T.parse_topology("torus:9999999999"), "must be whole numbers joined by x"),
    (lambda: T.parse_topology("ring:4x4"), "ring takes 1 dimensions"),
    (lambda: T.parse_topology("dgx1:2"), "dgx1 takes no dimensions"),
    (lambda: T.parse_topology("h200"), "h200 takes servers"),
    (lambda: T.parse_topology("h200:0"), "servers=0"),
    (lambda: T.parse_topology("torus:4x4", bandwidth="1 GB/s,2 GB/s,3 GB/s"), "3 entries for 2 dimensions"),
    (lambda: T.parse_topology("torus:4x4", bandwidth="fast"), "bandwidth='fast'"),
    (lambda: T.parse_topology("no/such.toml"), "no/such.toml does not exist"),
    (lambda: T.read_topology("graph.json"), "must end in .toml or .csv"),
]

DEMAND: list[Case] = [
    (lambda: D.matrix([[0, -5], [3, 0]]), "demand[0, 1]=-5 is negative"),
    (lambda: D.matrix([[0, 1.5], [3, 0]]), "float64; bytes must be whole numbers"),
    (lambda: D.matrix([[0, float("nan")], [3, 0]]), "float64"),
    (lambda: D.matrix([[True, False], [False, True]]), "bool; bytes must be whole numbers"),
    (lambda: D.matrix([["0", "1"], ["1", "0"]]), "bytes must be whole numbers"),
    (lambda: D.matrix([[0, 1, 2], [3, 0, 1]]), "shape (2, 3); it must be square"),
    (lambda: D.matrix([0, 1]), "shape (2,)"),
    (lambda: D.matrix([]), "square and not empty"),
    (lambda: D.matrix(np.zeros((0, 0), np.int64)), "square and not empty"),
    (lambda: D.matrix([[0, 2**62 + 1], [0, 0]]), "more than 2^62 bytes"),
    (lambda: D.matrix([[0, 2**62], [2**62, 0]]), "more than 2^62 bytes"),
    (lambda: D.matrix(np.array([[0, 2**64 - 1], [0, 0]], np.uint64)), "more than 2^62 bytes"),
    (lambda: D.matrix([[0, 2**70], [0, 0]]), "whole numbers"),
    (lambda: D.matrix(np.broadcast_to(np.int64(0), (8193, 8193))), "8193 ranks; at most 8192"),
    (lambda: il.Demand(np.zeros((2, 2))), "bytes_matrix must be square int64, not float64"),
    (lambda: il.Demand(np.zeros((2, 3), np.int64)), "bytes_matrix must be square int64"),
    (lambda: D.matrix([[0, 1], [2]]), "rows of unequal length"),
    (lambda: D.matrix(None), "shape ()"),  # type: ignore[arg-type]
    (lambda: D.zipf(SMALL, skew=-0.1), "skew=-0.1 must be between 0 and 2"),
    (lambda: D.zipf(SMALL, skew=2.1), "skew=2.1 must be between 0 and 2"),
    (lambda: D.zipf(SMALL, skew="steep"), "skew='steep'"),  # type: ignore[arg-type]
    (lambda: D.zipf(SMALL, skew=float("nan")), "skew=nan"),
    (lambda: D.hot_expert(SMALL, skew=11), "skew=11"),
    (lambda: D.lognormal(SMALL, sigma=-1), "sigma=-1"),
    (lambda: D.sparse(SMALL, density=1.1), "density=1.1"),
    (lambda: D.random(SMALL, seed=-1), "seed=-1"),
    (lambda: D.random(SMALL, seed=0.5), "seed=0.5"),  # type: ignore[arg-type]
    (lambda: D.random(SMALL, seed=2**64), "seed="),
    (lambda: D.uniform(SMALL, "12 parsecs"), "unknown unit 'parsecs'"),
    (lambda: D.uniform(SMALL, -1), "bytes_per_gpu=-1"),
    (lambda: D.uniform(SMALL, "4 EB"), "unknown unit 'EB'"),
    (lambda: D.uniform(SMALL, 2**61), "more than 2^62 bytes in all"),
    (lambda: D.random(il.cluster("h200", servers=2000)), "16000 ranks; demand is limited to 8192"),
    (lambda: D.parse("", SMALL), "the traffic is empty"),
    (lambda: D.parse("zpif:0.8", SMALL), "did you mean 'zipf'?"),
    (lambda: D.parse("zipf:", SMALL), "skew='' must be a number"),
    (lambda: D.parse("zipf:0.8:1", SMALL), "skew='0.8:1' must be a number"),
    (lambda: D.parse("uniform:1", SMALL), "uniform takes no number"),
    (lambda: D.parse("random:1", SMALL), "random takes no number"),
    (lambda: D.parse("no-such.txt", SMALL), "no-such.txt does not exist"),
    (lambda: D.moe(SMALL, tokens=0), "tokens=0"),
    (lambda: D.moe(SMALL, experts=0), "experts=0"),
    (lambda: D.moe(SMALL, experts=4, top_k=5), "top_k=5 is more than experts=4"),
    (lambda: D.moe(SMALL, hidden=0), "hidden=0"),
    (lambda: D.moe(SMALL, dtype="bf61"), "dtype='bf61' is unknown; did you mean 'bf16'?"),
    (lambda: D.moe(SMALL, popularity="pareto"), "popularity='pareto' must be zipf, power-law or softmax"),  # type: ignore[arg-type]
    (lambda: D.moe(SMALL, drift=1.5), "drift=1.5 must be between 0 and 1"),
    (lambda: D.moe(SMALL, step=-1), "step=-1"),
    (lambda: D.moe(SMALL, tokens=2**40, top_k=1, hidden=2**23, dtype="fp32"), "more than 2^62 bytes"),
    (lambda: D.moe_routing(SMALL, tokens=2**22), "tokens=4194304 must be a whole number between 1"),
    (lambda: demand_problem(SMALL, D.matrix([[0, 1], [1, 0]])), "the demand has 2 ranks but the cluster has 4"),
    (
        lambda: demand_problem(SMALL.with_(faults=(il.missing_gpu(0, 1),)), D.uniform(SMALL, 4)),
        "the demand names rank 1, whose GPU is missing",
    ),
]

ROUTING: list[Case] = [
    (routing(np.array([[0, 4]], np.int32), np.array([0], np.int32)), "experts[0, 1]=4 must be between 0 and 3"),
    (routing(np.array([[-1]], np.int32), np.array([0], np.int32)), "experts[0, 0]=-1"),
    (routing(np.array([[2, 2]], np.int32), np.array([0], np.int32)), "token 0 names an expert twice"),
    (routing(np.array([[0, 1]]), np.array([0], np.int32)), "experts must be int32"),
    (routing(np.array([0, 1], np.int32), np.array([0], np.int32)), "experts must be int32 of shape"),
    (routing(np.zeros((0, 2), np.int32), np.zeros(0, np.int32)), "experts must be int32 of shape"),
    (routing(np.array([[0]], np.int32), np.array([4], np.int32)), "ranks end at 3"),
    (routing(np.array([[0]], np.int32), np.array([0, 1], np.int32)), "rank_of_token must be int32 of shape (1,)"),
    (
        routing(np.array([[0]], np.int32), np.array([0], np.int32), np.array([[np.nan]], np.float32)),
        "gate_weights[0, 0]=nan",
    ),
    (routing(np.array([[0]], np.int32), np.array([0], np.int32), np.ones((1, 2), np.float32)), "gate_weights must be"),
    (lambda: Placement(2, Ragged.from_lists([[0], []])), "expert 1 has no rank"),
    (lambda: Placement(2, Ragged.from_lists([[0], [2]])), "experts are on ranks 0..2"),
    (lambda: contiguous_placement(0, 4), "num_experts=0"),
    (lambda: contiguous_placement(4, 0), "num_ranks=0"),
    (lambda: eplb_placement([1, 2, 3], 2), "3 experts on 2 ranks, 2 per server, do not divide evenly"),
    (lambda: eplb_placement([1, -2], 2), "expert_loads[1]=-2"),
    (lambda: eplb_placement([1.0, float("inf")], 2), "expert_loads[1]=inf"),
    (lambda: eplb_placement([[1, 2]], 2), "expert_loads must be a flat list"),
    (lambda: eplb_placement([1, 2], 2, extra_slots_per_rank=-1), "extra_slots_per_rank=-1"),
    (lambda: eplb_placement([1, 2], 2, ranks_per_server=3), "ranks_per_server=3"),
    (lambda: ONE_TOKEN.to_demand(0), "bytes_per_token=0"),
    (lambda: ONE_TOKEN.to_demand(8, "node"), "copies='node' must be expert, rank or server"),  # type: ignore[arg-type]
    (lambda: ONE_TOKEN.to_demand(8, "server"), "ranks_per_server=None must divide the 4 ranks"),
    (lambda: ONE_TOKEN.to_demand(8, "server", 3), "ranks_per_server=3 must divide the 4 ranks"),
    (lambda: dispatch_problem(il.cluster("h200"), ONE_TOKEN, 8), "the routing has 4 ranks but the cluster has 32"),
    (lambda: combine_problem(SMALL, ONE_TOKEN, 0.5), "bytes_per_token=0.5"),  # type: ignore[arg-type]
    (
        lambda: dispatch_problem(SMALL.with_(faults=(il.missing_gpu(0, 1),)), ONE_TOKEN, 8),
        "the routing uses rank 1, whose GPU is missing",
    ),
]

COLLECTIVES: list[Case] = [
    (lambda: collective("all-sing", 1), "unknown collective 'all-sing'"),
    (lambda: collective("", 1), "unknown collective ''"),
    (lambda: il.all_gather("-1 B"), "size='-1 B' must be between 0 and 2^62"),
    (lambda: il.all_gather(2**63), "between 0 and 2^62"),
    (lambda: il.all_gather("1.5 B"), "not a whole number of bytes"),
    (lambda: il.all_gather(8, group=[]), "group is empty"),
    (lambda: il.all_gather(8, group=[1, 1]), "group names rank 1 twice"),
    (lambda: il.all_gather(8, group=[-1]), "group[0]='-1' must be a rank"),
    (lambda: il.all_gather(8, group=[0.5]), "group[0]='0.5'"),  # type: ignore[list-item]
    (lambda: il.all_gather(8, group="0123"), "group='0123' must be a list of ranks"),  # type: ignore[arg-type]
    (lambda: il.broadcast(8, root=-1), "root='-1'"),
    (lambda: il.broadcast(8, group=[1, 2], root=0), "root=0 is not among the 2 ranks of the group"),
    (lambda: collective_problem(RING, il.all_gather(8, group=[9])), "group names rank 9 but the topology has 4"),
    (lambda: collective_problem(RING, il.broadcast(8, root=4)), "root=4 but the topology has 4 ranks"),
    (lambda: collective_problem(RING, il.all_gather(8), chunks=0), "chunks=0"),
    (lambda: collective_problem(RING, il.all_gather(8), chunks=2**21), "chunks=2097152"),
    (lambda: collective_problem(RING, il.all_gather(8), chunks=1.0), "chunks=1.0"),  # type: ignore[arg-type]
]

CALLS = [*CLUSTERS, *GRAPHS, *DEMAND, *ROUTING, *COLLECTIVES]


def assert_one_sentence(error: InvalidInput, says: str) -> None:
    assert says in str(error)
    assert "\n" not in str(error) and len(str(error)) < 700


@pytest.mark.parametrize(("call", "says"), CALLS, ids=[says[:50] for _, says in CALLS])
def test_bad_arguments_are_refused(call: Callable[[], object], says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        call()
    assert_one_sentence(caught.value, says)
