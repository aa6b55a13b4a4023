"""One MoE layer through packets, switch and tables, on actual values; and the plain layer it must equal.

Order of summation. A GPU adds the partials of its own experts for a token in ascending expert order, weighted in the
GEMM-2 epilogue; the switch adds GPUs' partials in order of arrival, which is ascending port order unless `arrivals`
shuffles it; the token's own GPU adds its local partial last. With `arrivals` None the result is equal to
`reference_layer` bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.moe.functional.packets import Packet, Stage, decode, encode
from interlock.moe.functional.switch import Switch
from interlock.moe.functional.tables import AddressTable

__all__ = ["moe_layer", "reference_layer"]

Values = NDArray[np.float32]
Experts = Callable[[int, Values], Values]  # (expert, rows) -> rows

PAYLOAD_BYTES = 128
MULTIMEM_BASE = 1 << 20


def reference_layer(
    x: Values, experts: NDArray[np.int32], weights: Values, run: Experts, num_gpus: int, num_experts: int
) -> Values:
    """The plain layer, with the documented order of summation."""
    per_gpu, tokens_per_gpu = num_experts // num_gpus, len(x) // num_gpus
    out = np.zeros_like(x)
    for token in range(len(x)):
        home = token // tokens_per_gpu
        partials: dict[int, Values] = {}
        for place in np.argsort(experts[token], kind="stable"):
            expert = int(experts[token, place])
            value = (run(expert, x[token][None])[0] * weights[token, place]).astype(np.float32)
            gpu = expert // per_gpu
            partials[gpu] = partials[gpu] + value if gpu in partials else value
        for gpu in sorted(set(partials) - {home}):
            out[token] += partials[gpu]
        if home in partials:
            out[token] += partials[home]
    return out


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
        return reply.values

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
