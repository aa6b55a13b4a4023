"""Packets of 16-byte flits with a dynamic multimem address and a target list.

Flit 0 starts with a 64-bit word: 48 bits of multimem address, 1 bit of stage, 15 bits of target count. Extension flits
follow with eight 16-bit expert ids each, then the payload.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from interlock.errors import InvalidInput
from interlock.moe.constants import FLIT_BYTES, IDS_PER_FLIT

__all__ = ["MAX_TARGETS", "Packet", "Stage", "decode", "encode"]

ADDRESS_BITS = 48
MAX_TARGETS = 2**15 - 1
MAX_EXPERT = 2**16 - 1


class Stage(IntEnum):
    """Which way a packet goes."""

    DISPATCH = 0  # dymultimem.st: store at every target
    COMBINE = 1  # dymultimem.ld_reduce: load from every target and add


@dataclass(frozen=True, slots=True)
class Packet:
    """One algebraic address, the experts it concerns, and the bytes for them (none in a request)."""

    address: int
    stage: Stage
    targets: tuple[int, ...]  # expert ids
    payload: bytes = b""


def encode(packet: Packet) -> bytes:
    """The packet as flits.

    >>> len(encode(Packet(4096, Stage.DISPATCH, (3, 9), bytes(128)))) // 16
    10
    """
    if not 0 <= packet.address < 2**ADDRESS_BITS:
        raise InvalidInput(f"address={packet.address} must fit {ADDRESS_BITS} bits")
    if not 1 <= len(packet.targets) <= MAX_TARGETS:
        raise InvalidInput(f"{len(packet.targets)} targets; there must be between 1 and {MAX_TARGETS}")
    if min(packet.targets) < 0 or max(packet.targets) > MAX_EXPERT:
        raise InvalidInput(f"targets={packet.targets} must fit 16 bits each")
    if len(packet.payload) % FLIT_BYTES:
        raise InvalidInput(f"a payload of {len(packet.payload)} bytes is not whole flits of {FLIT_BYTES}")
    word = packet.address | packet.stage << ADDRESS_BITS | len(packet.targets) << (ADDRESS_BITS + 1)
    head = word.to_bytes(8, "little") + bytes(FLIT_BYTES - 8)
    ids = b"".join(expert.to_bytes(2, "little") for expert in packet.targets)
    return head + ids + bytes(-len(ids) % FLIT_BYTES) + packet.payload


def decode(flits: bytes) -> Packet:
    """The inverse of `encode`; refuses what is cut short."""
    if len(flits) < 2 * FLIT_BYTES or len(flits) % FLIT_BYTES:
        raise InvalidInput(f"{len(flits)} bytes are not a packet: it has at least two whole flits")
    word = int.from_bytes(flits[:8], "little")
    count = word >> (ADDRESS_BITS + 1)
    end = FLIT_BYTES * (1 + -(-count // IDS_PER_FLIT))
    if count == 0 or end > len(flits):
        raise InvalidInput(f"a packet of {len(flits)} bytes cannot name {count} targets")
    ids = flits[FLIT_BYTES : FLIT_BYTES + 2 * count]
    targets = tuple(int.from_bytes(ids[k : k + 2], "little") for k in range(0, 2 * count, 2))
    return Packet(word % 2**ADDRESS_BITS, Stage(word >> ADDRESS_BITS & 1), targets, flits[end:])
