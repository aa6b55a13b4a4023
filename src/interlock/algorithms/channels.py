"""How collective libraries lay channels over a cluster, and how what they send is paced.

A channel walks through the ranks of every server once: it comes in at the first rank of a walk and leaves at the last,
by NICs that no other channel uses in that direction, so that channels together reach the sum of the NICs. What a
channel carries is cut into slices; those of one connection follow each other, as many at a time as its latency hides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from interlock.algorithms.rounds import Ids, Moves, group_members, schedule_turns
from interlock.cost.predict import Link, best_blocks
from interlock.problem import Problem
from interlock.ragged import Ragged, run_starts
from interlock.schedule import Chunks, Schedule
from interlock.topology import Cluster
from interlock.topology.lowering import TwoTierRoutes

__all__ = [
    "MOST_MESSAGES",
    "Channel",
    "blocks_of_trees",
    "gate_channels",
    "keeps_to_rails",
    "members_by_server",
    "nic_link",
    "paced",
    "ring_channels",
    "scale_up_link",
    "schedule_channels",
    "walk",
]

MOST_MESSAGES = 200_000  # a cap on work: more slices would pipeline better, and take long to simulate
MOST_ON_THE_WAY = 64  # slices of one connection

Channel = list[list[int]]  # the walk through each server's ranks


def members_by_server(problem: Problem) -> list[list[int]]:
    """The group's ranks on every server that has any."""
    assert problem.cluster is not None
    members = group_members(problem)
    homes = problem.cluster.server_of(members)
    return [members[homes == home].tolist() for home in sorted(set(homes.tolist()))]


def ring_channels(problem: Problem) -> list[Channel]:
    """A ring per NIC; none where servers of several ranks have fewer than two NICs to come in and leave by."""
    cluster, servers = problem.cluster, members_by_server(problem)
    assert cluster is not None
    if len(servers) == 1:
        ranks = servers[0]
        # A mesh has a link for every pair: with a ring from every rank on all of them are used.
        starts = ranks if cluster.scale_up == "mesh" and len(ranks) > 2 else ranks[:1]
        return [[walk(ranks, start)] for start in starts]
    gates, on_rails = _gates(cluster, servers), keeps_to_rails(cluster)
    count = min(map(len, gates))
    is_wide = [len(ranks) > 1 for ranks in servers]
    if count == 0 or any(wide and len(nics) < 2 for wide, nics in zip(is_wide, gates, strict=True)):
        return []
    if on_rails and any(is_wide):
        shift = _gate_shifts(len(servers), count)
        if shift is None:
            return []
        ends = [
            [
                (nics[(q + enters) % count], nics[(q + leaves) % count])
                for nics, enters, leaves in zip(gates, shift[:-1], shift[1:], strict=True)
            ]
            for q in range(count)
        ]
    else:
        ends = [[(nics[q], nics[(q + len(nics) // 2) % len(nics)]) for nics in gates] for q in range(count)]
    return [[walk(ranks, first, last) for ranks, (first, last) in zip(servers, pairs, strict=True)] for pairs in ends]


def gate_channels(problem: Problem) -> list[Channel]:
    """Walks from a NIC of each server; none where a server has no NIC that the others reach."""
    assert problem.cluster is not None
    servers = members_by_server(problem)
    if len(servers) == 1:
        return [[walk(servers[0], start)] for start in servers[0]]
    gates = _gates(problem.cluster, servers)
    return [
        [walk(ranks, nics[q]) for ranks, nics in zip(servers, gates, strict=True)] for q in range(min(map(len, gates)))
    ]


def walk(ranks: Sequence[int], first: int, last: int | None = None) -> list[int]:
    """All ranks of a server from `first` on, zigzag: with an even number of them, walks from different ranks share
    no pair in either direction, and end half way round. `last`, where given, is moved to the end."""
    start, count = ranks.index(first), len(ranks)
    order = [ranks[(start + ((k + 1) // 2 if k % 2 else -(k // 2))) % count] for k in range(count)]
    if last is not None and last != order[-1] and last != first:
        order.remove(last)
        order.append(last)
    return order


def _gates(cluster: Cluster, servers: list[list[int]]) -> list[list[int]]:
    """Ranks of each server whose NICs work; where channels keep to rails, of the rails that all servers have."""
    alive = cluster.nic_bandwidth_bytes_per_s > 0
    gates = [[rank for rank in ranks if alive[rank]] for ranks in servers]
    if keeps_to_rails(cluster):
        width = cluster.gpus_per_server
        common = set.intersection(*({rank % width for rank in ranks} for ranks in gates))
        gates = [sorted((rank for rank in ranks if rank % width in common), key=lambda r: r % width) for ranks in gates]
    return gates


def keeps_to_rails(cluster: Cluster) -> bool:
    """Whether leaving one's rail is impossible, or goes over a spine that is narrower than the NICs."""
    return cluster.scale_out == "rail" or (cluster.scale_out == "rail-spine" and cluster.oversubscription > 1.0)


def _gate_shifts(servers: int, rails: int) -> list[int] | None:
    """By how many rails each crossing is beside the channel's own, from the one into server 0 round to it again: no
    two in a row are equal."""
    half = rails // 2
    if rails < 2 or (servers % 2 and rails < 3):
        return None
    shift = [half * (server % 2) for server in range(servers)]
    if servers % 2:
        shift[-1] = 1 if half != 1 else 2
    return [*shift, 0]


def schedule_channels(
    problem: Problem, parts: Chunks, moves: Moves, chain: Ids, *, orders_nics: bool = True
) -> Schedule:
    """Messages by round, chains (of a channel, say) apart; see `paced`."""
    return paced(problem, *schedule_turns(problem, parts, moves, chain), orders_nics=orders_nics)


def paced(problem: Problem, schedule: Schedule, chain: Ids, *, orders_nics: bool = True) -> Schedule:
    """One stage. NICs serve messages in order where `orders_nics`; other links are shared, and messages of a chain
    between the same ranks follow each other, as many on the way at a time as hide the latency."""
    cluster, router = problem.cluster, problem.topology.router
    assert cluster is not None and isinstance(router, TwoTierRoutes)
    first_link = schedule.path.values[schedule.path.offsets[:-1]]
    crosses: NDArray[np.bool_] = first_link >= router.nic_out
    by_nic = crosses & orders_nics
    count = schedule.num_messages
    latency_s = np.where(crosses, cluster.scale_out_latency_s, cluster.scale_up_latency_s)
    busy_s = cluster.message_overhead_s + schedule.size_bytes / problem.topology.bandwidth_bytes_per_s[first_link]
    window = 1 + np.ceil(latency_s / np.maximum(busy_s, 1e-12)).clip(1, MOST_ON_THE_WAY).astype(np.int64)
    ends = [each.values[each.offsets[:-1]].astype(np.int64) for each in (schedule.src, schedule.dst)]
    key = np.stack([chain, ends[0], ends[1], schedule.kind.astype(np.int64)])
    order = np.lexsort((np.arange(count), *key))
    is_new = run_starts(*key[:, order])
    place = np.arange(count) - np.maximum.accumulate(np.where(is_new, np.arange(count), 0))
    waits = np.flatnonzero((place >= window[order]) & ~by_nic[order])
    row = np.concatenate([schedule.deps.row_of_value, order[waits]])
    dep = np.concatenate([schedule.deps.values.astype(np.int64), order[waits - window[order[waits]]]])
    return replace(
        schedule,
        stage=np.zeros(count, np.int32),
        exclusive=by_nic,
        order=np.where(by_nic, schedule.order, 0),
        deps=Ragged.from_pairs(row, dep, count),
    )


def nic_link(problem: Problem, channels: Sequence[Channel]) -> Link:
    """The slowest NIC that channels use between servers; the scale-up link where there is one server."""
    cluster = problem.cluster
    assert cluster is not None
    if len(channels[0]) == 1:
        return scale_up_link(problem)
    ends = np.array([rank for channel in channels for ranks in channel for rank in (ranks[0], ranks[-1])])
    rates = cluster.nic_bandwidth_bytes_per_s[ends]
    return Link(cluster.message_overhead_s, cluster.scale_out_latency_s, float(rates[rates > 0].min()))


def scale_up_link(problem: Problem) -> Link:
    """From GPU to GPU inside a server."""
    cluster = problem.cluster
    assert cluster is not None
    share = cluster.gpus_per_server - 1 if cluster.scale_up == "mesh" else 1
    rate = cluster.slowest_scale_up_bytes_per_s / max(1, share)
    return Link(cluster.message_overhead_s, cluster.scale_up_latency_s, rate)


def blocks_of_trees(problem: Problem, channels: Sequence[Channel], hops: int, trees: int, messages: int) -> int:
    """Blocks of each tree's share by the alpha-beta model, where a port pays for a message of every tree; at most so
    many that `messages` of a block stay within the cap."""
    link = nic_link(problem, channels)
    shared = Link(trees * link.overhead_s, link.latency_s, link.bandwidth_bytes_per_s)
    share = int(problem.items.size_bytes.sum()) / trees
    return min(best_blocks(hops, share, shared), max(1, MOST_MESSAGES // messages))
