"""Says what any file of the field is, after reading it with the parser for its kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from interlock.errors import InvalidInput
from interlock.files import check_file, read_bytes, read_text
from interlock.interchange.chakra.read import parse_trace
from interlock.interchange.machines.recognise import import_topology
from interlock.interchange.msccl.parse import parse_msccl_xml
from interlock.interchange.mscclpp.parse import parse_mscclpp
from interlock.interchange.shared.files import MAX_FILE_BYTES
from interlock.interchange.shared.json_text import parse_json
from interlock.interchange.shared.protobuf import LENGTH_DELIMITED, fields
from interlock.schedule import is_schedule_file, read_schedule
from interlock.traffic import read_demand

__all__ = ["identify"]

SNIFFED_BYTES = 4096


def identify(path: Path) -> str:
    """One line on what a file holds.

    Raises InvalidInput where it is nothing that is known, or not well formed.
    """
    check_file(path, 1 << 40)
    if is_schedule_file(path):
        return f"Interlock schedule of {read_schedule(path).schedule.num_messages} messages"
    by_ending: dict[str, Callable[[Path], str]] = {
        ".et": _chakra,
        ".npz": _npz,
        ".pftrace": _perfetto,
        ".pt": _expert_dump,
        ".parquet": _parquet,
        ".topo": _network,
        ".yml": _network,
        ".yaml": _network,
        ".md": lambda file: "text for people",
    }
    if path.suffix in by_ending:
        return by_ending[path.suffix](path)
    with path.open("rb") as file:
        start = file.read(SNIFFED_BYTES).decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if start.startswith("<"):
        return _xml(path)
    if start.startswith(("{", "[")):
        return _json(path)
    return _text(path, start)


def _xml(path: Path) -> str:
    data = read_bytes(path, MAX_FILE_BYTES)
    if b"<algo" in data:
        program = parse_msccl_xml(path)
        return f"MSCCL algorithm for {len(program.blocks)} GPUs"
    return _network(path)


def _json(path: Path) -> str:
    value = parse_json(read_text(path, MAX_FILE_BYTES), path)
    if isinstance(value, dict) and "traceEvents" in value:
        events = value["traceEvents"]
        return f"Chrome trace of {len(events) if isinstance(events, list) else 0} events"
    if isinstance(value, dict) and "gpus" in value:
        return f"MSCCL++ plan for {len(parse_mscclpp(path).blocks)} GPUs"
    if isinstance(value, dict) and "memory-type" in value:
        return f"ASTRA-sim memory configuration ({str(value['memory-type'])[:40]})"
    if isinstance(value, dict) and "scheduling-policy" in value:
        custom = [key for key in value if key.endswith("-custom")]
        return "ASTRA-sim system configuration" + (f" with {custom[0]}" if custom else "")
    return _network(path)


def _network(path: Path) -> str:
    found = import_topology([path])
    return f"topology of {found.topology.num_ranks} ranks and {found.topology.num_links} links"


def _chakra(path: Path) -> str:
    return f"Chakra trace of {len(parse_trace(path))} nodes"


def _npz(path: Path) -> str:
    from interlock.traffic.readers import npz_names

    return f"NumPy archive of {', '.join(npz_names(path))}"


def _perfetto(path: Path) -> str:
    data = read_bytes(path, MAX_FILE_BYTES)
    packets = sum(1 for number, kind, _, _ in fields(data, 0, len(data)) if number == 1 and kind == LENGTH_DELIMITED)
    return f"Perfetto trace of {packets} packets"


def _expert_dump(path: Path) -> str:
    from interlock.interchange.routing_traces import read_expert_counts

    found = read_expert_counts(path)
    return f"expert loads of {len(found.counts)} layers ({found.source})"


def _parquet(path: Path) -> str:
    from interlock.interchange.routing_traces import read_routing_trace

    return f"routing of {read_routing_trace(path, 1, max_tokens=1 << 16).num_tokens} tokens"


def _text(path: Path, start: str) -> str:
    first = start.split("\n", 1)[0]
    if first.startswith("NPUs Count"):
        return "TACOS schedule"
    if first.startswith("heat,count"):
        table = np.loadtxt(path, delimiter=",", skiprows=1, usecols=(0, 1), dtype=np.int64, ndmin=2)
        return f"expert heat: {int(table[:, 1].sum())} samples, hottest {int(table[:, 0].max())}"
    if first.split()[:1] == ["MICRO"] or first.startswith("HYBRID_"):
        return "SimAI workload: sizes of collectives without their ranks, which no problem follows from"
    words = first.replace(",", " ").split()
    if words and all(word.isdigit() for word in words) and len(words) != 5:
        return f"byte matrix of {read_demand(path).num_ranks} ranks"
    if start.startswith(("Nodes ", "#")) and "->" in start:
        return "htsim connection matrix"
    try:
        return _network(path)
    except InvalidInput:
        raise InvalidInput(f"{path} is nothing that is known here") from None
