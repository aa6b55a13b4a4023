"""Every constant of the in-switch MoE model, in one place.

The hardware of DySHARP does not exist; its authors simulate it, and so do we. Marks: [paper] from its text; [fitted]
chosen so that the model meets the paper's communication share of 70.4 %; [ours] our assumption where it is silent.
"""

from __future__ import annotations

from dataclasses import dataclass

from interlock.moe.gemm import FixedRate, Gemms

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
    tile_tokens: int = 128  # [paper]
    tile_rows: int = 64  # [ours] a partial tile costs whole multiples of this many rows on the tensor cores
    request_flits_per_payload_flit: float = 1 / 32  # [ours] pull requests: one head flit per 512 bytes asked for
    launch_s: float = 0.0  # [ours] kernel launches are hidden by persistent kernels

    switches: int = 9  # [paper]
    reduction_buffer_bytes: int = 64 * 1024  # [paper] per port of each switch
    tlb_entries: int = 512  # [paper]
    rows_in_flight: int = 500  # [fitted] token rows on their way to one GPU: 512 entries just hold them
    tlb_miss_packets: float = 1.0  # [ours] packet times a port waits for the table on a miss

    @property
    def multicast_factor(self) -> float:
        """How much longer an arrival takes where the TLB does not hold all rows in flight."""
        missed = max(0.0, 1 - self.tlb_entries / self.rows_in_flight)
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
