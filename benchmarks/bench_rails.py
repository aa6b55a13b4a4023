"""What is local knowledge worth on rails, and what does global knowledge add?

Simulated makespan over the server-level bound, hops at both ends included, R = 8 rails, 500 MB per GPU. Loads: uniform,
Zipf, sparse, Mixtral routing, and the shared routing data where it is there (with more GPUs than its 64 experts, every
expert has as many replicas). ECMP hashes flows to the uplinks of a Clos where there is a spine; `rails-split` in one
slice shows what slices are worth. Then the fabrics of 8 servers; one rail at half speed, dead, and both, with plain 1/R
splitting beside; and the planning time of one server.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import interlock as il
from common import arguments, report, timed
from interlock.algorithms import registry
from interlock.algorithms.rails_split import server_bytes, server_shares
from interlock.cost import lower_bound
from interlock.moe.iteration import expert_demand
from interlock.moe.models import model
from interlock.planning import solve
from interlock.problem import demand_problem
from interlock.ragged import Ragged
from interlock.topology import Fabric
from interlock.traffic import Placement, Routing, read_routing

TRACE = Path(__file__).parent.parent.parent / "shared" / "data" / "moe" / "esft_top6_routing.npz"
CHUNKED = "rails, 256 kB"
OPTIONS: dict[str, dict[str, object]] = {CHUNKED: {"chunk": "256 kB"}, "rails-split, 1 slice": {"slices": 1}}
MOST_CHUNKED_RANKS = 64  # above, chunks are more than a million
ALGORITHMS = ("rails-split", "adaptive", *OPTIONS, "rails", "spray", "ecmp", "pxn", "forward", "direct")
BYTES_PER_TOKEN = 2048 * 2
EXPERTS = 64


def loads(cluster: il.Cluster, seed: int) -> dict[str, il.Demand]:
    """Named demands."""
    made = {"uniform": il.traffic.uniform(cluster, "500 MB")}
    for skew in (0.6, 0.8, 1.0):
        made[f"zipf {skew}"] = il.traffic.zipf(cluster, skew=skew, bytes_per_gpu="500 MB", seed=seed)
    made["sparse 5 %"] = il.traffic.sparse(cluster, density=0.05, bytes_per_gpu="500 MB", seed=seed)
    made["mixtral"] = expert_demand(model("mixtral-8x7b"), cluster, 4096, 0.8, seed)[0]
    for task in ("intent", "summary") if TRACE.exists() else ():
        made[task] = traced(task, cluster.num_ranks).to_demand(64 * BYTES_PER_TOKEN)
    return made


def traced(task: str, num_ranks: int, layer: int = 10) -> Routing:
    """A layer of a task of the shared routing data, over any number of ranks."""
    replicas = [range(expert, num_ranks, EXPERTS) for expert in range(EXPERTS)]
    placement = Placement(num_ranks, Ragged.from_lists(replicas)) if num_ranks > EXPERTS else None
    return read_routing(TRACE, num_ranks, task, layer, EXPERTS, placement)


def hashed(cluster: il.Cluster) -> il.Cluster:
    """The cluster with a Clos where its spine would be one aggregate: a leaf per rail or, on flat ones, per server."""
    if cluster.scale_out == "rail":
        return cluster
    leaf = cluster.servers if cluster.scale_out == "rail-spine" else cluster.gpus_per_server
    uplinks = max(1, round(leaf / cluster.oversubscription))
    return cluster.with_(fabric=Fabric("Clos", ecmp_radix=leaf, ecmp_uplinks=uplinks))


def over_bound(cluster: il.Cluster, demand: il.Demand) -> dict[str, float]:
    """Simulated makespan over the bound, by algorithm; without those that cannot run there."""
    problem = demand_problem(cluster, demand)
    over_hashes = demand_problem(hashed(cluster), demand)
    bound_s = lower_bound(problem).seconds
    ratios = {}
    for algorithm in ALGORITHMS:
        if algorithm == CHUNKED and cluster.num_ranks > MOST_CHUNKED_RANKS:
            continue
        name = algorithm.split(",")[0]
        if registry.get(name).supports(problem) is None:
            where = over_hashes if name == "ecmp" else problem
            plan = solve(where, name, **OPTIONS.get(algorithm, {}))
            ratios[algorithm] = plan.simulate(1e-3).makespan_s / bound_s
    return ratios


def main() -> None:
    """Four tables."""
    options = arguments(__doc__ or "", servers="4,8,16,64")
    rows: list[dict[str, object]] = []
    for servers in map(int, options.servers.split(",")):
        cluster = il.cluster("h200", servers=servers, scale_out="rail-spine")
        for name, demand in loads(cluster, options.seed).items():
            rows.append({"servers": servers, "load": name, **over_bound(cluster, demand)})
    fabrics: list[dict[str, object]] = []
    for scale_out, oversubscription in (("rail", 1), ("rail-spine", 1), ("rail-spine", 2), ("flat", 1), ("flat", 2)):
        cluster = il.cluster("h200", servers=8, scale_out=scale_out, oversubscription=oversubscription)
        for name, demand in loads(cluster, options.seed).items():
            found = over_bound(cluster, demand)
            fabrics.append({"fabric": scale_out, "oversubscription": oversubscription, "load": name, **found})
    faults = {
        "half": [il.slow_nic(1, 3, "200 Gb/s")],
        "dead": [il.dead_nic(0, 5)],
        "both": [il.slow_nic(1, 3, "200 Gb/s"), il.dead_nic(0, 5)],
    }
    degraded: list[dict[str, object]] = []
    for name, broken in faults.items():
        cluster = il.cluster("h200", servers=8, scale_out="rail", faults=broken)
        demand = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="500 MB", seed=options.seed)
        plan = il.plan(cluster, demand, algorithm="rails-split")
        ours = plan.simulate(1e-3).makespan_s / plan.bound.seconds
        equal = plain(cluster, demand) / plan.bound.seconds
        degraded.append(
            {"fault": name, "rails-split": ours, "plain 1/R": equal if np.isfinite(equal) else "never ends"}
        )
    cluster = il.cluster("h200", servers=64)
    owed = server_bytes(il.traffic.zipf(cluster, seed=options.seed).bytes_matrix, cluster)[0]
    alone = timed(lambda: server_shares(owed, cluster, 0), 200)
    others: dict[str, object] = {
        "over_chunks": over(rows, CHUNKED),
        "over_one_slice": over(rows, "rails-split, 1 slice"),
    }
    others["one_server_of_64_us"] = alone["median_s"] * 1e6
    report("rails", rows, options, fabrics=fabrics, degraded=degraded, **others)


def over(rows: list[dict[str, object]], other: str) -> dict[str, float]:
    """How many times faster `rails-split` is: geometric mean, least and most of the rows that have both."""
    ratios = np.array([row[other] / row["rails-split"] for row in rows if other in row])  # type: ignore[operator]
    if len(ratios) == 0:  # too many ranks for the other, whatever was asked for
        return {}
    return {"mean": float(np.exp(np.log(ratios).mean())), "least": float(ratios.min()), "most": float(ratios.max())}


def plain(cluster: il.Cluster, demand: il.Demand) -> float:
    """Seconds that equal splitting takes at the worst NIC; infinite where a dead one is used."""
    owed = server_bytes(demand.bytes_matrix, cluster).astype(np.float64)
    np.fill_diagonal(owed, 0.0)
    rates = cluster.nic_bandwidth_bytes_per_s.reshape(cluster.servers, -1)
    with np.errstate(divide="ignore"):
        sent = owed.sum(axis=1, keepdims=True) / cluster.gpus_per_server / rates
        received = owed.sum(axis=0)[:, None] / cluster.gpus_per_server / rates
    return float(max(sent.max(), received.max()))


if __name__ == "__main__":
    main()
