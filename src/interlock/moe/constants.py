"""Every constant of the in-switch MoE model, in one place, with where it comes from.

The hardware of DySHARP does not exist; its authors simulate it, and so do we. `ORIGIN` says of each constant whether
the paper published it, whether it was fitted so that the model meets the paper's communication share of 70.4 %,
measured on an H200, or assumed by us where the paper is silent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from interlock.moe.gemm import FixedRate, Gemms, h200_gemms, h200_tile_rates
from interlock.moe.layer import Layer

__all__ = [
    "FLIT_BYTES",
    "H200",
    "IDS_PER_FLIT",
    "MEASURED",
    "ORIGIN",
    "PAPER",
    "Machine",
    "Origin",
    "list_flits",
]

FLIT_BYTES = 16
PAPER_RATE = FixedRate(0.95 * 1979e12)  # 95 % of the H200's dense FP8 peak
IDS_PER_FLIT = 8  # eight 16-bit expert ids in an extension flit


class Origin(StrEnum):
    """Where a constant comes from."""

    PUBLISHED = "published"  # in the paper's text
    FITTED = "fitted"  # to the paper's communication share of 70.4 %, and to nothing else
    MEASURED = "measured"  # on one H200
    ASSUMED = "assumed"  # by us, where the paper is silent


def list_flits(targets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Extension flits of a packet that names so many experts.

    >>> list_flits(np.array([0, 1, 8, 9, 32])).tolist()
    [0, 1, 1, 2, 4]
    """
    return -(-targets // IDS_PER_FLIT)


@dataclass(frozen=True, slots=True)
class Machine:
    """One scale-up domain: GPUs around a switch."""

    link_bytes_per_s: float = 450e9  # per GPU and direction
    link_efficiency: float = 0.9  # what transfers reach of that; the paper says above 0.9 of the ideal
    payload_flits: int = 8  # of a packet, after its head and its list: the paper's 80 % with eight targets
    hop_latency_s: float = 250e-9  # per link; GPU to GPU is two
    gemms: Gemms = PAPER_RATE  # or a measured table: `h200_gemms`
    sms: int = 132  # an H200's
    communication_sms: int = 16  # that send while others compute: what NCCL takes on Hopper for its in-switch sums
    tile_tokens: int = 128  # other heights cost what `tile_slowdown` says
    tile_rows: int = 64  # a partial tile costs whole multiples of this many rows on the tensor cores
    bytes_per_request: int = 512  # that one pull request asks for
    beside_slowdown: float = 1.0  # of a scheme's own GEMMs on their SMs while others copy
    foreign_slowdown: float = 1.0  # of a library's GEMMs as soon as copies take an SM
    launch_s: float = 0.0  # of a kernel that starts when another has ended
    flag_s: float = 0.0  # until what waits for a flag in memory goes on

    switches: int = 9
    reduction_buffer_bytes: int = 64 * 1024  # per port of each switch
    tlb_entries: int = 512
    tlb_miss_packets: float = 1.0  # packet times a port waits for the table on a miss

    def origin(self, name: str) -> Origin | None:
        """Where a constant of this machine comes from; None for one that is neither the paper's nor the H200's."""
        value = getattr(self, name, None)
        if name not in MEASURED or value == getattr(PAPER, name):
            return ORIGIN[name] if value == getattr(PAPER, name, None) else None
        return Origin.MEASURED if value == getattr(H200, name) else None

    @property
    def compute_share(self) -> float:
        """Part of the SMs that compute where communication goes on at the same time."""
        return 1 - self.communication_sms / self.sms

    def tile_slowdown(self, layer: Layer) -> float:
        """How much longer GEMMs take with these tiles than with tiles of 128 tokens, as measured."""
        return h200_tile_rates().slowdown(layer, self.tile_tokens)

    def rows_in_flight(self, top_k: int) -> int:
        """Table entries that the packets on their way to one GPU use, on average.

        Assumed: each sending SM of each GPU has one row under way, for `top_k` experts somewhere: however many GPUs
        there are, the entries of so many rows fall on each. 16 rows of DeepSeek-V3 are 229 kB, what a link holds one
        way.
        """
        return self.communication_sms * top_k

    def multicast_factor(self, top_k: int) -> float:
        """How much longer an arrival takes where the TLB does not hold all rows in flight."""
        missed = max(0.0, 1 - self.tlb_entries / self.rows_in_flight(top_k))
        return 1 + missed * self.tlb_miss_packets

    @property
    def reduction_factor(self) -> float:
        """How much longer a reduction takes where its buffers do not cover a round trip at full rate."""
        round_trip_s = 2 * self.one_way_s
        covered = self.switches * self.reduction_buffer_bytes / round_trip_s
        return max(1.0, self.link_bytes_per_s / covered)

    def wire_s(
        self, layer: Layer, bytes_per_value: float, tokens: NDArray[np.int64], lists: NDArray[np.int64] | int = 0
    ) -> NDArray[np.float64]:
        """Time of so many tokens on one link, with `lists` extension flits for one packet of each of them in all.

        A token is several packets, each with a head and the token's list of targets.
        """
        packets = layer.hidden * bytes_per_value / (self.payload_flits * FLIT_BYTES)  # per token
        flits = packets * (tokens * (1 + self.payload_flits) + lists)
        return np.asarray(flits * FLIT_BYTES / self.reached_bytes_per_s, np.float64)

    def request_s(self, layer: Layer, tokens: NDArray[np.int64], lists: NDArray[np.int64] | int) -> NDArray[np.float64]:
        """Time of the pull requests for so many tokens on one link: a head and a list each."""
        requests = layer.hidden * layer.combine_bytes / self.bytes_per_request  # per token
        return np.asarray(requests * (tokens + lists) * FLIT_BYTES / self.reached_bytes_per_s, np.float64)

    @property
    def reached_bytes_per_s(self) -> float:
        """What a link carries, heads and lists included."""
        return self.link_bytes_per_s * self.link_efficiency

    @property
    def one_way_s(self) -> float:
        """GPU to switch to GPU."""
        return 2 * self.hop_latency_s


PAPER = Machine()

ORIGIN = {
    "FLIT_BYTES": Origin.PUBLISHED,
    "IDS_PER_FLIT": Origin.PUBLISHED,
    "link_bytes_per_s": Origin.PUBLISHED,
    "link_efficiency": Origin.FITTED,
    "payload_flits": Origin.PUBLISHED,
    "hop_latency_s": Origin.PUBLISHED,
    "gemms": Origin.FITTED,
    "sms": Origin.PUBLISHED,
    "communication_sms": Origin.ASSUMED,
    "tile_tokens": Origin.PUBLISHED,
    "tile_rows": Origin.ASSUMED,
    "bytes_per_request": Origin.ASSUMED,
    "beside_slowdown": Origin.ASSUMED,
    "foreign_slowdown": Origin.ASSUMED,
    "launch_s": Origin.ASSUMED,
    "flag_s": Origin.ASSUMED,
    "switches": Origin.PUBLISHED,
    "reduction_buffer_bytes": Origin.PUBLISHED,
    "tlb_entries": Origin.PUBLISHED,
    "tlb_miss_packets": Origin.ASSUMED,
}

MEASURED = ("gemms", "beside_slowdown", "foreign_slowdown", "launch_s", "flag_s")
H200 = Machine(
    gemms=h200_gemms(),
    beside_slowdown=1.055,  # beside 16 copying SMs: 1.040 to 1.070 by bench_gpu_moe.py; 1.02-1.05 of a simpler kernel
    foreign_slowdown=1.9,  # torch's grouped GEMM, 4 to 32 SMs taken
    launch_s=22e-6,  # a cooperative launch
    flag_s=1.46e-6,  # a dependent hop, benchmarks/results/gpu.json
)
