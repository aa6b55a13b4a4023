"""Bounds of All-to-Allv on two tiers, against cases worked by hand."""

import numpy as np
import pytest

from interlock.cost import lower_bound
from interlock.problem import demand_problem
from interlock.topology import Fabric, cluster, dead_nic, slow_nic
from interlock.traffic import matrix

FREE = {"scale_up_latency": 0, "scale_out_latency": 0, "message_overhead": 0, "stage_overhead": 0}
GB = 10**9


def bound(cluster_, rows):
    return lower_bound(demand_problem(cluster_, matrix(np.asarray(rows, np.int64))))


def pairs(num_ranks, bytes_by_pair):
    rows = np.zeros((num_ranks, num_ranks), np.int64)
    for (src, dst), size in bytes_by_pair.items():
        rows[src, dst] = size
    return rows


def test_a_server_sends_no_faster_than_all_its_nics_together():
    hosts = cluster("h200", servers=2, gpus_per_server=4, **FREE)
    found = bound(hosts, pairs(8, {(0, 4): 20 * GB, (1, 5): GB}))
    assert found.seconds == pytest.approx(21 / 200)
    assert found.binds == "NICs of server 0, sending"


def test_a_dead_and_a_slow_nic_narrow_their_server():
    faults = [dead_nic(server=1, gpu=0), slow_nic(server=1, gpu=1, bandwidth="25 GB/s")]
    hosts = cluster("h200", servers=2, gpus_per_server=4, faults=faults, **FREE)
    found = bound(hosts, pairs(8, {(0, 4): 5 * GB, (1, 5): 5 * GB}))
    assert found.seconds == pytest.approx(10 / 125)
    assert found.binds == "NICs of server 1, receiving"


def test_on_rails_a_dead_nic_idles_its_only_peer():
    faults = [dead_nic(server=1, gpu=0)]
    hosts = cluster("h200", servers=2, gpus_per_server=2, scale_out="rail", faults=faults, **FREE)
    found = bound(hosts, pairs(4, {(0, 2): 5 * GB}))
    assert found.seconds == pytest.approx(5 / 50)


def test_oversubscription_narrows_the_leaf_of_a_server():
    hosts = cluster("h200", servers=3, gpus_per_server=2, oversubscription=4, **FREE)
    found = bound(hosts, pairs(6, {(0, 2): GB, (1, 5): GB}))
    assert found.seconds == pytest.approx(2 / 25)
    assert found.binds == "leaf uplink of server 0, sending"


def test_a_gpu_sends_no_faster_than_its_own_ports():
    hosts = cluster("h200", servers=1, gpus_per_server=4, **FREE)
    found = bound(hosts, pairs(4, {(0, 1): 5 * GB, (0, 2): 5 * GB}))
    assert found.seconds == pytest.approx(10 / 500)
    assert found.binds == "ports of rank 0, sending"


def test_half_of_a_mesh_sends_to_the_other_half_over_its_own_links_only():
    hosts = cluster("mi300x", servers=1, gpus_per_server=4, scale_up_bandwidth="300 GB/s", **FREE)
    rows = pairs(4, {(a, b): 10 * GB for a in (0, 1) for b in (2, 3)})
    found = bound(hosts, rows)
    assert found.seconds == pytest.approx(40 / (4 * 100 + 2 * 50))
    assert found.binds == "scale-up of server 0 around GPUs 0, 1, sending"


def test_gpus_behind_their_switch_receive_through_its_ports():
    hosts = cluster("h200", servers=2, gpus_per_server=4, scale_up_bandwidth="10 GB/s", **FREE)
    rows = pairs(8, {(0, 3): 10 * GB, (1, 3): 10 * GB, (2, 3): 10 * GB, (0, 4): GB, (1, 4): GB, (2, 4): GB})
    found = bound(hosts, rows)
    assert found.seconds == pytest.approx(max(30 / 60, 33 / (150 + 10)))


def test_a_full_server_has_no_nics_to_spare_for_a_gpu_that_needs_them():
    """GPU 0 cannot pass on 25 GB through its port in time, and what it gives to its NIC others must send less."""
    hosts = cluster("h200", servers=2, gpus_per_server=4, scale_up_bandwidth="100 GB/s", **FREE)
    found = bound(hosts, pairs(8, {(1, 4): 14 * GB, (2, 5): 13 * GB, (3, 6): 13 * GB, (0, 1): 25 * GB}))
    assert found.seconds == pytest.approx((40 + 25) / (4 * 50 + 100))
    assert found.binds == "scale-up of server 0 around GPUs 0, sending"


def test_a_gpu_that_receives_much_cannot_help_others_to_send():
    """What GPUs 0 to 2 send by the NIC of GPU 3 shares its port with what arrives there and does not fit its NIC."""
    hosts = cluster("h200", servers=2, gpus_per_server=4, scale_up_bandwidth="100 GB/s", **FREE)
    found = bound(hosts, pairs(8, {(0, 4): 20 * GB, (1, 5): 20 * GB, (2, 6): 20 * GB, (7, 3): 35 * GB}))
    assert found.seconds == pytest.approx((60 + 35) / (3 * 50 + 100 + 50))


def test_opening_a_stage_overhead_and_latency_are_paid_once():
    slow = cluster("h200", servers=2, gpus_per_server=2, scale_out_latency="3 us", message_overhead="1 us")
    found = bound(slow.with_(stage_overhead_s=5e-6), pairs(4, {(0, 2): 50_000, (1, 3): 50_000}))
    assert found.seconds == pytest.approx(5e-6 + 4e-6 + 100_000 / 100e9)


def test_another_nic_helps_only_after_a_hop_inside():
    near = {"scale_up_latency": "1 us", "scale_out_latency": "3 us", "message_overhead": "1 us"}
    flat = cluster("h200", servers=2, gpus_per_server=2, scale_out="flat", **near).with_(stage_overhead_s=0.0)
    # Own bytes alone for 2 us, then both NICs.
    assert bound(flat, pairs(4, {(0, 2): 1_000_000})).seconds == pytest.approx(4e-6 + 2e-6 + 900_000 / 100e9)
    # What is gone before help comes needs none.
    assert bound(flat, pairs(4, {(0, 2): 80_000})).seconds == pytest.approx(4e-6 + 80_000 / 50e9)
    # Over rail 1 there is a hop at both ends.
    rail = flat.with_(scale_out="rail")
    assert bound(rail, pairs(4, {(0, 2): 1_000_000})).seconds == pytest.approx(4e-6 + 4e-6 + 800_000 / 100e9)


def test_a_byte_that_changes_rail_needs_a_hop_inside():
    rails = cluster("h200", servers=2, gpus_per_server=2, scale_out="rail", message_overhead="1 us", stage_overhead=0)
    found = bound(rails, pairs(4, {(0, 3): 1}))
    assert found.binds == "latency"
    assert found.seconds == pytest.approx((1e-6 + 3e-6) + (1e-6 + 1e-6))


def test_nothing_to_move_takes_no_time():
    found = bound(cluster("h200", servers=2), np.eye(16, dtype=np.int64))
    assert (found.seconds, found.binds) == (0.0, "nothing to move")


def test_a_fabric_takes_its_part_only_where_the_receiving_port_is_the_limit():
    """A slow sender at 5 GB/s does not fill 0.84 of a 50 GB/s port: 1 GB takes 0.2 s and not 0.2 / 0.84."""
    hosts = cluster(
        "h200",
        servers=2,
        gpus_per_server=1,
        scale_out="rail",
        fabric="roce-dcqcn",
        faults=[slow_nic(0, 0, "5 GB/s")],
        **FREE,
    )
    assert bound(hosts, pairs(2, {(0, 1): GB})).seconds == pytest.approx(1 / 5)
    assert bound(hosts, pairs(2, {(1, 0): GB})).seconds == pytest.approx(1 / 5 / hosts.fabric.efficiency)


@pytest.mark.parametrize("scale_out", ["flat", "rail", "rail-spine"])
def test_only_receiving_ports_lose_what_the_fabric_takes(scale_out):
    """Four fifths arrive: a server that sends to two others is as fast as its NICs, one that receives from two is not.

    On rails each NIC also sends no faster than its two peers on the rail receive, which together have more than it.
    """
    lossy = Fabric("test", efficiency=0.8)
    hosts = cluster("h200", servers=3, gpus_per_server=2, scale_out=scale_out, fabric=lossy, **FREE)
    out = {(src, dst): GB for src in (0, 1) for dst in (2, 3, 4, 5) if scale_out != "rail" or src % 2 == dst % 2}
    total = sum(out.values()) / GB
    assert bound(hosts, pairs(6, out)).seconds == pytest.approx(total / 100)
    into = {(dst, src): size for (src, dst), size in out.items()}
    assert bound(hosts, pairs(6, into)).seconds == pytest.approx(total / 80)


def test_a_pair_of_nics_is_no_faster_than_the_uplink_it_is_hashed_to():
    free = {"scale_out_latency": 0, "message_overhead": 0, "stage_overhead": 0, "scale_up_latency": 0}
    slow = cluster("h200", servers=3, gpus_per_server=1, scale_out="flat", faults=[slow_nic(1, 0, "10 GB/s")], **free)
    hashed = slow.with_(fabric=Fabric("hashed", ecmp_radix=2))
    # To rank 1 on its own leaf 10 GB/s, to rank 2 an uplink of (50 + 10 + 50) / 3.
    rate = 10e9 + 110e9 / 3
    assert bound(hashed, pairs(3, {(0, 2): 100_000_000})).seconds == pytest.approx(100e6 / rate, rel=1e-6)


def test_neighbours_may_send_through_a_leaf_that_hashes():
    """One server, whose GPUs have NICs of 50 GB/s beside a port of 450 GB/s: both count."""
    free = {"scale_out_latency": 0, "message_overhead": 0, "stage_overhead": 0, "scale_up_latency": 0}
    alone = cluster("h200", servers=1, gpus_per_server=2, scale_out="flat", **free).with_(
        fabric=Fabric("hashed", ecmp_radix=2)
    )
    assert bound(alone, pairs(2, {(0, 1): 500_000_000})).seconds == pytest.approx(1e-3)
