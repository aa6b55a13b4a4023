"""Every constant of the in-switch MoE model, in one place.

The hardware of DySHARP does not exist; its authors simulate it, and so do we. Marks: [paper] from its text; [fitted]
chosen so that the model meets the paper's communication share of 70.4 %; [measured] on an H200; [ours] our assumption
where it is silent.
"""

from __future__ import annotations

from dataclasses import dataclass

from interlock.moe.gemm import FixedRate, Gemms, h200_tile_rates
from interlock.moe.layer import Layer

__all__ = ["FLIT_BYTES", "PAPER", "Machine"]

FLIT_BYTES = 16  # [paper]
PAYLOAD_FLITS = 8  # [ours] 128 bytes of payload per packet
PAPER_RATE = FixedRate(0.95 * 1979e12)  # [fitted] 95 % of the H200's dense FP8 peak
IDS_PER_FLIT = 8  # [paper] eight 16-bit expert ids in an extension flit


@dataclass(frozen=True, slots=True)
class Machine:
    """One scale-up domain: GPUs around a switch."""

    link_bytes_per_s: float = 450e9  # [paper] per GPU and direction
    payload_efficiency: float = 0.8  # [fitted] 8 payload flits of 10: head, one extension, eight of data
    hop_latency_s: float = 250e-9  # [paper] per link; GPU to GPU is two
    gemms: Gemms = PAPER_RATE  # or a measured table: `h200_gemms`
    sms: int = 132  # [paper] an H200's
    communication_sms: int = (
        16  # [ours] that send while others compute: what NCCL takes on Hopper for its in-switch sums
    )
    tile_tokens: int = 128  # [paper]; other heights cost what `tile_slowdown` says
    tile_rows: int = 64  # [ours] a partial tile costs whole multiples of this many rows on the tensor cores
    request_flits_per_payload_flit: float = 1 / 32  # [ours] pull requests: one head flit per 512 bytes asked for
    launch_s: float = 0.0  # [ours] kernel launches are hidden by persistent kernels

    switches: int = 9  # [paper]
    reduction_buffer_bytes: int = 64 * 1024  # [paper] per port of each switch
    tlb_entries: int = 512  # [paper]
    tlb_miss_packets: float = 1.0  # [ours] packet times a port waits for the table on a miss

    @property
    def compute_share(self) -> float:
        """Part of the SMs that compute where communication goes on at the same time."""
        return 1 - self.communication_sms / self.sms

    def tile_slowdown(self, layer: Layer) -> float:
        """How much longer GEMMs take with these tiles than with tiles of 128 tokens. [measured]"""
        return h200_tile_rates().slowdown(layer, self.tile_tokens)

    def rows_in_flight(self, top_k: int) -> int:
        """Table entries that the packets on their way to one GPU use, on average.

        [ours] Each sending SM of each GPU has one row under way, for `top_k` experts somewhere: however many GPUs there
        are, the entries of so many rows fall on each. 16 rows of DeepSeek-V3 are 229 kB, what a link holds one way.
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

    @property
    def goodput_bytes_per_s(self) -> float:
        """Payload rate of one link."""
        return self.link_bytes_per_s * self.payload_efficiency

    @property
    def one_way_s(self) -> float:
        """GPU to switch to GPU."""
        return 2 * self.hop_latency_s


PAPER = Machine()
