"""Store-and-forward: a message becomes one transfer per link, each after the one before it on its path."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from interlock.ragged import Ragged, matches, ranges
from interlock.schedule import Schedule, make_pieces
from interlock.topology import Topology

__all__ = ["Hops", "one_message_per_link"]


@dataclass(frozen=True, slots=True, eq=False)
class Hops:
    """A schedule whose messages cross one link each, and the message each of them came from."""

    schedule: Schedule
    message: NDArray[np.int64]  # [num_hops]
    first: NDArray[np.int64]  # [num_messages], first hop of each message


def one_message_per_link(schedule: Schedule, path: Ragged, topology: Topology) -> Hops:
    """Cut every message at the nodes of its path; a message without links stays one message."""
    counts = np.maximum(path.counts, 1)
    message = np.repeat(np.arange(len(path)), counts)
    first = np.cumsum(counts) - counts
    links = Ragged.from_counts((path.counts[message] > 0).astype(np.int64), path.values)
    columns = ("kind", "phase", "stage", "slice", "size_bytes", "exclusive", "order")
    cut = replace(
        schedule,
        src=schedule.src.take(message),
        dst=schedule.dst.take(message),
        path=links,
        deps=_dependencies(schedule, path, topology, message, first, counts),
        pieces=make_pieces(np.zeros(len(message) + 1), []),
        **{name: getattr(schedule, name)[message] for name in columns},
    )
    return Hops(cut, message, first)


def _dependencies(
    schedule: Schedule,
    path: Ragged,
    topology: Topology,
    message: NDArray[np.int64],
    first: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> Ragged:
    """A hop waits for the hops into the node it leaves, a first hop for all hops of what its message waited for."""
    hop_of_value = np.flatnonzero(path.counts[message] > 0)
    row = path.row_of_value
    leaves = row * topology.num_nodes + topology.link_src[path.values]
    enters = row * topology.num_nodes + topology.link_dst[path.values]
    inner_dep, inner_hop = (hop_of_value[place] for place in matches(enters, leaves))
    starts = np.ones(len(message), np.bool_)
    starts[inner_hop] = False
    begin = np.flatnonzero(starts)
    deps = schedule.deps.take(message[begin])
    outer_hop = np.repeat(np.repeat(begin, deps.counts), counts[deps.values])
    outer_dep = ranges(first[deps.values], counts[deps.values])
    hop, dep = np.concatenate([inner_hop, outer_hop]), np.concatenate([inner_dep, outer_dep])
    return Ragged.from_pairs(hop, dep, len(message))
