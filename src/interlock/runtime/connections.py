"""Connections of our own beside a gloo group's, each told how fast to send.

A switch port that many senders reach at once drops what its queue cannot hold. If every sender keeps to its share of
the port, nobody needs to wait for permission and nothing is dropped. Linux holds a TCP socket to a rate
(SO_MAX_PACING_RATE); gloo does not hand out its sockets, but those that appear while a group is made are its own, and
ranks that tell each other their names know which leads where. The caller's group keeps its connections as they are.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from interlock.runtime.peers import backend_errors

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch._C._distributed_c10d import Store

__all__ = ["Connections", "Share", "connect", "open_connections", "told_width"]

SO_MAX_PACING_RATE = 47
UNPACED = (1 << 64) - 1
OPEN_FILES = Path("/proc/self/fd")
GLOO_WAITS = 5  # times its timeout, for a connection

Share = Callable[[Sequence[int]], NDArray[np.int64]]


class Connections:
    """Connections between the same ranks, as a group that sends and receives, and the sockets that lead to each."""

    def __init__(self, group: dist.ProcessGroup, inodes: Mapping[int, Mapping[int, int]]) -> None:
        self.group = group
        self._inodes = inodes  # by peer: inode by descriptor
        self._rates = dict.fromkeys(inodes, UNPACED)

    def pace(self, bytes_per_s: Mapping[int, float]) -> None:
        """Send to each peer no faster than this; to peers that are not named, as fast as TCP goes."""
        for peer, set_before in self._rates.items():
            rate = min(UNPACED, max(1, int(bytes_per_s.get(peer, UNPACED))))
            if rate != set_before:
                self._rates[peer] = rate
                for descriptor, inode in self._inodes[peer].items():
                    _set(descriptor, inode, socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("Q", rate))

    def hold_back(self, num_bytes: Mapping[int, int]) -> None:
        """Let TCP take no more for each peer than this beyond what it has sent: a send then ends when its bytes go."""
        for peer, most in num_bytes.items():
            for descriptor, inode in self._inodes.get(peer, {}).items():
                _set(descriptor, inode, socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, struct.pack("i", most))


def _set(descriptor: int, inode: int, level: int, option: int, value: bytes) -> None:
    """Set an option of one socket, unless it has been closed since."""
    try:
        copy = os.dup(descriptor)
    except OSError:
        return
    # The copy must not live on: a connection is closed only with its last descriptor.
    with socket.socket(fileno=copy) as own:
        if os.fstat(copy).st_ino == inode:
            own.setsockopt(level, option, value)


def told_width(num_ranks: int) -> int:
    """Numbers that a rank tells of its new sockets: one per peer, and room for others that came up meanwhile."""
    return 2 * num_ranks + 8


def open_connections(group: dist.ProcessGroup, name: str, share: Share) -> Connections | None:
    """Connect every rank with every other; None on all ranks unless each found its socket to every other.

    All ranks must call it. `share` gives every rank's row of `told_width` numbers.
    """
    before = _sockets()
    connected = connect(group, name)
    made = {descriptor: inode for descriptor, inode in _sockets().items() if before.get(descriptor) != inode}
    ends = {descriptor: ends for descriptor in made if (ends := _ends(descriptor)) is not None}
    width = told_width(group.size())
    row = sorted({own for own, _ in ends.values()})[:width]
    rows = share([*row, *[0] * (width - len(row))])
    peer_by_name = {number: peer for peer, numbers in enumerate(rows.tolist()) for number in numbers if number}
    inodes: dict[int, dict[int, int]] = {}
    for descriptor, (_, other) in ends.items():
        if (peer := peer_by_name.get(other)) is not None:
            inodes.setdefault(peer, {})[descriptor] = made[descriptor]
    found_all = len(inodes.keys() - {group.rank()}) == group.size() - 1
    has_found = share([int(found_all)] * width)
    return Connections(connected, inodes) if has_found.all() else None


def connect(group: dist.ProcessGroup, name: str) -> dist.ProcessGroup:
    """A gloo backend over the group's ranks, interface and timeout; it sends and receives as a group does.

    All ranks must call it, and none goes on before all are connected: gloo takes a peer that closes one connection
    while others are still being made for a failure.
    """
    import torch
    import torch.distributed as dist

    theirs = group._get_backend(torch.device("cpu")).options
    store = dist.PrefixStore(f"interlock/{name}", group.get_group_store())  # type: ignore[attr-defined]
    options = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    options._devices, options._threads = theirs._devices, 1  # type: ignore[attr-defined]
    options._timeout = theirs._timeout / GLOO_WAITS
    with backend_errors():
        _meet(store, "called", group, theirs._timeout)
        made = dist.ProcessGroupGloo(store, group.rank(), group.size(), options)
        _meet(store, "connected", group, theirs._timeout)
        made._set_default_timeout(theirs._timeout)
    return cast("dist.ProcessGroup", made)


def _meet(store: Store, where: str, group: dist.ProcessGroup, timeout: timedelta) -> None:
    """Go on when every rank has come here."""
    store.set(f"{where}{group.rank()}", "")
    store.wait([f"{where}{rank}" for rank in range(group.size())], timeout)


def _sockets() -> dict[int, int]:
    """Inode by descriptor of this process's open sockets."""
    if sys.platform != "linux":
        return {}
    found = {}
    for entry in OPEN_FILES.iterdir():
        try:
            kind, _, inode = str(entry.readlink()).partition(":")
        except OSError:
            continue  # closed meanwhile
        if kind == "socket":
            found[int(entry.name)] = int(inode.strip("[]"))
    return found


def _ends(descriptor: int) -> tuple[int, int] | None:
    """Numbers that stand for both ends of a connected socket; None for any other."""
    try:
        with socket.socket(fileno=os.dup(descriptor)) as own:
            if own.family not in (socket.AF_INET, socket.AF_INET6):
                return None
            return _number(own.getsockname()), _number(own.getpeername())
    except OSError:
        return None


def _number(name: tuple[object, ...]) -> int:
    """A positive number that stands for an address and port."""
    digest = hashlib.blake2b(f"{name[0]} {name[1]}".encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big") | 1
