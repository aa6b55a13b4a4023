"""The work list of a device: the programs of ranks as copies, sums and flags, in an order that cannot get stuck.

Sends put bytes straight into the receiver's memory and raise a flag there; receives wait for that flag. What each rank
waits for is a flag in its own memory. One list holds the work of all ranks of a process: of all ranks of the plan
(virtual ranks), or of a single one whose peers are other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interlock.errors import InvalidInput
from interlock.gpu.rows import Columns, Flags, Ints, Landing, ints, rank_rows
from interlock.ragged import Ragged, ranges

__all__ = ["CHUNK", "CHUNK_BYTES", "WAIT", "WorkList", "landings", "make_work"]

CHUNK_BYTES = 32 * 1024  # that one warp moves at a time: enough loads in flight, and parts for all warps of a device
IN_FLIGHT_BYTES = 64 << 20  # what the warps of a large device have in their hands at once: some 2,000 chunks

# As the kernel reads them (`kernels/executor.cu`).
CHUNK = np.dtype(
    [
        ("source", np.int64),
        ("target", np.int64),
        ("bytes", np.int32),
        ("first_wait", np.int32),
        ("end_wait", np.int32),
        ("signal", np.int32),
        ("arrival", np.int32),
        ("rank", np.int16),
        ("arrival_rank", np.int16),
        ("source_space", np.int16),
        ("target_space", np.int16),
        ("kind", np.int32),
    ],
    align=True,
)
WAIT = np.dtype([("flag", np.int32), ("needed", np.uint32)])


@dataclass(frozen=True, slots=True, eq=False)
class WorkList:
    """Chunks and what they wait for."""

    chunks: NDArray[np.void]  # of CHUNK
    waits: NDArray[np.void]  # of WAIT
    step: Ints  # [chunks] step of the rank's program; -1 where there is none
    flags_by_rank: Mapping[int, Flags]
    columns_by_rank: Mapping[int, Columns]

    def describe(self, chunk: int, flag: int) -> str:
        """What a chunk does and what it waits for, in words."""
        row = self.chunks[chunk]
        rank, step = int(row["rank"]), int(self.step[chunk])
        flags, columns = self.flags_by_rank[rank], self.columns_by_rank[rank]
        if 0 <= step < flags.num_sends:
            what = f"message {columns['send_tag'][step]} from rank {rank} to rank {columns['send_peer'][step]}"
        elif flags.num_sends <= step < flags.num_sends + flags.num_receives:
            place = step - flags.num_sends
            what = f"message {columns['receive_tag'][place]} from rank {columns['receive_peer'][place]} to rank {rank}"
        else:
            what = f"rank {rank}"
        return f"{what} waited for {flags.describe(flag, columns)}"


def landings(columns_by_rank: Sequence[Columns]) -> list[Landing]:
    """Where the sends of every rank land: (sender, receiver, tag) names a message in the programs of both."""
    by_rank = []
    receives = [_keys(columns["receive_peer"], columns["receive_tag"]) for columns in columns_by_rank]
    orders = [np.argsort(keys, kind="stable") for keys in receives]
    for rank, columns in enumerate(columns_by_rank):
        peer, tag = ints(columns["send_peer"]), ints(columns["send_tag"])
        buffer, start, flag = np.zeros((3, len(peer)), np.int64)
        for other in np.unique(peer).tolist():
            mine = np.flatnonzero(peer == other)
            wanted = _keys(np.full(len(mine), rank), tag[mine])
            order, keys = orders[other], receives[other][orders[other]]
            found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            if len(keys) == 0 or (keys[found] != wanted).any():
                raise InvalidInput(f"rank {rank} sends to rank {other}, which does not expect it")
            place = order[found]
            buffer[mine] = ints(columns_by_rank[other]["receive_buffer"])[place]
            start[mine] = ints(columns_by_rank[other]["receive_start"])[place]
            flag[mine] = len(columns_by_rank) + place  # see `Flags.arrived`
        by_rank.append(Landing(buffer, start, flag))
    return by_rank


def make_work(
    columns_by_rank: Mapping[int, Columns],
    landing_by_rank: Mapping[int, Landing],
    num_ranks: int,
    *,
    chunk_bytes: int = CHUNK_BYTES,
) -> WorkList:
    """The work of the given ranks: of all of them, or of one among other processes, which meets its peers first."""
    meets = len(columns_by_rank) < num_ranks
    parts = [
        rank_rows(rank, columns, landing_by_rank[rank], num_ranks, meets=meets)
        for rank, columns in columns_by_rank.items()
    ]
    rows = np.concatenate([part.rows for part in parts])
    counts = np.concatenate([part.waits.counts for part in parts])
    flag = np.concatenate([part.waits.values for part in parts])
    waits = Ragged.from_counts(counts, flag)
    flags_by_rank = {rank: part.flags for rank, part in zip(columns_by_rank, parts, strict=True)}
    num_chunks = np.maximum(1, -(-rows["bytes"] // chunk_bytes))
    base = np.zeros(num_ranks + 1, np.int64)
    base[1:] = np.cumsum([len(flags_by_rank[rank]) if rank in flags_by_rank else 0 for rank in range(num_ranks)])
    needed = _needed(columns_by_rank, flags_by_rank, base, rows, num_chunks, chunk_bytes)
    global_flag = base[rows["rank"]][waits.row_of_value] + flag
    row = np.repeat(np.arange(len(rows)), num_chunks)
    part_of_row = ranges(0, num_chunks)
    if meets:
        # Programs of others are unknown here, but a message waits for none of its round or a later one, on any rank.
        # With sends before receives in every round, the first message that is not done can go on.
        order = np.lexsort((part_of_row, row, rows["place"][row]))
    else:
        turn = _turns(rows, Ragged(waits.offsets, global_flag.astype(np.int32)), base)
        order = np.lexsort((part_of_row, turn[row]))
    row, part_of_row = row[order], part_of_row[order]
    chunks = np.zeros(len(row), CHUNK)
    for name in ("signal", "arrival", "rank", "arrival_rank", "source_space", "target_space", "kind"):
        chunks[name] = rows[name][row]
    offset = part_of_row * chunk_bytes
    chunks["source"], chunks["target"] = rows["source"][row] + offset, rows["target"][row] + offset
    chunks["bytes"] = np.minimum(chunk_bytes, rows["bytes"][row] - offset)
    chunks["first_wait"], chunks["end_wait"] = waits.offsets[row], waits.offsets[row + 1]
    made_waits = np.zeros(len(flag), WAIT)
    made_waits["flag"], made_waits["needed"] = flag, needed[global_flag]
    return WorkList(
        chunks=chunks,
        waits=made_waits,
        step=rows["step"][row],
        flags_by_rank=flags_by_rank,
        columns_by_rank=columns_by_rank,
    )


def _needed(
    columns_by_rank: Mapping[int, Columns],
    flags_by_rank: Mapping[int, Flags],
    base: Ints,
    rows: NDArray[np.void],
    num_chunks: Ints,
    chunk_bytes: int,
) -> NDArray[np.uint32]:
    """Signals that each flag gets in one launch. What arrives is counted from its size, as its sender cuts it."""
    needed = np.zeros(int(base[-1]), np.int64)
    local = rows["signal"] >= 0
    np.add.at(needed, base[rows["rank"][local]] + rows["signal"][local], num_chunks[local])
    for rank, columns in columns_by_rank.items():
        flags, first = flags_by_rank[rank], int(base[rank])
        arrived = first + flags.arrived + np.arange(flags.num_receives)
        needed[arrived] = np.maximum(1, -(-ints(columns["receive_bytes"]) // chunk_bytes))
        needed[first + flags.ready : first + flags.arrived] = 1
    return needed.astype(np.uint32)


def _turns(rows: NDArray[np.void], waits: Ragged, base: Ints) -> Ints:
    """The place of each row in a list in which nothing waits for a later row.

    The list is filled as a device would take it, `IN_FLIGHT_BYTES` at a time of what can go on; what the longest chains
    wait for goes first, so that they do not end alone.
    """
    num_flags = int(base[-1])
    signaller = np.concatenate([np.flatnonzero(rows["signal"] >= 0), np.flatnonzero(rows["arrival"] >= 0)])
    signals, arrives = rows[rows["signal"] >= 0], rows[rows["arrival"] >= 0]
    raised = np.concatenate(
        [base[signals["rank"]] + signals["signal"], base[arrives["arrival_rank"]] + arrives["arrival"]]
    )
    raises = Ragged.grouped(signaller, raised, len(rows))
    waiters = Ragged.grouped(waits.values, waits.row_of_value, num_flags)
    signals_left = np.bincount(raised, minlength=num_flags)

    def take_in_rounds(choose: Callable[[Ints], NDArray[np.bool_]]) -> list[Ints]:
        """Rows in rounds, each of rows whose flags are up after the rounds before; `choose` may put some off."""
        left, waits_left = signals_left.copy(), waits.counts.copy()
        ready, rounds = np.flatnonzero(waits_left == 0), []
        while len(ready):
            chosen = choose(ready)
            rounds.append(ready[chosen])
            up, times = np.unique(raises.take(rounds[-1]).values, return_counts=True)
            left[up] -= times
            freed, times = np.unique(waiters.take(up[left[up] == 0]).values, return_counts=True)
            waits_left[freed] -= times
            ready = np.concatenate([ready[~chosen], freed[waits_left[freed] == 0]])
        return rounds

    levels = take_in_rounds(lambda ready: np.ones(len(ready), np.bool_))
    if sum(map(len, levels)) < len(rows):
        raise InvalidInput("the programs wait for each other in a circle")
    chain = np.zeros(len(rows), np.int64)  # rows that must go one after the other from each row on
    chain_of_flag = np.zeros(num_flags, np.int64)
    for level in reversed(levels):
        after = raises.take(level)
        np.maximum.at(chain, level[after.row_of_value], chain_of_flag[after.values])
        chain[level] += 1
        before = waits.take(level)
        np.maximum.at(chain_of_flag, before.values, chain[level][before.row_of_value])

    def choose(ready: Ints) -> NDArray[np.bool_]:
        order = np.lexsort((ready, -chain[ready]))
        chosen = np.zeros(len(ready), np.bool_)
        before = np.cumsum(rows["bytes"][ready[order]]) - rows["bytes"][ready[order]]
        chosen[order[before < IN_FLIGHT_BYTES]] = True
        return chosen

    turn = np.empty(len(rows), np.int64)
    taken = [np.sort(rows_taken) for rows_taken in take_in_rounds(choose)]
    turn[np.concatenate([*taken, np.zeros(0, np.int64)])] = np.arange(len(rows))
    return turn


def _keys(peer: NDArray[np.generic], tag: NDArray[np.generic]) -> Ints:
    keys: Ints = (ints(peer) << 32) | ints(tag)
    return keys
