"""FAST in NumPy, step by step over whole columns: what the native core must come to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock._native import _core
from interlock.algorithms.detours import through_live_nics
from interlock.algorithms.no_stage import balance
from interlock.algorithms.two_tier import Bytes, dependencies, group, local_batch
from interlock.problem import Problem
from interlock.schedule import Batch, Phase, Schedule, assemble
from interlock.topology import Cluster

FIRST_STAGE = 1  # stage 0 is balance


@dataclass(frozen=True, slots=True)
class Stages:
    """What each tile sends in each stage, one row per (tile, stage) with bytes, tile by tile and stage by stage."""

    src_server: NDArray[np.int64]
    dst_server: NDArray[np.int64]
    stage: NDArray[np.int64]
    until_bytes: NDArray[np.int64]  # of the tile, once this stage is over


def fast_by_columns(problem: Problem) -> Schedule:
    """Two-tier All-to-All: balance inside servers, then permute between them."""
    assert problem.cluster is not None
    width = problem.cluster.gpus_per_server
    local, far = local_batch(problem, stage=FIRST_STAGE)  # the local part runs beside the first stage
    if len(far) == 0:
        return assemble([local])
    tiles = server_demand(far, problem.cluster.servers, width)  # [servers, servers]
    shares, carrier = balance(far, width)  # phase 1: every GPU holds an equal share of each tile
    stages = one_to_one_stages(tiles)  # phase 2: one permutation of servers each
    parts, carrier, stage = cut_into_stages(shares, carrier, stages, width)
    # Where the NICs of a server share a link, none may claim it: a barrier keeps stages apart there.
    shares_links = problem.cluster.scale_out == "flat" and problem.cluster.oversubscription > 1.0
    return pipeline(problem.cluster, local, parts, carrier, stage, shares_links)  # phase 3 behind the next stage


def server_demand(far: Bytes, servers: int, width: int) -> NDArray[np.int64]:
    """Sum rank-to-rank bytes into ``[servers, servers]``."""
    tiles = np.zeros((servers, servers), np.int64)
    np.add.at(tiles, (far.src // width, far.dst // width), far.length)
    return tiles


def one_to_one_stages(tiles: NDArray[np.int64]) -> Stages:
    """Pad with virtual traffic, decompose into permutations, largest first; virtual traffic is never sent."""
    weight, partner = _core.decompose(tiles)
    stage, src_server = (axis.reshape(-1) for axis in np.indices(partner.shape))
    dst_server = partner.reshape(-1).astype(np.int64)
    order = np.lexsort((stage, dst_server, src_server))
    stage, src_server, dst_server = stage[order], src_server[order], dst_server[order]
    first = np.ones(len(stage), np.bool_)
    first[1:] = (src_server[1:] != src_server[:-1]) | (dst_server[1:] != dst_server[:-1])
    running = np.cumsum(weight[stage])
    until = running - np.maximum.accumulate(np.where(first, running - weight[stage], 0))
    real = np.minimum(until, tiles[src_server, dst_server])
    before = np.where(first, 0, np.concatenate([[0], real[:-1]]))
    sends = real > before
    return Stages(src_server[sends], dst_server[sends], stage[sends], real[sends])


def cut_into_stages(
    shares: Bytes, carrier: NDArray[np.int32], stages: Stages, width: int
) -> tuple[Bytes, NDArray[np.int32], NDArray[np.int64]]:
    """Cut each GPU's share of each tile where stages end, destination GPUs in index order: parts, carriers, stages."""
    order = np.lexsort((shares.src, shares.dst, carrier % width, shares.dst // width, carrier // width))
    shares, carrier = shares.where(order), carrier[order]
    # Lay all shares end to end, in the order (tile, GPU): stages cut that line, and so do the ends of items.
    gpu = np.tile(np.arange(width), len(stages.stage))
    tile = stages.src_server * 2**20 + stages.dst_server
    tile_of_cut, stage_of_cut = np.repeat(tile, width), np.repeat(stages.stage, width)
    until = np.repeat(stages.until_bytes, width)
    until = until // width + (gpu < until % width)  # of this GPU's share
    by_line = np.lexsort((stage_of_cut, gpu, tile_of_cut))
    until, stage_of_cut = until[by_line], stage_of_cut[by_line]
    lane = tile_of_cut[by_line] * width + gpu[by_line]
    ends_lane = np.append(lane[1:] != lane[:-1], True)
    lane_bytes = np.where(ends_lane, until, 0)
    cut = np.cumsum(lane_bytes) - lane_bytes + until
    row_ends = np.cumsum(shares.length)
    ends = np.union1d(row_ends, cut)
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    ends, starts = ends[ends > starts], starts[ends > starts]
    row = np.searchsorted(row_ends, starts, side="right")
    parts = Bytes(
        shares.item[row],
        shares.offset[row] + starts - (row_ends - shares.length)[row],
        ends - starts,
        shares.src[row],
        shares.dst[row],
    )
    stage = stage_of_cut[np.searchsorted(cut, starts, side="right")]
    return parts, carrier[row], FIRST_STAGE + stage


def pipeline(
    cluster: Cluster,
    local: Batch,
    parts: Bytes,
    carrier: NDArray[np.int32],
    stage: NDArray[np.int64],
    shares_links: bool,
) -> Schedule:
    """Balance before a barrier; then stage k + 1 on the NICs while stage k is redistributed."""
    width = cluster.gpus_per_server
    landing = (parts.dst // width * width + carrier % width).astype(np.int32)
    carrier, landing = through_live_nics(cluster, carrier, landing)
    helped, misplaced = carrier != parts.src, landing != parts.dst
    moved, landed = parts.where(helped), parts.where(misplaced)
    hop = group(moved, moved.src, carrier[helped])  # for all destinations together
    wire = group(parts, carrier, landing, stage)
    fan = group(landed, landing[misplaced], landed.dst, stage[misplaced])
    first_wire = len(local) + len(hop)
    wire_deps = dependencies(wire.message[helped], hop.message, len(wire))
    fan_deps = dependencies(fan.message, first_wire + wire.message[misplaced], len(fan))
    wire_src, wire_dst, wire_stage = wire.keys.astype(np.int32).T.copy()
    fan_src, fan_dst, fan_stage = fan.keys.astype(np.int32).T.copy()
    # A NIC carries one stage at a time, in order; redistribution belongs to the stage that it runs beside.
    # Around dead NICs one may have several messages of a stage: these follow each other.
    order = None if shares_links else wire.keys[:, 2] * len(wire) + np.arange(len(wire))
    barriers = np.unique(wire_stage).tolist() if shares_links else [FIRST_STAGE]
    return assemble(
        [
            hop.to_batch(Phase.BALANCE),
            local,
            Batch(
                wire_src,
                wire_dst,
                wire.pieces,
                Phase.SCALE_OUT,
                wire_stage,
                order=order,
                deps=wire_deps,
            ),
            Batch(fan_src, fan_dst, fan.pieces, Phase.REDISTRIBUTE, fan_stage + np.int32(1), deps=fan_deps),
        ],
        barriers=barriers,
    )
