"""Lower bounds of an All-to-Allv on a two-tier cluster, by cuts (proofs in docs/reference/bounds.md).

Bytes that must leave a set of nodes cannot leave faster than the links out of it, however they are split, relayed or
ordered. The sets tried are those that matter on two tiers: a rank, a server, part of a server with or without its
switch, a rail. Where servers share rails unevenly, or leaves hash
flows to uplinks, ports have prices instead. Every message also waits for its sender
to open a stage and pays its overhead before its bytes move, and its latency after they have left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.cost.bound import Bound, tightest
from interlock.topology import Cluster
from interlock.topology.lowering import DEAD_BANDWIDTH, TwoTierRoutes
from interlock.topology.uplinks import uplinks_of_flows
from interlock.traffic import Demand

__all__ = ["two_tier_bound"]

MAX_ENUMERATED_GPUS = 10  # all subsets of a server up to this size, prefixes of one order above
WIDENINGS = 4  # rounds of choosing the ports that a cut takes in
PRICE_ROUNDS = 100  # some 10 ms at 8 servers
MOST_PRICED_SERVERS = 32  # above, ways by way of third servers take too long to compare
MOST_PRICED_FLOWS = 4_096  # between NICs: 64 NICs with a flow for each pair, some 50 ms

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Loads:
    """Bytes that must move, one direction: `out` of ranks and servers, or `in` with the matrix transposed."""

    leaves_rank: Floats  # [servers, gpus]
    leaves_server: Floats  # [servers, gpus], the part of `leaves_rank` that goes to other servers
    arrives_far: Floats  # [servers, gpus], what comes the other way from other servers
    by_rail: Floats  # [servers, gpus], what leaves each server for GPU k of others (or comes from there)
    inside: Floats  # [servers, gpus, gpus], from GPU to GPU of the same server, diagonal 0
    leaves_rail: Floats  # [gpus], from GPU k of any server to other GPU indices
    verb: str


def two_tier_bound(cluster: Cluster, demand: Demand) -> Bound:
    """The best cut or latency bound.

    Examples
    --------
    >>> from interlock.topology import cluster
    >>> from interlock.traffic import matrix
    >>> free = {"scale_out_latency": 0, "message_overhead": 0, "stage_overhead": 0}
    >>> pair = cluster("h200", servers=2, gpus_per_server=1, **free)
    >>> bound = two_tier_bound(pair, matrix([[0, 50_000_000], [0, 0]]))
    >>> bound.seconds, bound.binds
    (0.001, 'NICs of server 0, sending')
    """
    sends, receives = _loads(cluster, demand)
    parts = [_latency(cluster, demand, sends), *_cuts(cluster, sends), *_cuts(cluster, receives)]
    best = max(seconds for seconds, _ in parts)
    for loads in (sends, receives):
        parts.extend(_inside_cuts(cluster, loads, best))
    parts.extend(_priced_rails(cluster, demand))
    parts.extend(_priced_uplinks(cluster, demand))
    return tightest(parts)


def _loads(cluster: Cluster, demand: Demand) -> tuple[_Loads, _Loads]:
    servers, gpus = cluster.servers, cluster.gpus_per_server
    tiles = demand.bytes_matrix.reshape(servers, gpus, servers, gpus)
    own = np.arange(servers)
    inside = tiles[own, :, own, :].astype(np.float64)
    by_gpu = tiles.sum(axis=0, dtype=np.float64)  # [gpus, servers, gpus]
    sent = demand.bytes_matrix.sum(axis=1, dtype=np.float64).reshape(servers, gpus) - inside.sum(axis=2)
    received = by_gpu.sum(axis=0) - inside.sum(axis=1)
    to_rail = tiles.sum(axis=(1, 2), dtype=np.float64) - inside.sum(axis=1)
    from_rail = by_gpu.sum(axis=2).T - inside.sum(axis=2)
    inside[:, np.arange(gpus), np.arange(gpus)] = 0.0
    by_rail = by_gpu.sum(axis=1)
    np.fill_diagonal(by_rail, 0.0)
    return (
        _Loads(sent + inside.sum(axis=2), sent, received, to_rail, inside, by_rail.sum(axis=1), "sending"),
        _Loads(
            received + inside.sum(axis=1),
            received,
            sent,
            from_rail,
            inside.transpose(0, 2, 1),
            by_rail.sum(axis=0),
            "receiving",
        ),
    )


def _cuts(cluster: Cluster, loads: _Loads) -> Iterator[tuple[float, str]]:
    """One server, one rank, one rail."""
    nic = _usable_nics(cluster, loads.verb)
    uplink = np.broadcast_to(_uplink(cluster), cluster.servers)
    leaving = _usable_nics(cluster, loads.verb, leaves_server=True)
    nics_s, uplink_s = _by_nics_s(cluster, loads, leaving), _divide(loads.leaves_server.sum(axis=1), uplink)
    server_s = np.maximum(nics_s, uplink_s)
    worst = int(server_s.argmax())
    what = "NICs" if nics_s[worst] >= uplink_s[worst] else "leaf uplink"
    yield _total(server_s[worst], _server_start_s(cluster)), f"{what} of server {worst}, {loads.verb}"
    rank_s = _divide(loads.leaves_rank, nic + _scale_up_port(cluster)).reshape(-1)
    worst = int(rank_s.argmax())
    yield _total(rank_s[worst], _rank_start_s(cluster)), f"ports of rank {worst}, {loads.verb}"
    if cluster.scale_out != "flat" and cluster.gpus_per_server > 1:
        rail_s = _divide(loads.leaves_rail, _scale_up_port(cluster).sum(axis=0) + _beyond_rail(cluster))
        worst = int(rail_s.argmax())
        yield _total(rail_s[worst], _rank_start_s(cluster)), f"links off rail {worst}, {loads.verb}"


def _by_nics_s(cluster: Cluster, loads: _Loads, nic: Floats) -> Floats:
    """What each server's NICs need for their bytes: a NIC's own GPU's at once, others' only after a hop inside (before
    it where they are received); on rails those for other indices also before another hop."""
    own, total, all_nics = loads.leaves_server, loads.leaves_server.sum(axis=1), nic.sum(axis=1)
    hop_s = cluster.message_overhead_s + cluster.scale_up_latency_s
    early = np.minimum(own, nic * hop_s).sum(axis=1)
    alone_s = _divide(own, nic).max(axis=1)
    seconds: Floats = np.where(alone_s <= hop_s, alone_s, hop_s + _divide(total - early, all_nics))
    if cluster.scale_out == "rail":
        last_s = cluster.message_overhead_s + min(cluster.scale_up_latency_s, cluster.scale_out_latency_s)
        left = total - early - np.minimum(loads.by_rail, nic * last_s).sum(axis=1)
        seconds = np.where(left > 0, np.maximum(seconds, hop_s + last_s + _divide(left, all_nics)), seconds)
    return seconds


def _priced_rails(cluster: Cluster, demand: Demand) -> Iterator[tuple[float, str]]:
    """Ports of NICs, where faults leave servers unlike rails and none beside them: a way for every rail."""
    servers, gpus = cluster.servers, cluster.gpus_per_server
    nic = cluster.nic_bandwidth_bytes_per_s.reshape(servers, gpus)
    if cluster.scale_out != "rail" or not 2 < servers <= MOST_PRICED_SERVERS or (nic == nic[0]).all():
        return
    rank = np.arange(cluster.num_ranks).reshape(servers, gpus)
    ways = np.broadcast_arrays(rank[:, None], cluster.num_ranks + rank[None])
    best_s = _priced_s(np.stack(ways, axis=3), _nic_rates(cluster), _between_servers(cluster, demand))
    yield _total(best_s, _server_start_s(cluster)), "NICs that rails join, all together"


def _priced_uplinks(cluster: Cluster, demand: Demand) -> Iterator[tuple[float, str]]:
    """NICs and the uplinks that leaves hash their flows to: a way for every flow of a pair of NICs."""
    servers, gpus, fabric = cluster.servers, cluster.gpus_per_server, cluster.fabric
    is_hashed = fabric.ecmp_radix is not None and cluster.scale_out != "rail"
    if not is_hashed or servers < 2 or cluster.num_ranks**2 * fabric.ecmp_flows > MOST_PRICED_FLOWS:
        return
    out, into, port = np.indices((cluster.num_ranks, cluster.num_ranks, fabric.ecmp_flows)).reshape(3, -1)
    up, down, uplink_rates = uplinks_of_flows(cluster.topology, out, into, port)
    first = 2 * cluster.num_ranks  # of the uplinks; those that a way does without are the last port, which is free
    rate = np.append(_nic_rates(cluster), uplink_rates)
    used = np.stack([out, cluster.num_ranks + into, first + up, first + down], axis=1)
    used[up < 0, 2:] = len(rate)
    flows = used.reshape(servers, gpus, servers, gpus * fabric.ecmp_flows, 4).transpose(0, 2, 1, 3, 4)
    best_s = _priced_s(flows.reshape(servers, servers, -1, 4), rate, _between_servers(cluster, demand))
    yield _total(best_s, _server_start_s(cluster)), "NICs and hashed uplinks, all together"


def _priced_s(ways: NDArray[np.int64], rate: Floats, owed: Floats) -> float:
    """What ports with prices need for the bytes that servers owe, by `ways`: ``[servers, servers, ways, ports]``.

    Whatever the prices, a byte pays at least its cheapest way, over third servers or not, and in a second all ports
    together take in their rates times their prices. Prices rise where the cheapest ways crowd, which brings the bound
    near the optimum of the linear program whose dual this is.
    """
    if not owed.any():
        return 0.0
    is_usable = rate > 0
    price, best_s = np.divide(1.0, rate, out=np.full(rate.shape, np.inf), where=is_usable), 0.0
    for number in range(PRICE_ROUNDS):
        paid, load = _cheapest_ways(ways, price, owed)
        best_s = max(best_s, paid / float(rate[is_usable] @ price[is_usable]))
        busy_s = _divide(load, rate)
        price *= 1.0 + busy_s / (busy_s.max() * (1.0 + number / 8))
    return best_s


def _cheapest_ways(ways: NDArray[np.int64], price: Floats, owed: Floats) -> tuple[float, Floats]:
    """What all bytes pay on their cheapest ways, and what these bring to every port."""
    hops = np.append(price, 0.0)[ways].sum(axis=3)
    taken, cost = hops.argmin(axis=2), hops.min(axis=2)
    np.fill_diagonal(cost, 0.0)
    following = np.broadcast_to(np.arange(len(owed)), cost.shape).copy()
    for server in range(len(owed)):
        over = cost[:, server, None] + cost[server]
        is_cheaper = over < cost
        cost = np.where(is_cheaper, over, cost)
        following = np.where(is_cheaper, following[:, server, None], following)
    at, to = np.nonzero(owed)
    size, load = owed[at, to], np.zeros(len(price) + 1)
    paid = float((size * cost[at, to]).sum())
    while len(at):
        reached = following[at, to]
        np.add.at(load, ways[at, reached, taken[at, reached]], size[:, None])
        goes_on = reached != to
        at, to, size = reached[goes_on], to[goes_on], size[goes_on]
    return paid, load[:-1]


def _nic_rates(cluster: Cluster) -> Floats:
    """Of all NICs sending, then of all receiving."""
    nic = cluster.nic_bandwidth_bytes_per_s
    return np.concatenate([nic, nic * cluster.fabric.efficiency])


def _between_servers(cluster: Cluster, demand: Demand) -> Floats:
    servers, gpus = cluster.servers, cluster.gpus_per_server
    owed: Floats = demand.bytes_matrix.reshape(servers, gpus, servers, gpus).sum(axis=(1, 3), dtype=np.float64)
    np.fill_diagonal(owed, 0.0)
    return owed


def _inside_cuts(cluster: Cluster, loads: _Loads, best_s: float) -> Iterator[tuple[float, str]]:
    """Some GPUs of a server (with its switch, where there is one) against the rest of the world.

    Behind a switch the cut may also take in ports of single GPUs, where the bytes that cannot avoid them outweigh what
    they add to it: scale-up ports out of GPUs inside, and NICs into GPUs outside.
    """
    gpus = cluster.gpus_per_server
    if gpus < 3:
        return
    per_link = cluster.scale_up_bandwidth_bytes_per_s / (gpus - 1 if cluster.scale_up == "mesh" else 1)
    nic = _usable_nics(cluster, loads.verb)
    known_s = best_s - _rank_start_s(cluster)
    candidates = _worth_cutting(cluster, loads, nic, per_link, known_s)
    if not len(candidates):
        return
    subsets = _subsets(gpus) if gpus <= MAX_ENUMERATED_GPUS else None
    for server in candidates.tolist():
        order = np.argsort(loads.inside[server].sum(axis=0) - loads.leaves_server[server])
        member = subsets if subsets is not None else np.tri(gpus)[:, np.argsort(order)]
        outside = 1.0 - member
        crossing = member @ loads.leaves_server[server] + ((member @ loads.inside[server]) * outside).sum(axis=1)
        if cluster.scale_up == "mesh":
            here = cluster.present.reshape(-1, gpus)[server].astype(np.float64)
            seconds = _divide(crossing, member @ nic[server] + (member @ here) * (outside @ here) * per_link)
        else:
            width = member @ nic[server] + outside.sum(axis=1) * per_link
            kept = member * (member @ loads.inside[server].T)  # from each GPU inside to others inside
            # Into each GPU outside, whatever comes past the cut so far.
            past = outside * (outside @ loads.inside[server] + loads.arrives_far[server])
            seconds = _widened_s(
                crossing,
                width,
                (kept, past),
                (np.full(gpus, per_link), _usable_nics(cluster, _other(loads.verb))[server]),
                known_s,
            )
        worst = int(seconds.argmax())
        yield (
            _total(seconds[worst], _rank_start_s(cluster)),
            _name_of_cut(server, member[worst], loads, per_link, seconds[worst]),
        )


def _widened_s(
    crossing: Floats,
    width: Floats,
    more_bytes: tuple[Floats, Floats],
    more_width: tuple[Floats, Floats],
    known_s: float,
) -> Floats:
    """Seconds of every cut, ``[cuts]``, with the ports that raise it most: those that `known_s` cannot empty."""
    seconds = _divide(crossing, width)
    for _ in range(WIDENINGS):
        known_s = max(known_s, float(seconds.max()))
        bytes_, rate = crossing, width
        for more, added in zip(more_bytes, more_width, strict=True):
            taken = more > added * known_s
            bytes_, rate = bytes_ + (more * taken).sum(axis=1), rate + (taken * added).sum(axis=1)
        seconds = np.maximum(seconds, _divide(bytes_, rate))
    return seconds


def _name_of_cut(server: int, member: Floats, loads: _Loads, per_link: float, seconds: float) -> str:
    """Which GPUs a cut goes around: the fewer of both sides, or where all are inside those whose ports it takes in."""
    is_small = member.sum() * 2 <= len(member)
    few = np.flatnonzero(member if is_small else 1.0 - member)
    if not len(few):
        few, is_small = np.flatnonzero(loads.inside[server].sum(axis=1) > per_link * seconds), True
    side = loads.verb if is_small else _other(loads.verb)
    return f"scale-up of server {server} around GPUs {', '.join(str(gpu) for gpu in few)}, {side}"


def _worth_cutting(cluster: Cluster, loads: _Loads, nic: Floats, per_link: float, best_s: float) -> NDArray[np.int64]:
    """Servers where some cut could beat `best_s`: what each GPU or pair adds to it is bounded apart from the others."""
    leaves = loads.leaves_server - best_s * nic
    if cluster.scale_up == "switch":
        leaves = leaves + np.maximum(loads.inside.sum(axis=2) - best_s * per_link, 0.0)
        arrives = loads.inside.sum(axis=1) - best_s * per_link
        arrives = arrives + np.maximum(loads.arrives_far - best_s * _usable_nics(cluster, _other(loads.verb)), 0.0)
        most = np.maximum(leaves, arrives).sum(axis=1)
    else:
        over = loads.inside - best_s * per_link
        gain, loss = np.maximum(over, 0.0).sum(axis=(1, 2)), over.max(axis=(1, 2))
        peers = cluster.present.reshape(nic.shape).sum(axis=1) - 1
        most = np.maximum(leaves, 0.0).sum(axis=1) + np.where(gain > 0, gain, peers * loss)
    return np.flatnonzero(most > 0)


def _latency(cluster: Cluster, demand: Demand, sends: _Loads) -> tuple[float, str]:
    """Overhead and latency of the hops that some pair cannot avoid."""
    if not sends.leaves_server.any():
        return (_rank_start_s(cluster) if sends.leaves_rank.any() else 0.0), "latency"
    hop_inside_s = cluster.message_overhead_s + cluster.scale_up_latency_s
    from_dead_nic = bool(sends.leaves_server[_usable_nics(cluster, sends.verb) == 0.0].any())
    needs_hop_inside = from_dead_nic or (cluster.scale_out == "rail" and _changes_rail(cluster, demand))
    return _server_start_s(cluster) + needs_hop_inside * hop_inside_s, "latency"


def _changes_rail(cluster: Cluster, demand: Demand) -> bool:
    """Whether bytes go to another server and another GPU index at once."""
    servers, gpus = cluster.servers, cluster.gpus_per_server
    tiles = demand.bytes_matrix.reshape(servers, gpus, servers, gpus)
    same_rail = int(np.einsum("sktk->", tiles))
    same_server = int(np.einsum("sksl->", tiles))
    return int(demand.bytes_matrix.sum()) > same_rail + same_server - int(np.trace(demand.bytes_matrix))


def _usable_nics(cluster: Cluster, verb: str, *, leaves_server: bool = False) -> Floats:
    """What each rank's NIC sends or receives, ``[servers, gpus]``; on rails no faster than all its peers on the rail.
    Neighbours may take their NICs too, unless only what leaves the server is meant.

    Only a receiving port loses what the fabric's efficiency takes: at the far end where this one sends.
    """
    nic = cluster.nic_bandwidth_bytes_per_s.reshape(cluster.servers, cluster.gpus_per_server)
    receiving = nic * cluster.fabric.efficiency
    own, peers = (nic, receiving) if verb == "sending" else (receiving, nic)
    if cluster.fabric.ecmp_radix is not None and cluster.scale_out != "rail":
        own = np.minimum(own, _past_hashes(cluster, peers, cluster.fabric.ecmp_radix, leaves_server))
    if cluster.scale_out == "flat":
        return own
    usable: Floats = np.minimum(own, peers.sum(axis=0) - peers + _beyond_rail(cluster))
    return usable


def _past_hashes(cluster: Cluster, peers: Floats, radix: int, leaves_server: bool) -> Floats:
    """What all other NICs, or those of other servers, take from each, ``[servers, gpus]``: between leaves no pair of
    NICs is faster than an uplink for each of its flows."""
    routes = cluster.topology.router
    assert isinstance(routes, TwoTierRoutes)
    leaf = routes.place_on_leaves() // radix
    place = np.arange(cluster.num_ranks) // (cluster.gpus_per_server if leaves_server else 1)
    uplink = np.maximum(cluster.nic_bandwidth_bytes_per_s, DEAD_BANDWIDTH).mean()
    rate = np.broadcast_to(peers.reshape(-1), (cluster.num_ranks, cluster.num_ranks))
    rate = np.where(leaf[:, None] == leaf, rate, np.minimum(rate, cluster.fabric.ecmp_flows * uplink))
    most: Floats = np.where(place[:, None] == place, 0.0, rate).sum(axis=1).reshape(peers.shape)
    return most


def _other(verb: str) -> str:
    """The other direction."""
    return "receiving" if verb == "sending" else "sending"


def _uplink(cluster: Cluster) -> Floats | float:
    """What leaves each server's own leaf on a flat fabric."""
    if cluster.scale_out != "flat" or cluster.oversubscription <= 1:
        return np.inf
    uplink: Floats = _nominal(cluster).sum(axis=1) / cluster.oversubscription
    return uplink


def _beyond_rail(cluster: Cluster) -> Floats | float:
    """What leaves each rail's leaf for other rails."""
    if cluster.scale_out == "rail":
        return 0.0
    if cluster.oversubscription <= 1:
        return np.inf
    uplink: Floats = _nominal(cluster).sum(axis=0) / cluster.oversubscription
    return uplink


def _nominal(cluster: Cluster) -> Floats:
    return cluster.nominal_nic_bandwidth_bytes_per_s.reshape(cluster.servers, cluster.gpus_per_server)


def _scale_up_port(cluster: Cluster) -> Floats:
    """What leaves or enters each rank inside its server, ``[servers, gpus]``."""
    here = cluster.present.reshape(cluster.servers, cluster.gpus_per_server)
    if cluster.gpus_per_server == 1:
        return np.zeros(here.shape)
    rate = cluster.server_scale_up_bytes_per_s[:, None]
    if cluster.scale_up == "switch":
        return np.where(here, rate, 0.0)
    peers = here.sum(axis=1, keepdims=True) - here
    port: Floats = here * peers * (rate / (cluster.gpus_per_server - 1))
    return port


def _subsets(count: int) -> Floats:
    """Every subset but none: ``[2**count - 1, count]``."""
    bits: Floats = ((np.arange(1, 2**count)[:, None] >> np.arange(count)) & 1).astype(np.float64)
    return bits


def _server_start_s(cluster: Cluster) -> float:
    """What the first message between servers pays on top of its bytes: opening a stage, overhead, latency."""
    return cluster.stage_overhead_s + cluster.message_overhead_s + cluster.scale_out_latency_s


def _rank_start_s(cluster: Cluster) -> float:
    latency_s = min(cluster.scale_out_latency_s, cluster.scale_up_latency_s)
    return cluster.stage_overhead_s + cluster.message_overhead_s + latency_s


def _divide(bytes_: Floats, rate: Floats) -> Floats:
    """Seconds; no bytes take no time even where nothing can move."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(bytes_ > 0, bytes_ / rate, 0.0)


def _total(seconds: float, start_s: float) -> float:
    return float(seconds + start_s) if seconds > 0 else 0.0
