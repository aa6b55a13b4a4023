"""Interlock's native kernels: arrays in, read-only arrays out."""

from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


def build_facts() -> str:
    """Compiler and kind of build."""

def narrowest_cut_between(num_nodes: int, src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], capacity: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], source: int, sink: int) -> tuple[int, Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]]:
    """Capacity and source side of the narrowest cut between two nodes."""

def narrowest_cut_from(num_nodes: int, src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], capacity: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], source: int) -> tuple[int, Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]]:
    """
    Capacity and source side of the narrowest cut between a node and any other.
    """

def cheapest_partition(num_nodes: int, src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], capacity: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], price: int) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)]:
    """
    Block of each node in the partition with the least capacity between blocks - price * number of blocks.
    """

def shortest_distances(num_nodes: int, src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], cost: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], sources: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None), writable=False)]:
    """Least cost from each source to each node, [num_sources, num_nodes]."""

def crowded_lengths(num_nodes: int, src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], rate: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], rounds: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)]:
    """
    Lengths of links under which (bytes * distance) / (rate * length) is large.
    """

def crowded_sum(num_nodes: int, src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], rate: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], channel: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_channels: int, known: float, rounds: int) -> tuple[float, Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)]]:
    """
    Least seconds per byte of a sum that all nodes need, and the share of each channel in the proof.
    """

def digest64(bytes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int) -> int:
    """64-bit digest of bytes, equal on every machine; not cryptographic."""

def lower_schedule(rank: int, src_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dst_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], kind: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], phase: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], stage: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], size_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], exclusive: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], round: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], dep_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], deps: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], piece_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], item: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], offset: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], length: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], barriers: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], item_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], input: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], output: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], own: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[dict[str, object], tuple[int, int, int]]:
    """
    What one rank runs of a schedule: its columns by name, and bytes of input, output and scratch. `item_bytes` is empty where items are only copied.
    """

def align_cuts(piece_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], item: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], offset: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], length: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], align: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]]:
    """
    Sizes of messages, and offsets and lengths of pieces, with every cut of an item moved to a multiple of `align` or 16 bytes, unless a part would become empty.
    """

def rail_shares(owed_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rates: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], own: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None), writable=False)]:
    """
    Bytes [servers, rails] that server `own` puts on each rail for each server, knowing only what it owes.
    """

def rails_split_rows(demand_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], rates: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], slices: int) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]]:
    """
    Rows of rails-split, as `expand_two_tier` gives them; `slices` per rail and destination server, 0 chooses.
    """

def run_tasks(resource: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], duration_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], delay_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], priority: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], dep_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], deps: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], capacity: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)], float]:
    """
    Run a graph of tasks on resources with places: (start_s, finish_s, busy_s by resource, makespan_s).
    """

def step_makespan_s(work_s: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], seconds: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], ready_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], level: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], after_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], after: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> float:
    """
    When all tasks of a step have ended, by the work [channels, tasks] of its channels alone.
    """

def tier_slices_s(busy_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], paid_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], latency_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], ports: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], under_way: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> float:
    """Arrival of the last of slices that pass tiers one after the other."""

def check_schedule(src_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dst_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], kind: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], phase: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], stage: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], slice: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], size_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], path_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], path: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], exclusive: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], dep_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], deps: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], barriers: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], piece_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], piece_item: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], piece_offset: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], piece_length: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], item_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], contributor_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], contributors: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], destination_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], destinations: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], link_src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], link_dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], link_carries_data: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], node_multicasts: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], node_reduces: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], num_ranks: int, seed: int) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], int, Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], bool]:
    """
    Execute a schedule symbolically and list broken rules.

    Returns rule, message, rank, item, first_byte, end_byte (the first hundred findings; -1 is none), the number of all
    findings, scratch high-water marks by rank, and whether sums were followed as fingerprints.
    """

def scratch_spans(src_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dst_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], stage: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], piece_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], piece_item: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], piece_offset: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], piece_length: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], item_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], contributor_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], contributors: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], destination_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], destinations: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_ranks: int) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]]:
    """
    Where bytes wait on the way: rank, item, first_byte, end_byte, first_stage, last_stage of each span, and the
    high-water mark of each rank.
    """

@overload
def check_slot_table(table: Annotated[NDArray[numpy.uint16], dict(shape=(None, None), order='C', device='cpu', writable=False)], origin: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], destination_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], destinations: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], link_src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], link_dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_nodes: int, is_reversed: bool) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], int, int]: ...

@overload
def check_slot_table(table: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', device='cpu', writable=False)], origin: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], destination_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], destinations: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], link_src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], link_dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_nodes: int, is_reversed: bool) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], int, int]:
    """
    Check a table of chunks by slot and link. Returns rule, place in the table, node, chunk, the number of findings
    and the number of transfers.
    """

@overload
def slot_table_roots(table: Annotated[NDArray[numpy.uint16], dict(shape=(None, None), order='C', device='cpu', writable=False)], link_src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_chunks: int, num_ranks: int) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)]: ...

@overload
def slot_table_roots(table: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', device='cpu', writable=False)], link_src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_chunks: int, num_ranks: int) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)]:
    """
    The rank at which the sum of each chunk ends, if all contribute: the one that never sends it; -1 if none.
    """

def fast_rows(demand_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], servers: int, out_gpu: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], in_gpu: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], is_exclusive: bool) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]]:
    """
    Rows of FAST as published, as `expand_two_tier` gives them; `out_gpu` and `in_gpu` lead around dead NICs.
    """

def simulate_flows(capacity_bytes_per_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], is_receiving_port: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], channel_by_link: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], size_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], latency_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], overhead_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], stage: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], is_exclusive: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], path_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], path: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], deps_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], deps: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], senders_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], senders: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], barriers: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], stage_overhead_s: float, num_ordered_links: int, is_congested: bool, loss: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], tolerance: float) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], tuple[float, float, int]]:
    """
    Times of every message of a schedule: (start_s, sent_s, finish_s, wait, waited_for, bottleneck, peak_fan_in, (makespan_s, largest_idle_share, num_events)).
    """

def admit_flows(capacity_bytes_per_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], is_receiving_port: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], channel_by_link: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], size_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], latency_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], overhead_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], stage: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], is_exclusive: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], path_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], path: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], deps_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], deps: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], senders_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], senders: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], barriers: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], stage_overhead_s: float, num_ordered_links: int, is_congested: bool, loss: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], tolerance: float, level: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], tail_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], takes_turns: bool, give_up_s: float) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], float, int]:
    """
    A run in which less urgent messages stand back, level 0 first: (start_s, waiting message, the message it waited for, turn of each that holds links alone where they take turns as they are ready, makespan_s, num_events); broken off, its makespan infinite, once what is left, by tails and channels, cannot end before give_up_s.
    """

def record_rates(capacity_bytes_per_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], is_receiving_port: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], channel_by_link: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], size_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], latency_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], overhead_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], stage: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], is_exclusive: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], path_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], path: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], deps_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], deps: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], senders_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], senders: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], barriers: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], stage_overhead_s: float, num_ordered_links: int, is_congested: bool, loss: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], tolerance: float) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)]]:
    """Every change of a message's rate: (time_s, message, rate_bytes_per_s)."""

def channel_utilisation(capacity_bytes_per_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], is_receiving_port: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], channel_by_link: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], size_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], latency_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], overhead_s: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], stage: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], is_exclusive: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], path_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], path: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], deps_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], deps: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], senders_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], senders: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], barriers: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], stage_overhead_s: float, num_ordered_links: int, is_congested: bool, loss: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], tolerance: float, num_bins: int, horizon_s: float) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None), writable=False)]:
    """Part of each channel's capacity in use: [channels, num_bins]."""

def check_step_order(dep_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], deps: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], task: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], seconds: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], after_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], after: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)], bool]:
    """
    Rows that may start before a task theirs is after has ended: (row, task, earliest_s of every row, is_cyclic).
    """

def shortest_routes(num_ranks: int, num_nodes: int, link_src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], link_dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], cost: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)]]:
    """
    Offsets and link ids of the cheapest route of every pair, passing through no other rank.
    """

def decompose(matrix: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None, None), writable=False)]]:
    """
    Padded Birkhoff decomposition: weights [stages], descending, and the column of each row [stages, size].
    """

class TwoTierDecision:
    """How a demand moves between servers: decided, not written out."""

    @property
    def way(self) -> int: ...

    @property
    def pace(self) -> int: ...

    @property
    def num_stages(self) -> int: ...

    @property
    def num_rounds(self) -> int:
        """Parts of the traffic between which scratch is emptied."""

    @property
    def predicted_s(self) -> list[float]:
        """
        Seconds by way, infinite where one is impossible or was not considered.
        """

    @property
    def least_s(self) -> list[float]:
        """
        Seconds by way that one that was left out takes at least; 0 for the others.
        """

    @property
    def basis(self) -> list[int]:
        """By way, where its price comes from: 0 sums, 1 messages that were run."""

    def segments(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None), writable=False)]:
        """
        [n, 5] src_server, dst_server, stage, first_byte, bytes; none: all tiles at once.
        """

    def slice_bytes(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]:
        """[servers]"""

    @property
    def has_routes(self) -> bool:
        """Whether every pair between servers has routes of its own."""

    @property
    def is_timed(self) -> bool:
        """Whether every message holds its ports alone, in turn."""

    @property
    def may_loop(self) -> bool:
        """Whether bytes inside servers may take NICs."""

    def columns(self) -> dict[str, Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]]:
        """All that was decided, by name."""

    def rows(self, demand_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]]:
        """
        Rows of the plan: src, dst, phase, stage, slice, size_bytes, order, offsets of deps, deps, offsets of pieces, item, offset, length.
        """

    def program(self, demand_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], rank: int, input_start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, output_start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, own_from: int = 0, own_to: int = 0, own_bytes: int = 0) -> tuple[dict[str, object], tuple[int, int, int]]:
        """
        What one rank runs, as `lower_schedule` gives it, from the tiles of its server alone. Bytes for and from each rank begin at `input_start` and `output_start`, or lie end to end where those are None.
        """

    def port_loads(self, demand_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], bool]:
        """
        Bytes between servers that every rank's NIC sends and receives, and whether its partners take turns.
        """

    def scaled(self, demand_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> TwoTierDecision:
        """
        The same decisions for new traffic: shares follow it, stages are stretched to it.
        """

    def in_rounds(self, demand_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], rounds: int) -> TwoTierDecision:
        """
        Every tile in equal parts, one after the other, with a barrier between.
        """

class TwoTierNetwork:
    """A cluster as planning sees it."""

def two_tier_network(*, servers: int, nic: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], nominal_nic: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], present: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], scale_up: float, is_mesh: bool, scale_out: int, oversubscription: float, scale_up_latency_s: float, scale_out_latency_s: float, message_overhead_s: float, stage_overhead_s: float, fan_in: int, efficiency: float, losses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], reference_bytes: float, hash_radix: int, hash_uplinks: int, hash_seed: int) -> TwoTierNetwork:
    """
    Rates in bytes per second, [ranks] or of one GPU; `losses` as the fields of a fabric.
    """

def plan_two_tier(demand_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], network: TwoTierNetwork, only: int, slices: int, has_time: bool) -> TwoTierDecision:
    """Decides how to move a demand between servers."""

def direct_seconds(demand_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], network: TwoTierNetwork) -> tuple[float, float]:
    """
    Seconds of sending every pair on its own, infinite where that cannot be, and seconds that no way takes less than.
    """

def sum_tiles(demand_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], servers: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None), writable=False)]:
    """
    Bytes between servers, [servers, servers]; what a rank keeps is left out.
    """

def sampled_drift(before: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], now: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], servers: int) -> float:
    """
    Change of what the server that changed most sends, over its bytes before, from a sample.
    """

@overload
def match_rounds(link_src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], link_dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], held: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu')], holders: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], missing: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], table: Annotated[NDArray[numpy.uint16], dict(shape=(None, None), order='C', device='cpu')], candidates: int, first_round: int, seed: int, threads: int) -> int: ...

@overload
def match_rounds(link_src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], link_dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], held: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu')], holders: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], missing: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], table: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', device='cpu')], candidates: int, first_round: int, seed: int, threads: int) -> int:
    """
    Fill rows of a slot table by greedy matching, updating who holds what; returns the rows filled.
    """

@overload
def replay_slots(table: Annotated[NDArray[numpy.uint16], dict(shape=(None, None), order='C', device='cpu', writable=False)], link_src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], link_dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_nodes: int, num_chunks: int) -> int: ...

@overload
def replay_slots(table: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', device='cpu', writable=False)], link_src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], link_dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_nodes: int, num_chunks: int) -> int:
    """Slots that a table takes when every link sends as soon as it can."""

def match_randomly(link_src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], link_dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], link_ticks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], link_latency_ticks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], origin: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], wanted: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], int]:
    """
    TACOS's random matching on a time-expanded network: links, chunks, starts, makespan.
    """

def pack_trees(graph: tuple[int, int, Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]], root: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], wanted: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], mask: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], free_roots: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], passes: int, slack: float, haste: float, seed: int) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None, None), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None, None), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]]:
    """
    Trees along the cheapest arcs, so that the busiest resource is as little busy as possible: roots, arcs into each node, arcs out of each node, load of each resource.
    """

def sweep_trees(graph: tuple[int, int, Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]], root: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], free_roots: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], hop_ticks: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], passes: int, haste: float, seed: int) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None, None), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None, None), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]]:
    """
    The same for trees that span all nodes, laid quickly where nodes have many arcs.
    """

def share_trees(graph: tuple[int, int, Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]], root: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], wanted: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], mask: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], free_roots: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], hop_ticks: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], haste: float, tolerance: float, most_steps: int) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None, None), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None, None), writable=False)], float, int]:
    """
    What every root sends split over several trees, so that the busiest resource is busy no longer than it must be: demand, share and root of each tree, arcs into each node, arcs out of each node, the busiest resource's ticks, steps taken.
    """

def alike_trees(graph: tuple[int, int, Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]], roots: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: int, descending: bool) -> Annotated[NDArray[numpy.int32], dict(shape=(None, None), writable=False)]:
    """
    Arcs into each node of the fastest trees, chosen alike from every root.
    """

def eccentricities(graph: tuple[int, int, Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]], bytes: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]:
    """
    Ticks that some bytes need from each node to the farthest other one; -1 where one cannot be reached.
    """

def route_paths(graph: tuple[int, int, Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]], src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], passes: int, batch: int, haste: float, seed: int, delay_ticks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]]:
    """
    One path per demand, so that the busiest resource is as little busy as possible: offsets, arcs, load of each resource.
    """

def list_schedule(num_resources: int, resource_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], resources: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], shares: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], least_rates: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], overhead_ticks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], latency_ticks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], task_orbit: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], task_ticks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], successor_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], successors: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], lateness: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], max_merge: int, patience_ticks: int, full_ticks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], senders: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], opening_ticks: int, rounds: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], int]:
    """
    Start, end and message of each task, and the makespan; what has most left to wait for it goes first, less its lateness, then the order is refined backwards and forwards.
    """

def translations(generators: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], num_ranks: int) -> Annotated[NDArray[numpy.int32], dict(shape=(None, None), writable=False)]:
    """
    Symmetries generated by permutations, row r moving rank 0 to rank r; no rows where some rank is not reached.
    """

def grow(next: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], num_resources: int, resource_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], resources: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], orbit_ticks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], latency_ticks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], num_chunks: int, seed: int) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], int]:
    """
    One rank's share of an All-Gather that all ranks follow, moved by symmetries: routes, chunks, starts, makespan.
    """
