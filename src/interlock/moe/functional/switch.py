"""The switch: replicates a store once per port, and adds the replies to a load until none is missing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InterlockError, InvalidInput
from interlock.moe.functional.packets import Packet, Stage

__all__ = ["Reply", "Switch"]

REDUCTION_BUFFER_BYTES = 64 * 1024  # per port


class BufferFull(InterlockError):
    """A port has no room for another open reduction; the request must wait, nothing is dropped."""


@dataclass(slots=True)
class _Open:
    """A reduction that still misses replies."""

    missing: int
    total: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Reply:
    """A finished sum for the GPU that asked."""

    port: int
    address: int
    values: NDArray[np.float32]


class Switch:
    """Ports are GPUs; a target's port is its expert id over the experts per GPU."""

    def __init__(self, num_ports: int, experts_per_gpu: int, buffer_bytes: int = REDUCTION_BUFFER_BYTES) -> None:
        if min(num_ports, experts_per_gpu, buffer_bytes) < 1:
            raise InvalidInput("a switch needs ports, experts and a reduction buffer")
        self._num_ports, self._experts_per_gpu, self._buffer_bytes = num_ports, experts_per_gpu, buffer_bytes
        self._open: dict[tuple[int, int], _Open] = {}  # (asking port, address)
        self._held_bytes = [0] * num_ports

    def replicate(self, packet: Packet) -> list[tuple[int, Packet]]:
        """One copy per output port, its list trimmed to that port's experts; ascending ports."""
        by_port: dict[int, list[int]] = {}
        for expert in packet.targets:
            port = expert // self._experts_per_gpu
            if port >= self._num_ports:
                raise InvalidInput(f"expert {expert} has no port; there are {self._num_ports}")
            by_port.setdefault(port, []).append(expert)
        return [(port, replace(packet, targets=tuple(by_port[port]))) for port in sorted(by_port)]

    def can_open(self, port: int, size_bytes: int) -> bool:
        """Whether the asking port's reduction buffer has room."""
        return self._held_bytes[port] + size_bytes <= self._buffer_bytes

    def request(self, port: int, packet: Packet, size_bytes: int) -> list[tuple[int, Packet]]:
        """Open a reduction for `port` and pass the request on; one reply per port is expected."""
        if packet.stage is not Stage.COMBINE:
            raise InvalidInput("only a combine packet asks for a reduction")
        if (port, packet.address) in self._open:
            raise InvalidInput(f"port {port} already asked for address {packet.address}")
        if not self.can_open(port, size_bytes):
            raise BufferFull(f"port {port} holds {self._held_bytes[port]} of {self._buffer_bytes} bytes of open sums")
        copies = self.replicate(packet)
        self._held_bytes[port] += size_bytes
        self._open[port, packet.address] = _Open(len(copies), np.zeros(size_bytes // 4, np.float32))
        return copies

    def reply(self, port: int, address: int, values: NDArray[np.float32]) -> Reply | None:
        """Add a partial; the sum comes out when the count reaches zero."""
        held = self._open.get((port, address))
        if held is None:
            raise InvalidInput(f"port {port} has no open reduction at address {address}: a reply came twice or unasked")
        held.total += values
        held.missing -= 1
        if held.missing:
            return None
        del self._open[port, address]
        self._held_bytes[port] -= held.total.nbytes
        return Reply(port, address, held.total)

    @property
    def num_open(self) -> int:
        """Reductions that still miss replies."""
        return len(self._open)
