"""Whether a rank can be reached: a listening socket that proves link and process, and a way to try many at once.

Nobody accepts what connects: the kernel completes connections by itself, so a stopped process can still be reached, a
dead one refuses, and behind a cut link nothing answers. That tells the three apart.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import struct
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

__all__ = ["Door", "Reach", "knock"]

SIOCGIFADDR = 0x8915  # Linux: address of an interface
INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


@dataclass(frozen=True, slots=True)
class Reach:
    """What became of knocking at doors."""

    refused: tuple[int, ...]  # machine reached, but its process is gone
    unreachable: tuple[int, ...]  # no answer


class Door:
    """A socket on the interface of the process group, for others to knock at."""

    def __init__(self, backlog: int) -> None:
        self._socket: socket.socket | None = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.bind((_own_address(), 0))
            self._socket.listen(backlog)
        except OSError:
            self.close()

    @property
    def address(self) -> str:
        """Where to knock, as host:port; empty where no socket could be opened."""
        if self._socket is None:
            return ""
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def close(self) -> None:
        """Let knocks be refused from now on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def knock(addresses: Mapping[int, str], timeout_s: float) -> Reach:
    """Try to connect to every rank's door at once."""
    deadline_s = time.monotonic() + timeout_s
    outcomes = dict.fromkeys(addresses, errno.ETIMEDOUT)
    with ExitStack() as opened, selectors.DefaultSelector() as waiting:
        for rank, address in addresses.items():
            door = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            door.setblocking(False)
            host, _, port = address.rpartition(":")
            outcomes[rank] = door.connect_ex((host, int(port)))
            if outcomes[rank] == errno.EINPROGRESS:
                waiting.register(door.fileno(), selectors.EVENT_WRITE, (rank, door))
        while waiting.get_map() and (left_s := deadline_s - time.monotonic()) > 0:
            for key, _ in waiting.select(left_s):
                rank, door = key.data
                outcomes[rank] = door.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                waiting.unregister(key.fd)
    refused = sorted(rank for rank, outcome in outcomes.items() if outcome == errno.ECONNREFUSED)
    unreachable = sorted(rank for rank, outcome in outcomes.items() if outcome not in (0, errno.ECONNREFUSED))
    return Reach(tuple(refused), tuple(unreachable))


def _own_address() -> str:
    """The address that the backend uses: of the interface it was told, or else of the host's name."""
    names = [os.environ[variable] for variable in INTERFACE_VARIABLES if os.environ.get(variable)]
    if names and sys.platform == "linux":
        return _address_of(names[0].split(",")[0])
    address = socket.gethostbyname(socket.gethostname())
    if address.startswith("127."):
        raise OSError("the host's name leads to loopback, where ranks on other hosts would knock at the wrong door")
    return address


def _address_of(interface: str) -> str:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        request = struct.pack("256s", interface.encode()[:15])
        return socket.inet_ntoa(fcntl.ioctl(asking.fileno(), SIOCGIFADDR, request)[20:24])
