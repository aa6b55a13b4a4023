"""DySHARP's addressing, executable: packets, switch and tables on real values. Functional, not timed.

A packet is 16-byte flits. Flit 0 starts with a 64-bit word: 48 bits of multimem address, 1 bit of stage, 15 bits of
target count. Extension flits follow with eight 16-bit expert ids each, then the payload. The switch replicates a store
once per port, and adds the replies to a load until none is missing. A table says where a token's row lies in the
compact buffer of an expert, allocated on first touch.

Order of summation. A GPU adds the partials of its own experts for a token in ascending expert order, weighted in the
GEMM-2 epilogue; the switch adds GPUs' partials in order of arrival, which is ascending port order unless `arrivals`
shuffles it; the token's own GPU adds its local partial last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InterlockError, InvalidInput
from interlock.moe.constants import FLIT_BYTES, IDS_PER_FLIT

__all__ = [
    "MAX_TARGETS",
    "AddressTable",
    "Packet",
    "Stage",
    "Switch",
    "TableFull",
    "decode",
    "encode",
    "moe_layer",
]

ADDRESS_BITS = 48
MAX_TARGETS = 2**15 - 1
MAX_EXPERT = 2**16 - 1
REDUCTION_BUFFER_BYTES = 64 * 1024  # per port
VALID = np.uint32(1 << 31)  # 1 valid bit and a 31-bit index in 4 bytes
TLB_ENTRIES = 512
Values = NDArray[np.float32]
Experts = Callable[[int, Values], Values]  # (expert, rows) -> rows

PAYLOAD_BYTES = 128
MULTIMEM_BASE = 1 << 20


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


class BufferFull(InterlockError):
    """A port has no room for another open reduction; the request must wait, nothing is dropped."""


@dataclass(slots=True)
class _Open:
    """A reduction that still misses replies."""

    missing: int
    total: NDArray[np.float32]


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

    def reply(self, port: int, address: int, values: NDArray[np.float32]) -> NDArray[np.float32] | None:
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
        return held.total

    @property
    def num_open(self) -> int:
        """Reductions that still miss replies."""
        return len(self._open)


class TableFull(InterlockError):
    """An expert's buffer has no row left; nothing is dropped or overwritten."""


class AddressTable:
    """One GPU's AL table: a sub-table per local expert, and a TLB in front of it."""

    def __init__(self, num_experts: int, num_tokens: int, rows_per_expert: int, tlb_entries: int = TLB_ENTRIES) -> None:
        if min(num_experts, num_tokens, rows_per_expert, tlb_entries) < 1:
            raise InvalidInput("a table needs at least one expert, token, row and TLB entry")
        self._entries = np.zeros((num_experts, num_tokens), np.uint32)
        self._used = np.zeros(num_experts, np.int64)
        self._rows_per_expert = rows_per_expert
        self._tlb: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._tlb_entries = tlb_entries
        self.hits = 0
        self.misses = 0

    def touch(self, expert: int, token: int) -> int:
        """Layout row of a token at a local expert; dispatch allocates the next one on first touch."""
        cached = self._cached(expert, token)
        if cached is not None:
            return cached
        entry = self._entries[expert, token]
        if not entry & VALID:
            row = int(self._used[expert])
            if row >= self._rows_per_expert:
                raise TableFull(f"expert {expert} has no row left for token {token}: all {row} are taken")
            self._used[expert] += 1
            entry = VALID | np.uint32(row)
            self._entries[expert, token] = entry
        return self._remember(expert, token, int(entry & ~VALID))

    def find(self, expert: int, token: int) -> int:
        """Layout row that dispatch allocated; combine reuses it."""
        cached = self._cached(expert, token)
        if cached is not None:
            return cached
        entry = self._entries[expert, token]
        if not entry & VALID:
            raise InvalidInput(f"token {token} was never dispatched to local expert {expert}")
        return self._remember(expert, token, int(entry & ~VALID))

    def rows(self, expert: int) -> int:
        """Rows allocated so far."""
        return int(self._used[expert])

    def _cached(self, expert: int, token: int) -> int | None:
        row = self._tlb.get((expert, token))
        if row is None:
            self.misses += 1
            return None
        self.hits += 1
        self._tlb.move_to_end((expert, token))
        return row

    def _remember(self, expert: int, token: int, row: int) -> int:
        self._tlb[expert, token] = row
        if len(self._tlb) > self._tlb_entries:
            self._tlb.popitem(last=False)
        return row


def moe_layer(
    x: Values,
    experts: NDArray[np.int32],
    weights: Values,
    run: Experts,
    num_gpus: int,
    num_experts: int,
    *,
    arrivals: np.random.Generator | None = None,
    rows_per_expert: int | None = None,
) -> Values:
    """Dispatch, experts and combine through the in-switch machinery.

    Parameters
    ----------
    x
        Tokens, ``[num_tokens, hidden]`` float32, dealt to the GPUs in equal contiguous blocks.
    experts, weights
        Choices and gate weights, ``[num_tokens, top_k]``.
    arrivals
        Shuffles the order in which packets and replies arrive; None keeps it ascending.
    rows_per_expert
        Size of each expert's buffer; by default all tokens fit.
    """
    machine = _Machine(x, experts, weights, run, num_gpus, num_experts, arrivals, rows_per_expert or len(x))
    machine.dispatch()
    machine.run_experts()
    return machine.combine()


class _Machine:
    """GPUs around a switch, with the state that packets change."""

    def __init__(
        self,
        x: Values,
        experts: NDArray[np.int32],
        weights: Values,
        run: Experts,
        num_gpus: int,
        num_experts: int,
        arrivals: np.random.Generator | None,
        rows_per_expert: int,
    ) -> None:
        if len(x) % num_gpus or num_experts % num_gpus:
            raise InvalidInput(f"{len(x)} tokens and {num_experts} experts do not divide over {num_gpus} GPUs evenly")
        if x.shape[1] * 4 % PAYLOAD_BYTES:
            raise InvalidInput(f"hidden={x.shape[1]} float32 values are not whole payloads of {PAYLOAD_BYTES} bytes")
        self.x, self.experts, self.weights, self.run = x, experts, weights, run
        self.num_gpus, self.per_gpu = num_gpus, num_experts // num_gpus
        self.tokens_per_gpu = len(x) // num_gpus
        self.row_bytes = int(x.shape[1]) * 4
        self.arrivals = arrivals
        self.switch = Switch(num_gpus, self.per_gpu)
        self.tables = [AddressTable(self.per_gpu, len(x), rows_per_expert) for _ in range(num_gpus)]
        shape = (num_gpus, self.per_gpu, rows_per_expert, x.shape[1])
        self.inputs, self.outputs = np.zeros(shape, np.float32), np.zeros(shape, np.float32)

    def dispatch(self) -> None:
        """dymultimem.st: every token once per GPU it goes to, a packet per payload."""
        in_flight = []
        for token in range(len(self.x)):
            row = self.x[token].tobytes()
            targets = tuple(sorted(int(e) for e in self.experts[token]))
            for offset in range(0, self.row_bytes, PAYLOAD_BYTES):
                payload = row[offset : offset + PAYLOAD_BYTES]
                packet = Packet(self.address(token, offset), Stage.DISPATCH, targets, payload)
                in_flight += self.switch.replicate(decode(encode(packet)))
        for port, packet in self.shuffled(in_flight):
            self.store(port, packet)

    def store(self, gpu: int, packet: Packet) -> None:
        """A destination translates the address and writes into each of its experts' buffers."""
        token, offset = divmod(packet.address - MULTIMEM_BASE, self.row_bytes)
        values = np.frombuffer(packet.payload, np.float32)
        for expert in packet.targets:
            local = expert % self.per_gpu
            row = self.tables[gpu].touch(local, token)
            self.inputs[gpu, local, row, offset // 4 : offset // 4 + len(values)] = values

    def run_experts(self) -> None:
        """Both GEMMs of every expert on its compact rows."""
        for gpu in range(self.num_gpus):
            for local in range(self.per_gpu):
                used = self.tables[gpu].rows(local)
                if used:
                    rows = self.inputs[gpu, local, :used]
                    self.outputs[gpu, local, :used] = self.run(gpu * self.per_gpu + local, rows)

    def combine(self) -> Values:
        """dymultimem.ld_reduce: ask once per token and payload, add in the switch; the local partial comes last."""
        out = np.zeros_like(self.x)
        for token in range(len(self.x)):
            home = token // self.tokens_per_gpu
            remote = tuple(sorted(int(e) for e in self.experts[token] if int(e) // self.per_gpu != home))
            own = tuple(sorted(int(e) for e in self.experts[token] if int(e) // self.per_gpu == home))
            for offset in range(0, self.row_bytes, PAYLOAD_BYTES):
                part = slice(offset // 4, (offset + PAYLOAD_BYTES) // 4)
                if remote:
                    out[token, part] = self.ask(home, token, offset, remote)
                if own:
                    out[token, part] += self.partial(home, token, offset, own)
        return out

    def ask(self, home: int, token: int, offset: int, targets: tuple[int, ...]) -> Values:
        """One reduction in the switch."""
        packet = decode(encode(Packet(self.address(token, offset), Stage.COMBINE, targets)))
        reply = None
        for port, trimmed in self.shuffled(self.switch.request(home, packet, PAYLOAD_BYTES)):
            assert reply is None, "a reduction ended before its last partial"
            reply = self.switch.reply(home, packet.address, self.partial(port, token, offset, trimmed.targets))
        assert reply is not None and self.switch.num_open == 0
        return reply

    def partial(self, gpu: int, token: int, offset: int, experts: tuple[int, ...]) -> Values:
        """What one GPU's experts made of a token, weighted and added in ascending expert order."""
        total: Values | None = None
        for expert in experts:
            local = expert % self.per_gpu
            row = self.tables[gpu].find(local, token)
            part = self.outputs[gpu, local, row, offset // 4 : (offset + PAYLOAD_BYTES) // 4]
            weight = self.weights[token, int(np.flatnonzero(self.experts[token] == expert)[0])]
            value = (part * weight).astype(np.float32)
            total = value if total is None else total + value
        assert total is not None
        return total

    def address(self, token: int, offset: int) -> int:
        """Algebraic address: the token's row in a would-be all-gather, equal on all GPUs."""
        return MULTIMEM_BASE + token * self.row_bytes + offset

    def shuffled(self, packets: list[tuple[int, Packet]]) -> list[tuple[int, Packet]]:
        """Packets in the order they arrive."""
        if self.arrivals is None:
            return packets
        return [packets[k] for k in self.arrivals.permutation(len(packets))]
