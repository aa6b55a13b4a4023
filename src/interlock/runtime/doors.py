"""Whether a rank can be reached: a listening socket that proves link and process, and a way to try many at once.

The kernel completes connections by itself, so a stopped process can still be reached, a dead one refuses, and behind a
cut link nothing answers. That tells the three apart. Whoever knows the group's token may leave word, which waits in the
socket even if the one who left it is gone; strangers are let in, heard for a second and put out again.
"""

from __future__ import annotations

import errno
import hmac
import os
import selectors
import socket
import struct
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Door", "Unreached", "knock"]

SIOCGIFADDR = 0x8915  # Linux: address of an interface
INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
MAX_WORD_BYTES = 1 << 16  # that a visitor may leave; a verdict names each rank at most once
MAX_VISITORS = 64  # heard at the same time; the eldest goes when one more comes
HEARD_S = 1.0  # how long a visitor may take to say its word


@dataclass(frozen=True, slots=True)
class Unreached:
    """What became of knocking at doors."""

    refused: tuple[int, ...]  # machine reached, but its process is gone
    unreachable: tuple[int, ...]  # no answer


class Door:
    """A socket on the interface of the process group, for others to knock at and to leave word.

    `token` is what a visitor must begin with for its word to be kept.
    """

    def __init__(self, backlog: int, token: bytes) -> None:
        self._token = token
        self._words: list[bytes] = []
        self._socket: socket.socket | None = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._waker: socket.socket | None = None
        try:
            self._socket.bind((_own_address(), 0))
            self._socket.listen(backlog)
            self._socket.setblocking(False)
        except OSError:
            self.close()
            return
        self._waker, woken = socket.socketpair()
        waiting = selectors.DefaultSelector()
        for one in (self._socket, woken):
            waiting.register(one, selectors.EVENT_READ)
        serving = (self._socket, woken, waiting)
        threading.Thread(target=self._serve, args=serving, name="interlock-door", daemon=True).start()

    @property
    def address(self) -> str:
        """Where to knock, as host:port; empty where no socket could be opened.

        In front of an address that means something else on every machine stands which machine is meant.
        """
        if self._socket is None:
            return ""
        host, port = self._socket.getsockname()
        return f"{_machine()}@{host}:{port}" if host.startswith("127.") else f"{host}:{port}"

    @property
    def words(self) -> tuple[bytes, ...]:
        """What was left by visitors who know the token, the first first."""
        return tuple(self._words)

    def close(self) -> None:
        """Let knocks be refused from now on."""
        if self._socket is not None:
            # Not merely closed: a thread that waits for it would keep it open.
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._socket = None
        if self._waker is not None:
            self._waker.close()
            self._waker = None

    def _serve(self, door: socket.socket, woken: socket.socket, waiting: selectors.BaseSelector) -> None:
        """Let visitors in, hear each for a while, and put them out."""
        heard: dict[socket.socket, tuple[float, bytearray]] = {}  # until when, and what was said; the eldest first
        with woken, waiting:

            def put_out(visitor: socket.socket) -> None:
                waiting.unregister(visitor)
                visitor.close()
                said = bytes(heard.pop(visitor)[1])
                is_known = hmac.compare_digest(said[: len(self._token)], self._token)
                if is_known and len(self._token) < len(said) <= MAX_WORD_BYTES:
                    self._words.append(said[len(self._token) :])

            while self._socket is not None:
                now_s = time.monotonic()
                for visitor in [one for one, (until_s, _) in heard.items() if until_s <= now_s]:
                    put_out(visitor)
                left_s = next((until_s for until_s, _ in heard.values()), None)
                for key, _ in waiting.select(None if left_s is None else max(0.0, left_s - now_s)):
                    if key.fileobj is woken:
                        break
                    if key.fileobj is not door:
                        known = key.fileobj
                        if isinstance(known, socket.socket) and known in heard and not _hear(known, heard[known][1]):
                            put_out(known)
                        continue
                    try:
                        visitor, _ = door.accept()
                    except OSError:
                        continue  # gone again, or no descriptor is left for it
                    if len(heard) == MAX_VISITORS:
                        put_out(next(iter(heard)))
                    visitor.setblocking(False)
                    heard[visitor] = time.monotonic() + HEARD_S, bytearray()
                    waiting.register(visitor, selectors.EVENT_READ)
            for visitor in list(heard):
                put_out(visitor)


def _hear(visitor: socket.socket, said: bytearray) -> bool:
    """Take what a visitor says; whether it may say more."""
    try:
        part = visitor.recv(4096)
    except BlockingIOError:
        return True
    except OSError:
        return False
    said += part
    return bool(part) and len(said) <= MAX_WORD_BYTES


@cache
def _machine() -> str:
    """A name of this machine and its network namespace: processes that share it share their loopback."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}.{Path('/proc/self/ns/net').stat().st_ino}"
    except OSError:
        return socket.gethostname()


def knock(addresses: Mapping[int, str], timeout_s: float, word: bytes = b"") -> Unreached:
    """Try to connect to every rank's door at once, and leave word. Doors on another machine's loopback are left out."""
    deadline_s = time.monotonic() + timeout_s
    outcomes = dict.fromkeys(addresses, errno.ETIMEDOUT)
    with ExitStack() as opened, selectors.DefaultSelector() as waiting:
        for rank, address in addresses.items():
            machine, _, place = address.rpartition("@")
            if machine not in ("", _machine()):
                del outcomes[rank]
                continue
            door = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            door.setblocking(False)
            host, _, port = place.rpartition(":")
            outcomes[rank] = door.connect_ex((host, int(port)))
            if outcomes[rank] in (0, errno.EINPROGRESS):
                waiting.register(door.fileno(), selectors.EVENT_WRITE, (rank, door))
        while waiting.get_map() and (left_s := deadline_s - time.monotonic()) > 0:
            for key, _ in waiting.select(left_s):
                rank, door = key.data
                outcomes[rank] = door.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                waiting.unregister(key.fd)
                if outcomes[rank] == 0 and word:
                    with suppress(OSError):
                        door.sendall(word)  # small enough for the socket's buffer, where it outlives this process
    refused = sorted(rank for rank, outcome in outcomes.items() if outcome == errno.ECONNREFUSED)
    unreachable = sorted(rank for rank, outcome in outcomes.items() if outcome not in (0, errno.ECONNREFUSED))
    return Unreached(tuple(refused), tuple(unreachable))


def _own_address() -> str:
    """The address that the backend uses: of the interface it was told, or else of the host's name."""
    names = [os.environ[variable] for variable in INTERFACE_VARIABLES if os.environ.get(variable)]
    if names and sys.platform == "linux":
        return _address_of(names[0].split(",")[0])
    return socket.gethostbyname(socket.gethostname())


def _address_of(interface: str) -> str:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        request = struct.pack("256s", interface.encode()[:15])
        return socket.inet_ntoa(fcntl.ioctl(asking.fileno(), SIOCGIFADDR, request)[20:24])
