"""An independent executor of MSCCL++ plans: numbers instead of symbols, random interleavings, no code of ours."""

from __future__ import annotations

import json
import random
from collections import defaultdict

LIMIT_OPERATIONS, LIMIT_CHANNELS, LIMIT_PER_OPERATION = 64, 16, 8


class Machine:
    def __init__(self, text: str) -> None:
        plan = json.loads(text)
        self.gpus = plan["gpus"]
        self.memory = []
        self.channels: list[dict[str, list]] = []
        for rank, gpu in enumerate(self.gpus):
            assert gpu["id"] == rank and gpu["input_chunks"] > 0 and gpu["output_chunks"] > 0
            self.memory.append(
                {
                    "i": [1000.0 * rank + k for k in range(gpu["input_chunks"])],
                    "o": [None] * gpu["output_chunks"],
                    "s": [None] * gpu["scratch_chunks"],
                }
            )
            self.channels.append(self._channels(rank, gpu))
        self.signals: dict[tuple, int] = defaultdict(int)
        self.semaphores = [[s["init_value"] for s in gpu["semaphores"]] for gpu in self.gpus]
        self.blocks = [(r, b) for r, gpu in enumerate(self.gpus) for b in gpu["threadblocks"]]
        for rank, block in self.blocks:
            self._check(rank, block)

    def _channels(self, rank: int, gpu: dict) -> dict[str, list]:
        made: dict[str, list] = {"memory": [], "port": [], "switch": []}
        seen: dict[tuple[str, int], int] = defaultdict(int)
        for entry in gpu["channels"]:
            kind = entry["channel_type"]
            if kind == "switch":
                made[kind] += [(entry["buffer_type"], group["ranks"], group["size"]) for group in entry["rank_groups"]]
                continue
            for peer in entry["connected_to"]:
                made[kind].append((peer, (kind, min(rank, peer), max(rank, peer), seen[kind, peer])))
                seen[kind, peer] += 1
        return made

    def _check(self, rank: int, block: dict) -> None:
        assert len(block["ops"]) <= LIMIT_OPERATIONS
        for entry in block["channels"]:
            assert len(entry["channel_ids"]) <= LIMIT_CHANNELS
        for entry in block["remote_buffer_refs"]:
            assert len(entry["remote_buffer_ids"]) <= LIMIT_CHANNELS
        written = waited = False  # a nop must part data of all threads from signals and waits of one
        for op in block["ops"]:
            assert len(op.get("channel_ids", [])) <= LIMIT_PER_OPERATION
            name = op["name"]
            if name in ("signal", "sem_release"):
                assert not written, "signalled before all threads were done"
            if name in ("put", "copy", "re", "gstore", "glres", "pws"):
                assert not waited, "used before all threads had waited"
            written = name in ("put", "copy", "re", "gstore", "glres") or (written and name != "nop")
            waited = name in ("wait", "sem_acquire", "rlxwait") or (waited and name != "nop")

    def run(self, seed: int) -> list[list[float | None]]:
        """Execute in a random order; every GPU's output."""
        order = random.Random(seed)
        at = [0] * len(self.blocks)
        active = list(range(len(self.blocks)))
        while active:
            order.shuffle(active)
            moved = False
            for k in active:
                rank, block = self.blocks[k]
                for _ in range(order.randint(1, 3)):
                    if at[k] == len(block["ops"]) or not self._execute(rank, block, block["ops"][at[k]]):
                        break
                    at[k] += 1
                    moved = True
            active = [k for k in active if at[k] < len(self.blocks[k][1]["ops"])]
            assert moved or not active, "deadlock"
        return [memory["o"] for memory in self.memory]

    def _channel(self, rank: int, block: dict, kind: str, number: int) -> tuple:
        ids = next(entry["channel_ids"] for entry in block["channels"] if entry["channel_type"] == kind)
        return self.channels[rank][kind][ids[number]]

    def _place(self, rank: int, block: dict, op: dict, buffer: dict) -> tuple[list[int], str, int, int]:
        if "switch_channel_id" in buffer:
            kind, ranks, reach = self._channel(rank, block, "switch", buffer["switch_channel_id"])
            assert buffer["index"] + buffer["size"] <= reach  # older executors bind no more than that to the switch
            return ranks, kind, buffer["index"], buffer["size"]
        if "buffer_id" in buffer:
            kind = op["channel_type"]
            refs = next(r["remote_buffer_ids"] for r in block["remote_buffer_refs"] if r["access_channel_type"] == kind)
            remote = self.gpus[rank]["remote_buffers"][refs[buffer["buffer_id"]]]
            assert kind in remote["access_channel_types"]
            return [remote["rank"]], remote["type"], buffer["index"], buffer["size"]
        return [rank], buffer["type"], buffer["index"], buffer["size"]

    def _load(self, rank: int, block: dict, op: dict, buffer: dict) -> list[float]:
        ranks, kind, first, size = self._place(rank, block, op, buffer)
        columns = [self.memory[r][kind][first : first + size] for r in ranks]
        assert all(len(column) == size and None not in column for column in columns)
        return [sum(values) for values in zip(*columns, strict=True)]

    def _store(self, rank: int, block: dict, op: dict, buffer: dict, data: list[float]) -> None:
        ranks, kind, first, size = self._place(rank, block, op, buffer)
        assert len(data) == size
        for r in ranks:
            assert first + size <= len(self.memory[r][kind])
            self.memory[r][kind][first : first + size] = data

    def _execute(self, rank: int, block: dict, op: dict) -> bool:
        name = op["name"]
        ends = [self._channel(rank, block, op["channel_type"], n) for n in op.get("channel_ids", [])]
        if name in ("wait", "rlxwait"):
            if any(self.signals[pair, rank] == 0 for _, pair in ends):
                return False
            for _, pair in ends:
                self.signals[pair, rank] -= 1
        elif name == "sem_acquire":
            if any(self.semaphores[rank][n] == 0 for n in op["semaphore_ids"]):
                return False
            for n in op["semaphore_ids"]:
                self.semaphores[rank][n] -= 1
        elif name == "sem_release":
            for n in op["semaphore_ids"]:
                self.semaphores[rank][n] += 1
        elif name in ("put", "pws", "copy", "gstore", "glres"):
            self._store(rank, block, op, op["dst_buff"][0], self._load(rank, block, op, op["src_buff"][0]))
        elif name == "re":
            parts = [self._load(rank, block, op, buffer) for buffer in op["src_buff"]]
            self._store(rank, block, op, op["dst_buff"][0], [sum(values) for values in zip(*parts, strict=True)])
        else:
            assert name in ("nop", "signal", "rlxsignal", "flush")
        if name in ("signal", "rlxsignal", "pws"):
            for peer, pair in ends:
                self.signals[pair, peer] += 1
        return True
