"""Three programs read MSCCL XML, and each refuses other files: what to write for each, and what each would refuse.

Read in their sources; docs/reference/formats.md has the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from interlock.errors import InvalidInput, nearest
from interlock.interchange.msccl import limits
from interlock.units import whole_or_none

__all__ = ["FLAVORS", "Flavor", "Header", "get_flavor", "refusals"]

NO_LIMIT = 2**62  # bytes; for readers to whom 0 is a size


@dataclass(frozen=True, slots=True)
class Flavor:
    """One reader of MSCCL XML."""

    name: str
    reader: str
    names: Mapping[str, str]  # our name of a collective -> value of `coll`; what is not in it cannot be called there
    required: tuple[str, ...]  # attributes of <algo> without which the file is ignored
    max_steps: int  # per threadblock
    max_threadblocks: int  # per GPU
    includes_max_bytes: bool  # `maxBytes` itself is in the range, and 0 is no limit; otherwise neither

    def sizes(self, exact_bytes: int | None) -> tuple[int, int]:
        """`minBytes` and `maxBytes` of a file for one size, or for any."""
        if exact_bytes is None:
            return 0, 0 if self.includes_max_bytes else NO_LIMIT
        return exact_bytes, exact_bytes + (not self.includes_max_bytes)


_CALLED = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "broadcast", "reduce")
_EXECUTORS = {kind: kind.replace("-", "") for kind in _CALLED} | {"all-to-allv": "allreduce"}
_SIZES = ("outofplace", "minBytes", "maxBytes")
FLAVORS = {
    made.name: made
    for made in (
        Flavor(
            "rccl",
            "RCCL",
            _EXECUTORS | {"gather": "gather", "scatter": "scatter"},
            _SIZES,
            limits.MAX_STEPS_WRITTEN,
            limits.MAX_THREADBLOCKS,
            includes_max_bytes=True,
        ),
        Flavor(
            "azure",
            "Azure's msccl-executor-nccl",
            _EXECUTORS,
            _SIZES,
            limits.MAX_STEPS_WRITTEN,
            limits.MAX_THREADBLOCKS,
            includes_max_bytes=True,
        ),
        Flavor(
            "msccl",
            "microsoft/msccl",
            _EXECUTORS | {"reduce-scatter": "reduce_scatter"},
            (),
            limits.MAX_STEPS,
            limits.MAX_THREADBLOCKS_MSCCL,
            includes_max_bytes=False,
        ),
    )
}


def get_flavor(name: str) -> Flavor:
    """The flavor of that name."""
    if name not in FLAVORS:
        raise InvalidInput(f"unknown flavor {name!r} of MSCCL XML; {nearest(name, FLAVORS)}")
    return FLAVORS[name]


@dataclass(frozen=True, slots=True)
class Header:
    """What a reader looks at before it runs anything."""

    attributes: Mapping[str, str]  # of <algo>
    longest_block: int  # steps
    most_blocks: int  # of a GPU
    buffer_chunks: tuple[tuple[int, int], ...]  # input and output chunks of each GPU


def refusals(flavor: Flavor, header: Header) -> list[str]:
    """Why a reader would refuse a file or never choose it; empty if it would not."""
    found = []
    attributes = header.attributes
    absent = [name for name in flavor.required if name not in attributes]
    if absent:
        found.append(f"lacks {', '.join(absent)}")
    name = attributes.get("coll", "")
    known = {*flavor.names.values(), *(() if flavor.includes_max_bytes else ("custom",))}
    if name not in known:
        found.append(f"coll={name!r} is not one of {', '.join(sorted(known))}")
    least, most = (_whole(attributes.get(key), absent) for key, absent in (("minBytes", 0), ("maxBytes", 2**27)))
    if most and least > most:
        found.append(f"minBytes={least} is above maxBytes={most}")
    elif not flavor.includes_max_bytes and least >= most:
        found.append(f"no size is at least minBytes={least} and below maxBytes={most}")
    if header.longest_block > flavor.max_steps:
        found.append(f"a threadblock has {header.longest_block} steps; at most {flavor.max_steps} are read")
    if header.most_blocks > flavor.max_threadblocks:
        found.append(f"a GPU has {header.most_blocks} threadblocks; at most {flavor.max_threadblocks} are read")
    if not flavor.includes_max_bytes:
        found += _buffers(name, _whole(attributes.get("nchunksperloop"), 0), header)
    return found


def _buffers(name: str, per_loop: int, header: Header) -> list[str]:
    """microsoft/msccl holds the buffers of every GPU against nchunksperloop."""
    ranks = len(header.buffer_chunks)
    times_in = ranks if name == "allgather" else 1
    times_out = ranks if name == "reduce_scatter" else 1
    for gpu, (inputs, outputs) in enumerate(header.buffer_chunks):
        for what, chunks, times in (("i_chunks", inputs, times_in), ("o_chunks", outputs, times_out)):
            if chunks * times != per_loop:
                return [f"gpu {gpu}: {what}={chunks} times {times} is not nchunksperloop={per_loop}"]
    return []


def _whole(text: str | None, absent: int) -> int:
    number = None if text is None else whole_or_none(text)
    return absent if number is None else number
