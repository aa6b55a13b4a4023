"""Proven bounds against exact fluid optima on small random problems."""

import sys

import numpy as np
import pytest

from interlock.collectives import CollectiveKind, collective
from interlock.cost import lower_bound
from interlock.cost.lp import fluid_optimum_s
from interlock.errors import MissingDependency
from interlock.problem import collective_problem, demand_problem
from interlock.topology import FABRICS, cluster, dead_nic, mesh, missing_gpu, slow_nic, torus
from interlock.traffic import matrix

pytest.importorskip("highspy")

FREE = {"scale_up_latency": 0, "scale_out_latency": 0, "message_overhead": 0, "stage_overhead": 0}


def random_faults(rng, servers, gpus):
    faults = []
    for server in range(servers):
        for gpu in range(gpus):
            luck = rng.random()
            if luck < 0.04 and gpu > 0:
                faults.append(missing_gpu(server, gpu))
            elif luck < 0.08 and gpu > 0:
                faults.append(dead_nic(server, gpu))
            elif luck < 0.14:
                faults.append(slow_nic(server, gpu, float(rng.uniform(5e9, 45e9))))
    return faults


def random_rows(rng, ranks):
    kind = rng.integers(5)
    rows = rng.integers(0, 10**9, (ranks, ranks))
    if kind == 0:
        rows = (rng.pareto(1.0, (ranks, ranks)) * 1e8).clip(0, 1e11).astype(np.int64)
    elif kind == 1:
        rows *= rng.random((ranks, ranks)) < 0.3
    elif kind == 2:
        rows[:] = 10**8
    elif kind == 3:
        rows[:, rng.integers(ranks)] *= 10
    np.fill_diagonal(rows, 0)
    rows[0, 1] += 1000
    return rows


def random_two_tier_problem(seed):
    rng = np.random.default_rng(seed)
    servers, gpus = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    servers = max(servers, 2 if gpus == 1 else 1)
    scale_out = str(rng.choice(["flat", "rail", "rail-spine"]))
    hosts = cluster(
        "h200",
        servers=servers,
        gpus_per_server=gpus,
        scale_up=str(rng.choice(["switch", "mesh"])),
        scale_up_bandwidth=float(rng.choice([450e9, 200e9, 100e9, 60e9])),
        scale_out=scale_out,
        oversubscription=1.0 if scale_out == "rail" else float(rng.choice([1, 1, 2, 4])),
        fabric=str(rng.choice(sorted(FABRICS))),
        faults=random_faults(rng, servers, gpus) if servers > 1 else [],
        **FREE,
    )
    rows = random_rows(rng, hosts.num_ranks)
    rows[~hosts.present] = 0
    rows[:, ~hosts.present] = 0
    return demand_problem(hosts, matrix(rows))


def test_two_tier_bounds_stay_below_the_optimum_and_mostly_meet_it():
    """500 clusters of up to 4x4 with faults, rails, oversubscription and any fabric: within 1 % on 98 in 100."""
    ratios = []
    for seed in range(500):
        problem = random_two_tier_problem(seed)
        bound = lower_bound(problem)
        ratios.append(bound.seconds / fluid_optimum_s(problem))
        assert ratios[-1] <= 1 + 1e-6, (seed, bound)
        assert bound.binds in bound.parts
    assert np.mean(np.array(ratios) > 0.99) >= 0.98


def test_prices_of_ports_come_near_the_optimum_where_servers_share_rails_unevenly():
    """Servers 0 and 1 have rail 0 alone, where server 3 is slow: bytes change rails in server 2. Cuts give 0.76."""
    faults = [slow_nic(3, 0, 17.4e9), dead_nic(1, 1), missing_gpu(0, 1)]
    hosts = cluster("h200", servers=4, gpus_per_server=2, scale_out="rail", faults=faults, **FREE)
    rows = np.zeros((8, 8), np.int64)
    owed = {0: (3, 5, 6, 7), 2: (3, 4, 5), 3: (0, 2, 7), 4: (5,), 5: (0, 4), 6: (3,), 7: (0, 5)}
    for rank, peers in owed.items():
        rows[rank, list(peers)] = 237_000_000
    problem = demand_problem(hosts, matrix(rows))
    assert 0.93 < lower_bound(problem).seconds / fluid_optimum_s(problem) <= 1 + 1e-6


def test_the_optimum_of_an_all_reduce_on_a_mesh_is_the_published_one():
    """1 GiB at 50 GiB/s: 2 (N - 1) S over all links, and two thirds of Reduce-Scatter plus All-Gather on 4x4."""
    problem = collective_problem(mesh(4, 4, bandwidth=50 * 2**30), collective("all-reduce", "1 GiB"))
    assert fluid_optimum_s(problem) == pytest.approx(2 * 15 / (48 * 50))


TORUS_SHARE = {"broadcast": 1 / 4, "reduce": 1 / 4, "all-reduce": 30 / 64, "all-to-all": 8 * 8 / 16 / 8}


@pytest.mark.parametrize("kind", list(CollectiveKind))
def test_the_optimum_on_a_torus_is_known(kind):
    problem = collective_problem(torus(4, 4, bandwidth=2**30), collective(kind, "1 GiB"))
    assert fluid_optimum_s(problem) == pytest.approx(TORUS_SHARE.get(kind, 15 / 16 / 4))


def test_the_missing_solver_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "highspy", None)
    problem = collective_problem(mesh(2, 2, bandwidth=1e9), collective("all-gather", "1 GiB"))
    with pytest.raises(MissingDependency, match=r"interlock\[lp\]"):
        fluid_optimum_s(problem)
