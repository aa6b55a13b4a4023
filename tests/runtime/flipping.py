"""A wire that changes bytes: gloo's connections are led over a proxy that flips bits of payload."""

from __future__ import annotations

import random
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch.distributed as dist

MARK = bytes([0xA5]) * 512  # payload that the proxy recognises; headers of gloo hold no such run
ADDRESS = re.compile(rb"\x02\x00(..)\x7f\x00\x00\x01", re.S)  # of IPv4 on loopback, as gloo leaves it in the store


class Wire:
    """What lies between ranks, in a process that is none of them: ports that lead to ports, and a bit flipped in every
    marked run that passes while `flips` is set."""

    def __init__(self) -> None:
        self.flips = threading.Event()
        self.num_flipped = 0
        self._asked = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._asked.getsockname()[1]  # where `ask` goes
        self._sockets = [self._asked]
        self._start(self._answer)

    def close(self) -> None:
        """No more connections, and an end to those that are open."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for it
            each.close()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _answer(self) -> None:
        """Open a port that leads to the one that is asked for, or flip from now on, or no more."""
        with suppress(OSError):
            while True:
                with self._asked.accept()[0] as asking:
                    word = asking.recv(100).decode()
                    if word in ("on", "off"):
                        (self.flips.set if word == "on" else self.flips.clear)()
                        asking.sendall(b"0")
                        continue
                    port, asker = map(int, word.split())
                    listening = _listen_like(port, asker)
                    self._sockets.append(listening)
                    self._start(self._accept, listening, port)
                    asking.sendall(str(listening.getsockname()[1]).encode())

    def _accept(self, listening: socket.socket, port: int) -> None:
        with suppress(OSError):
            while True:
                theirs = listening.accept()[0]
                self._sockets.append(theirs)
                ours = socket.create_connection(("127.0.0.1", port))
                self._sockets.append(ours)
                for source, target in ((theirs, ours), (ours, theirs)):
                    target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._start(self._pass_on, source, target)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                target.sendall(self._changed(data) if self.flips.is_set() else data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, target):
                end.close()

    def _changed(self, data: bytes) -> bytes:
        found = data.find(MARK)
        if found < 0:
            return data
        self.num_flipped += 1
        made = bytearray(data)
        made[found + len(MARK) // 2] ^= 4
        return bytes(made)


def _listen_like(port: int, asker: int) -> socket.socket:
    """On a port that is above the asker's where the given one is, and else below: gloo looks at that, in either order
    of bytes, to tell who connects and who is connected to."""

    def order(other: int) -> list[bool]:
        return [other > asker, socket.htons(other) > socket.htons(asker)]

    while True:
        number = random.randrange(1024, 1 << 16)
        if order(number) == order(port):
            with suppress(OSError):
                return socket.create_server(("127.0.0.1", number), backlog=64)


def _folder(key: str) -> str:
    return key.rpartition("/")[0]


def ask(wire_port: int, word: str) -> int:
    """Tell a wire in another process: "on", "off", or the port that a new one shall lead to and one's own, for the new
    one's number."""
    with socket.create_connection(("127.0.0.1", wire_port)) as connection:
        connection.sendall(word.encode())
        return int(connection.recv(100))


class ProxiedStore(dist.Store):
    """A store that leaves ports of a wire where gloo leaves its own."""

    def __init__(self, inner: Any, wire_port: int) -> None:
        super().__init__()
        self._inner, self._wire_port = inner, wire_port
        self._own_ports: dict[str, int] = {}  # by group
        self._clones: list[ProxiedStore] = []  # the backend does not keep them alive

    def set(self, key: str, value: bytes | str) -> None:
        """As the store within."""
        if isinstance(value, bytes) and (found := ADDRESS.search(value)):
            self._own_ports[_folder(key)] = int.from_bytes(found[1], "big")
        self._inner.set(key, value)

    def get(self, key: str) -> bytes:
        """As the store within, but for the addresses of others."""
        own_port = self._own_ports.get(_folder(key))
        if own_port is None:
            return bytes(self._inner.get(key))

        def proxied(found: re.Match[bytes]) -> bytes:
            port = int.from_bytes(found[1], "big")
            if port == own_port:
                return found[0]
            return b"\x02\x00" + ask(self._wire_port, f"{port} {own_port}").to_bytes(2, "big") + b"\x7f\x00\x00\x01"

        return ADDRESS.sub(proxied, bytes(self._inner.get(key)))

    def clone(self) -> ProxiedStore:
        """Another connection to the same store."""
        self._clones.append(ProxiedStore(self._inner.clone(), self._wire_port))
        return self._clones[-1]

    def has_extended_api(self) -> bool:
        """Calls that take several keys go one by one."""
        return False

    def add(self, key: str, amount: int) -> int:
        """As the store within, like all below."""
        return int(self._inner.add(key, amount))

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        return bytes(self._inner.compare_set(key, expected, desired))

    def check(self, keys: list[str]) -> bool:
        return bool(self._inner.check(keys))

    def wait(self, *arguments: Any) -> None:
        self._inner.wait(*arguments)

    def delete_key(self, key: str) -> bool:
        return bool(self._inner.delete_key(key))

    def num_keys(self) -> int:
        return int(self._inner.num_keys())

    def set_timeout(self, timeout: Any) -> None:
        self._inner.set_timeout(timeout)
