"""Problems for Hypothesis: small clusters with faults and odd fabrics, small graphs, every collective."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import interlock as il
from interlock.algorithms import registry
from interlock.collectives import CollectiveKind, collective
from interlock.problem import Problem, collective_problem, demand_problem


def planners(*problems: Problem) -> list[str]:
    """Algorithms that plan one of these problems at least; tests of the others would prove nothing."""
    return [name for name in registry.names() if any(registry.get(name).supports(each) is None for each in problems)]


def planners_of_demand() -> list[str]:
    """Algorithms for All-to-Allv."""
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    return planners(demand_problem(cluster, il.traffic.uniform(cluster)))


def planners_of_collectives() -> list[str]:
    """Algorithms for some collective on a graph."""
    graphs = (il.topology.switch(4, bandwidth=1e9), il.topology.ring(4, bandwidth=1e9))
    return planners(*(collective_problem(graph, collective(kind, 64)) for graph in graphs for kind in CollectiveKind))


SIZES = st.sampled_from([0, 0, 1, 2, 3, 7, 64, 1000, 65_536, 1_000_003, 2**33 + 1])


@st.composite
def clusters(draw: st.DrawFn, *, max_servers: int = 4, max_gpus: int = 4, faulty: bool = True) -> il.Cluster:
    """Two-tier clusters, a third of them with something broken."""
    servers = draw(st.integers(1, max_servers))
    gpus = draw(st.integers(1, max_gpus))
    faults: list[il.topology.Fault] = []
    if faulty and draw(st.integers(0, 2)) == 0:
        where = {"server": draw(st.integers(0, servers - 1)), "gpu": draw(st.integers(0, gpus - 1))}
        kind = draw(st.sampled_from(["slow", "dead", "missing"]))
        if kind == "slow":
            faults.append(il.slow_nic(**where, bandwidth="200 Gb/s"))
        elif kind == "dead":
            faults.append(il.dead_nic(**where))
        elif servers * gpus > 1:
            faults.append(il.missing_gpu(**where))
    return il.cluster(
        "h200",
        servers=servers,
        gpus_per_server=gpus,
        scale_up=draw(st.sampled_from(["switch", "mesh"])),
        scale_out=draw(st.sampled_from(["flat", "rail", "rail-spine"])),
        scale_out_bandwidth=draw(st.sampled_from(["100 Gb/s", "400 Gb/s", "3600 Gb/s"])),
        nics_per_gpu=draw(st.sampled_from([1, 1, 2])),
        oversubscription=draw(st.sampled_from([1.0, 1.0, 2.0])),
        message_overhead=draw(st.sampled_from(["0 us", "1 us"])),
        stage_overhead=draw(st.sampled_from(["0 us", "10 us"])),
        fan_in=draw(st.sampled_from([None, 1, 2])),
        faults=faults,
    )


@st.composite
def demands(draw: st.DrawFn, cluster: il.Cluster) -> il.Demand:
    """Matrices with empty rows, single entries, tiny and huge sizes."""
    count = cluster.num_ranks
    shape = draw(st.sampled_from(["any", "any", "one", "row", "column", "equal", "empty"]))
    matrix = np.zeros((count, count), np.int64)
    if shape == "one":
        matrix[draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))] = draw(SIZES)
    elif shape == "row":
        matrix[draw(st.integers(0, count - 1))] = draw(st.lists(SIZES, min_size=count, max_size=count))
    elif shape == "column":
        matrix[:, draw(st.integers(0, count - 1))] = draw(st.lists(SIZES, min_size=count, max_size=count))
    elif shape == "equal":
        matrix[:] = draw(SIZES)
    elif shape == "any":
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        matrix[:] = rng.choice([0, 0, 1, 3, 64, 1000, 65_536, 1_000_003, 2**33 + 1], size=(count, count))
    matrix *= cluster.present[:, None] & cluster.present[None, :]
    return il.traffic.matrix(matrix)


@st.composite
def demand_problems(draw: st.DrawFn, *, max_servers: int = 4, max_gpus: int = 4) -> Problem:
    """An All-to-Allv on a two-tier cluster."""
    cluster = draw(clusters(max_servers=max_servers, max_gpus=max_gpus))
    return demand_problem(cluster, draw(demands(cluster)))


@st.composite
def graphs(draw: st.DrawFn, *, max_ranks: int = 8) -> il.Topology:
    """Strongly connected graphs: a cycle through all ranks in random order, and some chords, of mixed speeds."""
    count = draw(st.integers(2, max_ranks))
    order = draw(st.permutations(range(count)))
    edges = {(order[i], order[(i + 1) % count]) for i in range(count)}
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    edges |= {pair for pair in draw(st.lists(pairs, max_size=2 * count)) if pair[0] != pair[1]}
    links = sorted(edges)
    speeds = draw(st.lists(st.sampled_from([1e9, 2e9, 3e9, 8e9]), min_size=len(links), max_size=len(links)))
    return il.topology.from_edges(
        [src for src, _ in links],
        [dst for _, dst in links],
        bandwidth=speeds,
        latency=draw(st.sampled_from([0.0, 1e-6])),
        message_overhead=draw(st.sampled_from([0.0, 5e-7])),
    )


@st.composite
def collective_problems(draw: st.DrawFn, *, max_ranks: int = 8) -> Problem:
    """Any collective, over all ranks or a group, on a random graph or a regular shape."""
    shapes = [
        graphs(max_ranks=max_ranks),
        st.builds(lambda n: il.topology.ring(n, bandwidth=1e9), st.integers(2, max_ranks)),
        st.builds(lambda n: il.topology.fully_connected(n, bandwidth=1e9, latency=1e-6), st.integers(2, max_ranks)),
        st.builds(lambda a, b: il.topology.mesh(a, b, bandwidth=1e9), st.integers(1, 2), st.integers(2, 4)),
        st.builds(lambda a, b: il.topology.torus(a, b, bandwidth=1e9), st.integers(2, 2), st.integers(2, 4)),
    ]
    topology = draw(st.one_of(shapes))
    group = None
    if draw(st.integers(0, 3)) == 0:
        members = st.lists(st.integers(0, topology.num_ranks - 1), min_size=1, unique=True)
        group = draw(members)
    root = 0 if group is None else group[0]
    kind = draw(st.sampled_from(list(CollectiveKind)))
    size = draw(st.sampled_from([0, 1, 5, 1000, 1_000_003]))
    chunks = draw(st.integers(1, 3))
    return collective_problem(topology, collective(kind, size, group, root), chunks)


def problems(*, max_servers: int = 4, max_gpus: int = 4, max_ranks: int = 8) -> st.SearchStrategy[Problem]:
    """Either kind of problem."""
    return st.one_of(
        demand_problems(max_servers=max_servers, max_gpus=max_gpus), collective_problems(max_ranks=max_ranks)
    )
