"""What fabrics do to a burst: nothing, a curve beyond fan-in, hashed uplinks."""

from __future__ import annotations

import math

import numpy as np
import pytest

import interlock as il
from interlock.errors import InvalidInput
from interlock.simulate import simulate
from interlock.topology import FABRICS, Fabric
from interlock.topology.fabric import DEFAULT_LOSS_PER_SENDER
from simulate.strategies import bare_schedule, crossbar

FREE = {"scale_out_latency": "0 us", "scale_up_latency": "0 us", "message_overhead": "0 us", "stage_overhead": "0 us"}


def incast(num_senders: int, fabric: Fabric, size_bytes: int = 1_000_000) -> float:
    """Seconds for `num_senders` equal messages to one receiver, over what the receiver needs at best."""
    cluster = il.cluster("h200", servers=num_senders + 1, gpus_per_server=1, fabric=fabric, **FREE)
    schedule = bare_schedule(list(range(1, num_senders + 1)), [0] * num_senders, [size_bytes] * num_senders)
    return simulate(schedule, cluster).makespan_s / (num_senders * size_bytes / 50e9)


@pytest.mark.parametrize("name", ["none", "infiniband", "trimming", "roce-pfc"])
def test_lossless_fabrics_lose_nothing_to_incast(name: str) -> None:
    assert incast(12, FABRICS[name]) == pytest.approx(1.0)


def test_goodput_follows_the_documented_curve_beyond_fan_in() -> None:
    fabric = Fabric(
        "test", fan_in=2, loss_per_sender=0.1, sender_exponent=2, reference_bytes=1e6, size_exponent=0.5, efficiency=0.8
    )
    assert incast(2, fabric) == pytest.approx(1 / 0.8)
    assert incast(5, fabric) == pytest.approx((1 + 0.1 * 3**2) / 0.8)
    assert incast(5, fabric, size_bytes=4_000_000) == pytest.approx((1 + 0.1 * 3**2 * 2) / 0.8)
    assert incast(5, Fabric("test", fan_in=2, loss_per_sender=50.0, max_loss=3.0)) == pytest.approx(4.0)


def test_messages_of_one_sender_count_once() -> None:
    fabric = Fabric("test", fan_in=1, loss_per_sender=1.0)
    topology = crossbar(3, [10.0, 100.0, 100.0, 10.0, 10.0, 10.0], fabric=fabric)
    slices = bare_schedule([1, 1, 1], [0, 0, 0], [10, 10, 10])
    result = simulate(slices, topology)
    assert result.peak_fan_in[3] == 1
    assert result.makespan_s == pytest.approx(3.0)
    two = simulate(bare_schedule([1, 1, 2], [0, 0, 0], [10, 10, 10]), topology)
    assert two.peak_fan_in[3] == 2
    assert two.makespan_s > 3.0


def test_a_limit_given_by_a_user_brings_the_default_loss_and_none_lifts_it() -> None:
    limited = il.cluster("h200", servers=2, fan_in=1)
    assert limited.fabric.fan_in == 1
    assert limited.fabric.loss_per_sender == DEFAULT_LOSS_PER_SENDER
    assert il.cluster("h200", servers=2, fabric="lossy", fan_in=4).fabric.loss_per_sender == 2.0
    assert il.cluster("mi300x-100g", servers=2, fan_in=None).fabric.fan_in is None
    assert incast(3, limited.fabric) == pytest.approx(1 + 2 * DEFAULT_LOSS_PER_SENDER)


def test_stages_beat_a_burst_on_a_lossy_fabric_only() -> None:
    for name, stages_win in (("infiniband", False), ("lossy", True)):
        cluster = il.cluster("h200", servers=16, gpus_per_server=1, fabric=name)
        traffic = il.traffic.random(cluster, bytes_per_gpu="16 MB", seed=0)
        burst = il.plan(cluster, traffic, algorithm="direct").simulate().makespan_s
        staged = il.plan(cluster, traffic, algorithm="spreadout").simulate().makespan_s
        assert (staged < burst) is stages_win


def test_hashed_pairs_share_uplinks_and_rails_do_not_use_them() -> None:
    """Eight pairs of NICs under two leaves of eight: equal loads collide on uplinks, so some take longer."""
    fabric = Fabric("tree", ecmp_radix=8)
    flat = il.cluster("h200", servers=2, gpus_per_server=8, fabric=fabric, **FREE)
    across = bare_schedule(list(range(8)), list(range(8, 16)), [1_000_000] * 8)
    alone_s = 1_000_000 / 50e9
    hashed = simulate(across, flat)
    assert hashed.makespan_s > 1.9 * alone_s
    assert simulate(across, flat.with_(fabric=Fabric())).makespan_s == pytest.approx(alone_s)
    assert simulate(across, flat.with_(scale_out="rail")).makespan_s == pytest.approx(alone_s)
    # As many share the fullest uplink as it takes times longer; the same pair always takes the same one.
    assert hashed.makespan_s / alone_s == pytest.approx(round(hashed.makespan_s / alone_s))
    assert np.array_equal(simulate(across, flat).finish_s, hashed.finish_s)


def fullest_uplink(flows: int, uplinks: int, seed: int) -> float:
    """How many times longer equal flows from one leaf to another take than one alone: those on the fullest uplink."""
    fabric = Fabric("tree", ecmp_radix=8, ecmp_uplinks=uplinks, ecmp_flows=max(1, flows // 8), ecmp_seed=seed)
    flat = il.cluster("h200", servers=2, gpus_per_server=8, fabric=fabric, **FREE)
    src = [flow % 8 for flow in range(flows)]
    each = 8_000_000 // (flows // 8)
    across = bare_schedule(src, [rank + 8 for rank in src], [each] * flows)
    return float(simulate(across, flat).makespan_s / (each / 50e9))


@pytest.mark.parametrize(("flows", "uplinks"), [(8, 8), (8, 4)])
def test_collisions_on_a_clos_are_binomial(flows: int, uplinks: int) -> None:
    """By hand: n flows hashed to u uplinks; the fullest has at most m with the probability that all counts are <= m.

    The counts are multinomial; P(max <= m) = n! / u^n [x^n] (sum_{k<=m} x^k / k!)^u, whose margins are B(n, 1/u).
    """
    seeds = 300
    found = np.array([fullest_uplink(flows, uplinks, seed) for seed in range(seeds)])
    assert found == pytest.approx(np.round(found), abs=1e-6)  # equal flows: as many as share the fullest
    for most in range(1, flows + 1):
        series = np.polynomial.Polynomial([1 / math.factorial(k) for k in range(most + 1)]) ** uplinks
        chance = float(math.factorial(flows) / uplinks**flows * series.coef[flows]) if most * uplinks >= flows else 0.0
        assert np.mean(found < most + 0.5) == pytest.approx(chance, abs=4 * math.sqrt(0.25 / seeds))


def test_entropy_evens_out_a_clos() -> None:
    """Sixteen flows per pair instead of one, the same bytes: the fullest uplink is nearer to the mean."""
    single = np.mean([fullest_uplink(8, 8, seed) for seed in range(40)])
    many = np.mean([fullest_uplink(128, 8, seed) / 16 for seed in range(40)])
    assert single > 2.2 > 1.6 > many


def test_a_clos_of_rails_has_a_leaf_per_rail() -> None:
    """Along rails nothing crosses a spine; across rails everything does."""
    fabric = Fabric("tree", ecmp_radix=8, ecmp_uplinks=1)
    rails = il.cluster("h200", servers=8, scale_out="rail-spine", fabric=fabric, **FREE)
    rank = list(range(8))
    along = bare_schedule(rank, [8 + r for r in rank], [1_000_000] * 8)
    across = bare_schedule(rank, [8 + (r + 1) % 8 for r in rank], [1_000_000] * 8)
    alone_s = 1_000_000 / 50e9
    assert simulate(along, rails).makespan_s == pytest.approx(alone_s)
    assert simulate(across, rails).makespan_s == pytest.approx(alone_s)  # one flow per uplink: different leaves
    two = bare_schedule([0, 8], [17, 25], [1_000_000] * 2)  # both from rail 0's only uplink
    assert simulate(two, rails).makespan_s == pytest.approx(2 * alone_s)


def test_ecmp_goes_over_the_clos_and_more_flows_collide_less() -> None:
    cluster = il.cluster("h200", servers=4, scale_out="flat", fabric=Fabric("tree", ecmp_radix=8, ecmp_flows=16))
    demand = il.traffic.uniform(cluster, "64 MB")
    times = {}
    for flows in (1, 16):
        plan = il.plan(cluster, demand, algorithm="ecmp", flows=flows)
        assert plan.certificate().valid
        times[flows] = plan.simulate().makespan_s
    assert times[16] < times[1]
    with pytest.raises(InvalidInput, match="flows=0"):
        il.plan(cluster, demand, algorithm="ecmp", flows=0)


def test_exclusive_messages_do_not_wait_for_each_other_on_hashed_uplinks() -> None:
    fabric = Fabric("tree", ecmp_radix=8)
    flat = il.cluster("h200", servers=2, gpus_per_server=8, fabric=fabric, **FREE)
    across = bare_schedule(list(range(8)), list(range(8, 16)), [1_000_000] * 8, order=[0] * 8)
    assert (simulate(across, flat).start_s == 0.0).all()


def test_a_connection_keeps_its_order_over_hashed_uplinks() -> None:
    flat = il.cluster("h200", servers=2, gpus_per_server=8, fabric=Fabric("tree", ecmp_radix=8), **FREE)
    one = bare_schedule([0, 0, 1], [8, 8, 9], [50_000_000] * 3, order=[2, 1, 1], shares_links=True)
    assert simulate(one, flat).start_s.tolist() == [pytest.approx(1e-3), 0.0, 0.0]


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"fan_in": 0}, "fan_in=0"),
        ({"loss_per_sender": -1.0}, "loss_per_sender=-1.0"),
        ({"efficiency": 0.0}, "efficiency=0.0"),
        ({"reference_bytes": 0.0}, "reference_bytes=0.0"),
        ({"ecmp_radix": 1}, "ecmp_radix=1"),
        ({"ecmp_uplinks": 0}, "ecmp_uplinks=0"),
        ({"ecmp_flows": 0}, "ecmp_flows=0"),
        ({"ecmp_seed": -1}, "ecmp_seed=-1"),
    ],
)
def test_impossible_fabrics_are_refused(fields: dict[str, float], rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        Fabric("bad", **fields)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="unknown fabric 'losssy'; did you mean 'lossy'"):
        il.cluster("h200", fabric="losssy")


@pytest.mark.parametrize("name", sorted(FABRICS))
def test_the_bound_knows_the_fabrics_efficiency(name: str) -> None:
    cluster, free = (il.cluster("mi300x-100g", servers=2, fabric=fabric, **FREE) for fabric in (name, "none"))
    traffic = il.traffic.uniform(cluster, "64 MB")
    assert il.plan(cluster, traffic, algorithm="adaptive").certificate().gap > -1e-9
    bound_s, free_s = (il.plan(where, traffic, algorithm="direct").bound.seconds for where in (cluster, free))
    assert bound_s == pytest.approx(free_s / FABRICS[name].efficiency, rel=0.01)
