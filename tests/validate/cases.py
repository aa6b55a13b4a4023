"""Valid schedules built by hand, so that the validator's tests depend on no producer.

In each, every message is needed: whatever one of them no longer brings is missing somewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from interlock.topology import Topology, from_edges, fully_connected
from validate.rows import REDUCE, Case


def ring_all_gather(num_ranks: int = 4, exclusive: bool = True) -> Case:
    """Chunk by chunk round a ring of directed links; link r leads from rank r to the next."""
    topology = _directed_ring(num_ranks)
    everyone = list(range(num_ranks))
    case = Case("ring all-gather", topology, [3 + r for r in everyone], [[r] for r in everyone], [everyone] * num_ranks)
    _pass_round(case, everyone, steps=num_ranks - 1, exclusive=exclusive)
    return case


def ring_reduce_scatter(num_ranks: int = 4) -> Case:
    """Partial sums round the ring; chunk c ends at rank c."""
    everyone = list(range(num_ranks))
    case = Case(
        "ring reduce-scatter",
        _directed_ring(num_ranks),
        [4] * num_ranks,
        [everyone] * num_ranks,
        [[r] for r in everyone],
    )
    _reduce_round(case, num_ranks)
    return case


def ring_all_reduce(num_ranks: int = 4) -> Case:
    """The two above, one after the other; the copies come back over the partial sums."""
    everyone = list(range(num_ranks))
    case = Case(
        "ring all-reduce", _directed_ring(num_ranks), [3] * num_ranks, [everyone] * num_ranks, [everyone] * num_ranks
    )
    last = _reduce_round(case, num_ranks)
    for step in range(num_ranks - 1):
        for rank in everyone:
            chunk = (rank - step) % num_ranks
            last[chunk] = case.send(rank, (rank + 1) % num_ranks, case.whole(chunk), deps=[last[chunk]], path=[rank],
                                    order=num_ranks + step, stage=num_ranks + step)  # fmt: skip
    return case


def barrier_all_reduce(num_ranks: int = 3) -> Case:
    """Ring all-reduce held together by barriers alone."""
    case = ring_all_reduce(num_ranks)
    case.name = "all-reduce with barriers"
    for row in case.rows:
        row.deps, row.order = [], None
    case.barriers = sorted({row.stage for row in case.rows})[1:]
    return case


def direct_all_to_all(num_ranks: int = 4) -> Case:
    """One message per pair on a full mesh."""
    pairs = [(i, j) for i in range(num_ranks) for j in range(num_ranks) if i != j]
    case = Case("direct all-to-all", _full_mesh(num_ranks), [1 + (i + 2 * j) % 5 for i, j in pairs],
                [[i] for i, _ in pairs], [[j] for _, j in pairs])  # fmt: skip
    for item, (i, j) in enumerate(pairs):
        case.send(i, j, case.whole(item), stage=(j - i) % num_ranks)
    return case


def relayed_all_to_all() -> Case:
    """Two servers {0, 1} and {2, 3} joined on rails: half of each item hops inside its server first, as FAST balances.

    Each wire message carries pieces of two items, cut in the middle of both.
    """
    pairs = [(0, 2), (0, 3), (1, 2), (1, 3)]
    case = Case("relayed all-to-all", _full_mesh(4), [5, 6, 7, 8], [[i] for i, _ in pairs], [[j] for _, j in pairs])
    cut = [2, 3, 4, 3]
    hops = [
        case.send(0, 1, (0, 0, 2), (1, 0, 3)),
        case.send(1, 0, (2, 0, 4), (3, 0, 3)),
    ]
    wires = [
        case.send(1, 3, (0, 0, 2), (1, 0, 3), (2, 4, 3), (3, 3, 5), deps=[hops[0]], stage=1),
        case.send(0, 2, (2, 0, 4), (3, 0, 3), (0, 2, 3), (1, 3, 3), deps=[hops[1]], stage=1),
    ]
    assert [case.sizes[k] - cut[k] for k in range(4)] == [3, 3, 3, 5]
    case.send(3, 2, (0, 0, 2), (2, 4, 3), deps=[wires[0]], stage=2)
    case.send(2, 3, (1, 3, 3), (3, 0, 3), deps=[wires[1]], stage=2)
    return case


def scattered_broadcast(num_ranks: int = 4) -> Case:
    """One item cut unevenly, scattered, then passed round in pieces and forwarded whole to one more rank."""
    others = list(range(1, num_ranks))
    case = Case("scattered broadcast", _full_mesh(num_ranks + 1), [7], [[0]], [list(range(num_ranks + 1))])
    bounds = [0, 2, 3, 7] if num_ranks == 4 else np.linspace(0, 7, num_ranks).astype(int).tolist()
    parts = [(0, bounds[k], bounds[k + 1] - bounds[k]) for k in range(num_ranks - 1)]
    got = {rank: [case.send(0, rank, parts[rank - 1])] for rank in others}
    first = dict(got)
    for shift in range(1, num_ranks - 1):
        for rank in others:
            peer = (rank - 1 + shift) % (num_ranks - 1) + 1
            got[peer] = [*got[peer], case.send(rank, peer, parts[rank - 1], deps=[first[rank][0]], stage=1)]
    case.send(1, num_ranks, case.whole(0), deps=sorted(got[1]), stage=2)
    return case


def multicast_tree() -> Case:
    """Ranks 0, 1 under switch 4 and 2, 3 under switch 5, both able: each rank's item goes to all others at once."""
    topology, up, down, across = _two_switches()
    everyone = list(range(4))
    case = Case("multicast tree", topology, [3, 2, 4, 1], [[r] for r in everyone], [everyone] * 4)
    for rank in everyone:
        others = [r for r in everyone if r != rank]
        case.send(rank, others, case.whole(rank), path=[up[rank], across[rank // 2], *(down[r] for r in others)])
    return case


def multicast_then_relay() -> Case:
    """A multicast reaches some, and one of those passes it on."""
    topology, up, down, _ = _two_switches()
    case = Case("multicast then relay", topology, [6], [[0]], [[1, 2, 3]])
    first = case.send(0, 1, (0, 0, 6), path=[up[0], down[1]])
    across = case.send(1, 2, (0, 0, 6), deps=[first], path=[up[1], _two_switches()[3][0], down[2]], stage=1)
    case.send(2, 3, (0, 0, 6), deps=[across], path=[up[2], down[3]], stage=2)
    return case


def in_switch_reduction() -> Case:
    """Every rank's row summed inside the switches on the way to its owner."""
    topology, up, down, across = _two_switches()
    everyone = list(range(4))
    case = Case("in-switch reduction", topology, [3, 2, 4, 1], [everyone] * 4, [[r] for r in everyone])
    for owner in everyone:
        others = [r for r in everyone if r != owner]
        path = [*(up[r] for r in others), across[1 - owner // 2], down[owner]]
        case.send(others, owner, case.whole(owner), kind=REDUCE, path=path)
    return case


def in_switch_all_reduce() -> Case:
    """Reduction inside the switches, then a multicast back over the contributions."""
    case = in_switch_reduction()
    case.name = "in-switch all-reduce"
    case.destinations = [[0, 1, 2, 3]] * 4
    _, up, down, across = _two_switches()
    for owner in range(4):
        others = [r for r in range(4) if r != owner]
        path = [up[owner], across[owner // 2], *(down[r] for r in others)]
        case.send(owner, others, case.whole(owner), deps=[owner], path=path, stage=1)
    return case


def combine() -> Case:
    """MoE combine: tokens summed at a rank that contributes nothing, one by relay and one straight."""
    case = Case("combine", _full_mesh(5), [4, 5], [[1, 2, 3], [2, 3]], [[0], [4]])
    first = case.send(1, 2, (0, 0, 4), kind=REDUCE)
    case.send(2, 0, (0, 0, 4), kind=REDUCE, deps=[first], stage=1)
    case.send(3, 0, (0, 0, 4), kind=REDUCE, stage=1)
    case.send(2, 4, (1, 0, 5), kind=REDUCE)
    case.send(3, 4, (1, 0, 5), kind=REDUCE)
    return case


def group_all_reduce() -> Case:
    """Ranks {1, 3, 4} of five reduce to 3 through rank 0, which is no member, and spread back."""
    group = [1, 3, 4]
    case = Case("group all-reduce", _full_mesh(5), [6, 2], [group] * 2, [group] * 2)
    for item in range(2):
        into = [case.send(1, 0, case.whole(item), kind=REDUCE), case.send(4, 0, case.whole(item), kind=REDUCE)]
        through = case.send(0, 3, case.whole(item), kind=REDUCE, deps=into, stage=1)
        back = case.send(3, 4, case.whole(item), deps=[through], stage=2)
        case.send(4, 1, case.whole(item), deps=[back], stage=3)
    return case


def group_all_gather() -> Case:
    """Ranks {0, 2, 4} of five gather; pieces of one item take two ways."""
    group = [0, 2, 4]
    case = Case("group all-gather", _full_mesh(5), [5, 3, 4], [[0], [2], [4]], [group] * 3)
    by_relay = case.send(0, 1, (0, 0, 2))
    rest = case.send(0, 2, (0, 2, 3))
    joined = case.send(1, 2, (0, 0, 2), deps=[by_relay], stage=1)
    case.send(2, 4, (0, 0, 5), (1, 0, 3), deps=[rest, joined], stage=2)
    home = case.send(2, 0, (1, 0, 3), stage=2)
    case.send(4, 0, (2, 0, 4), stage=2)
    case.send(0, 2, (2, 0, 4), deps=[home + 1], stage=3)
    return case


def tree_all_reduce() -> Case:
    """A binary tree of seven ranks up and down, the item cut into two pieces that go separately."""
    case = Case("tree all-reduce", _full_mesh(7), [5], [list(range(7))], [list(range(7))])
    for first, length in ((0, 2), (2, 3)):
        up: dict[int, int] = {}
        for rank in range(6, 0, -1):
            children = [up[child] for child in (2 * rank + 1, 2 * rank + 2) if child in up]
            up[rank] = case.send(rank, (rank - 1) // 2, (0, first, length), kind=REDUCE, deps=sorted(children))
        down: dict[int, int] = {}
        for rank in range(1, 7):
            parent = (rank - 1) // 2
            deps = sorted([up[1], up[2]]) if parent == 0 else [down[parent]]
            down[rank] = case.send(parent, rank, (0, first, length), deps=deps, stage=1)
    return case


def halving_doubling() -> Case:
    """Four ranks halve and double; each byte of the item has its own owner."""
    case = Case("halving-doubling", _full_mesh(4), [8], [list(range(4))], [list(range(4))])
    half = {rank: (rank >> 1) * 4 for rank in range(4)}
    quarter = {rank: (rank >> 1) * 4 + (rank & 1) * 2 for rank in range(4)}
    first = {r: case.send(r, r ^ 2, (0, half[r ^ 2], 4), kind=REDUCE) for r in range(4)}
    second = {
        r: case.send(r, r ^ 1, (0, quarter[r ^ 1], 2), kind=REDUCE, deps=[first[r ^ 2]], stage=1) for r in range(4)
    }
    # Each quarter's owner waits for both partial sums that reached it.
    third = {
        r: case.send(r, r ^ 1, (0, quarter[r], 2), deps=sorted([first[r ^ 2], second[r ^ 1]]), stage=2)
        for r in range(4)
    }
    for r in range(4):
        deps = sorted([first[r ^ 2], second[r ^ 1], third[r ^ 1]])
        case.send(r, r ^ 2, (0, half[r], 4), deps=deps, stage=3)
    return case


PLAIN: list[Callable[[], Case]] = [
    ring_all_gather,
    direct_all_to_all,
    relayed_all_to_all,
    scattered_broadcast,
    lambda: ring_all_gather(3, exclusive=False),
]
COLLECTIVE: list[Callable[[], Case]] = [
    ring_reduce_scatter,
    ring_all_reduce,
    barrier_all_reduce,
    multicast_tree,
    multicast_then_relay,
    in_switch_reduction,
    in_switch_all_reduce,
    combine,
    group_all_reduce,
    group_all_gather,
    tree_all_reduce,
    halving_doubling,
]


def _directed_ring(num_ranks: int) -> Topology:
    nodes = np.arange(num_ranks)
    return from_edges(nodes, (nodes + 1) % num_ranks, bandwidth="1 GB/s")


def _full_mesh(num_ranks: int) -> Topology:
    return fully_connected(num_ranks, bandwidth="1 GB/s")


def _two_switches() -> tuple[Topology, list[int], list[int], list[int]]:
    """Ranks 0, 1 under switch 4; 2, 3 under 5. Link ids: up and down by rank, across by the switch they leave."""
    switch = [4, 4, 5, 5]
    src = [0, 1, 2, 3, *switch, 4, 5]
    dst = [*switch, 0, 1, 2, 3, 5, 4]
    topology = from_edges(src, dst, bandwidth="1 GB/s", switches=[4, 5])
    able = np.array([False] * 4 + [True] * 2)
    return replace(topology, multicasts=able, reduces=able), [0, 1, 2, 3], [4, 5, 6, 7], [8, 9]


def _pass_round(case: Case, everyone: list[int], steps: int, exclusive: bool) -> None:
    count = len(everyone)
    last: dict[int, list[int]] = {chunk: [] for chunk in everyone}
    for step in range(steps):
        for rank in everyone:
            chunk = (rank - step) % count
            last[chunk] = [case.send(rank, (rank + 1) % count, case.whole(chunk), deps=last[chunk], path=[rank],
                                     order=step if exclusive else None, stage=step)]  # fmt: skip


def _reduce_round(case: Case, num_ranks: int) -> dict[int, int]:
    """Give the message that completes each chunk at its owner."""
    last: dict[int, int] = {}
    for step in range(num_ranks - 1):
        for rank in range(num_ranks):
            chunk = (rank - 1 - step) % num_ranks
            deps = [last[chunk]] if step else []
            last[chunk] = case.send(rank, (rank + 1) % num_ranks, case.whole(chunk), deps=deps, kind=REDUCE,
                                    path=[rank], order=step, stage=step)  # fmt: skip
    return last
