"""An independent executor of MSCCL XML: numbers instead of symbols, random interleavings, no code of ours.

It checks what users' validators check: steps in order, a send's places equal to its receive's, dependencies on exactly
the steps that say they are waited for, one connection per pair and channel, everything received, element counts.
"""

from __future__ import annotations

import random
import xml.etree.ElementTree as ElementTree
from collections import Counter, deque

Buffers = dict[str, list[float | None]]


class Gpu:
    def __init__(self, element: ElementTree.Element, inputs: list[float]) -> None:
        self.rank = int(element.attrib["id"])
        self.buffers: Buffers = {
            "i": list(inputs),
            "o": [None] * int(element.attrib["o_chunks"]),
            "s": [None] * int(element.attrib["s_chunks"]),
        }
        self.blocks = list(element.iter("tb"))
        assert [int(block.attrib["id"]) for block in self.blocks] == list(range(len(self.blocks)))
        self.at = [0] * len(self.blocks)
        self.done: set[tuple[int, int]] = set()


def run(text: str, seed: int) -> list[list[float | None]]:
    """Execute and return every GPU's output; input chunk k of GPU r is 1000 r + k."""
    root = ElementTree.fromstring(text)
    check_header(root)
    elements = list(root.iter("gpu"))
    gpus = [Gpu(e, [1000.0 * k + c for c in range(int(e.attrib["i_chunks"]))]) for k, e in enumerate(elements)]
    assert len(gpus) == int(root.attrib["ngpus"])
    for gpu in gpus:
        elements_kept = 1 + len(gpus) + len(gpu.blocks) + sum(len(block) for block in gpu.blocks)
        assert elements_kept <= 4096
    mail: dict[tuple[int, int, str], deque[tuple[tuple[str, ...], list[float | None]]]] = {}
    senders = [(g.rank, b.attrib["send"], b.attrib["chan"]) for g in gpus for b in g.blocks if b.attrib["send"] != "-1"]
    receivers = [
        (g.rank, b.attrib["recv"], b.attrib["chan"]) for g in gpus for b in g.blocks if b.attrib["recv"] != "-1"
    ]
    assert len(set(senders)) == len(senders) and len(set(receivers)) == len(receivers)
    order = random.Random(seed)
    active = [(gpu, block) for gpu in gpus for block in range(len(gpu.blocks))]
    while active:
        order.shuffle(active)
        moved = [pair for pair in active if advance(*pair, mail, order)]
        active = [(g, b) for g, b in active if g.at[b] < len(g.blocks[b])]
        assert moved or not active, "deadlock"
    assert not any(mail.values()), "sent but not received"
    return [gpu.buffers["o"] for gpu in gpus]


# Chunks per loop of the input and of the output, as multiples of the buffers': Azure's executor and RCCL.
EVEN = ("allreduce", "reduce", "broadcast", "alltoall")
ROOTED = ("gather", "scatter")  # their root's buffer is larger than the others use


def check_header(root: ElementTree.Element) -> None:
    """Rules that the executors' parser enforces on the algorithm and its GPUs."""
    for name in ("outofplace", "minBytes", "maxBytes", "proto", "nchannels", "nchunksperloop", "inplace"):
        assert name in root.attrib
    assert root.attrib["proto"] in ("Simple", "LL", "LL128")
    assert len(root.attrib["name"]) <= 63 and int(root.attrib["minBytes"]) <= int(root.attrib["maxBytes"])
    ranks, per_loop, channels = (int(root.attrib[key]) for key in ("ngpus", "nchunksperloop", "nchannels"))
    spread = {"allgather": (ranks, 1), "reduce_scatter": (1, ranks), "reducescatter": (1, ranks)} | dict.fromkeys(
        EVEN, (1, 1)
    )
    for gpu in root.iter("gpu"):
        if root.attrib["coll"] not in ROOTED:
            of_input, of_output = spread[root.attrib["coll"]]
            assert int(gpu.attrib["i_chunks"]) * of_input == int(gpu.attrib["o_chunks"]) * of_output == per_loop
        assert all(int(gpu.attrib[key]) < 2**15 for key in ("i_chunks", "o_chunks", "s_chunks"))
        per_channel = Counter(
            (tb.attrib["chan"], way) for tb in gpu for way in ("send", "recv") if tb.attrib[way] != "-1"
        )
        assert max(per_channel.values(), default=0) <= 32 and len(gpu) <= 216
        for tb in gpu:
            assert 0 <= int(tb.attrib["chan"]) < channels
            assert gpu.attrib["id"] not in (tb.attrib["send"], tb.attrib["recv"])
            assert all(int(step.attrib["depid"]) <= 127 for step in tb)


def advance(gpu: Gpu, number: int, mail: dict, order: random.Random) -> bool:
    """Run a random number of steps of a threadblock; whether any ran."""
    block = gpu.blocks[number]
    moved = False
    for _ in range(order.randint(1, 4)):
        if gpu.at[number] >= len(block) or not execute(gpu, number, block, list(block)[gpu.at[number]].attrib, mail):
            break
        moved = True
    return moved


def execute(gpu: Gpu, number: int, block: ElementTree.Element, step: dict[str, str], mail: dict) -> bool:
    assert int(step["s"]) == gpu.at[number] < 64
    depid, deps = int(step["depid"]), int(step["deps"])
    if depid >= 0:
        assert list(gpu.blocks[depid])[deps].attrib["hasdep"] == "1"
        if (depid, deps) not in gpu.done:
            return False
    kind, count = step["type"], int(step["cnt"])
    source, target = gpu.buffers[step["srcbuf"]], gpu.buffers[step["dstbuf"]]
    first, into = int(step["srcoff"]), int(step["dstoff"])
    if kind != "nop":
        assert 1 <= count <= 71
    if kind in ("r", "rrc"):
        box = mail.get((int(block.attrib["recv"]), gpu.rank, block.attrib["chan"]))
        if not box:
            return False
        places, data = box.popleft()
        assert len(data) == count
        if kind == "r":
            assert places == (step["srcbuf"], step["srcoff"], step["dstbuf"], step["dstoff"])
        else:
            data = [a + b for a, b in zip(data, source[first : first + count], strict=True)]
        assert None not in data
        target[into : into + count] = data
    elif kind == "s":
        places = (step["srcbuf"], step["srcoff"], step["dstbuf"], step["dstoff"])
        data = source[first : first + count]
        assert len(data) == count and None not in data
        mail.setdefault((gpu.rank, int(block.attrib["send"]), block.attrib["chan"]), deque()).append((places, data))
    elif kind == "cpy":
        data = source[first : first + count]
        assert len(data) == count and None not in data and into + count <= len(target)
        target[into : into + count] = data
    else:
        assert kind == "nop" and depid >= 0
    if step["hasdep"] == "1":
        gpu.done.add((number, gpu.at[number]))
    gpu.at[number] += 1
    return True
