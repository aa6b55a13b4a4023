"""Reads networks of simulators: ASTRA-sim's analytical YAML and JSON, SimAI's link lists, htsim's fat trees.

ASTRA-sim's "GB/s" are 2^30 bytes per second, and its first dimension varies fastest among ranks.
"""

from __future__ import annotations

import re
from pathlib import Path

from interlock.errors import InvalidInput, LimitExceeded
from interlock.files import lines_of, read_text
from interlock.interchange.machines.join import ImportedTopology, from_graph
from interlock.interchange.shared.json_text import Json, Table, parse_json
from interlock.topology import Cluster, clos, from_edges, product
from interlock.units import parse_bandwidth, parse_seconds, parse_whole

__all__ = ["read_astra_network", "read_htsim_topology", "read_simai_topology"]

MAX_BYTES = 64 * 2**20
MAX_DIMENSIONS = 8
MAX_LINKS = 2_000_000
GIB = 2**30
KIND_BY_NAME = {"ring": "ring", "fullyconnected": "full", "switch": "switch"}
# Keys of the newest form, and of the JSON that came before it.
KEYS = {
    "topology": ("topology", "topologies-per-dim"),
    "npus_count": ("npus_count", "units-count"),
    "bandwidth": ("bandwidth", "link-bandwidth"),
    "latency": ("latency", "link-latency"),
}


def read_astra_network(path: Path) -> ImportedTopology:
    """A product of dimensions; two of switches are servers on rails."""
    content = read_text(path, MAX_BYTES)
    is_json = content.lstrip().startswith("{")
    values = Table.of(parse_json(content, path), str(path)).values if is_json else _yaml(path, content)
    if "memory-type" in values or "scheduling-policy" in values:
        raise InvalidInput(f"{path} configures ASTRA-sim's system or memory; its network is in another file")
    columns = {key: _column(path, values, key) for key in KEYS}
    count = len(columns["topology"])
    if not 1 <= count <= MAX_DIMENSIONS or any(len(column) != count for column in columns.values()):
        lengths = ", ".join(f"{key} {len(column)}" for key, column in columns.items())
        raise InvalidInput(f"{path}: every list needs one entry per dimension, 1 to {MAX_DIMENSIONS}; found {lengths}")
    kinds = [_kind(path, entry) for entry in columns["topology"]]
    sizes = [int(_number(path, "npus_count", entry, 1, 65_536)) for entry in columns["npus_count"]]
    rates = [_number(path, "bandwidth", entry, 1e-6, 1e9) * GIB for entry in columns["bandwidth"]]
    latencies = [_number(path, "latency", entry, 0, 1e12) * 1e-9 for entry in columns["latency"]]
    guesses = ["ASTRA-sim's GB/s are counted as 2^30 bytes per second"]
    topology = product(
        *reversed(list(zip(kinds, sizes, strict=True))),
        bandwidth=tuple(reversed(rates)),
        latency=tuple(reversed(latencies)),
        name=path.stem[:64],
    )
    cluster = None
    if kinds in (["switch"], ["switch", "switch"]):
        cluster = Cluster(
            name=path.stem[:64],
            servers=sizes[1] if len(sizes) > 1 else 1,
            gpus_per_server=sizes[0],
            scale_up_bandwidth_bytes_per_s=rates[0],
            scale_up_latency_s=2 * latencies[0],
            scale_out="rail" if len(sizes) > 1 else "flat",
            scale_out_bandwidth_bytes_per_s=rates[-1],
            scale_out_latency_s=2 * latencies[-1],
        )
        topology = cluster.topology
    return from_graph(path.name, topology, guesses, cluster)


def _column(path: Path, values: dict[str, Json], key: str) -> list[Json]:
    for name in KEYS[key]:
        value = values.get(name)
        if value is not None:
            return value if isinstance(value, list) else [value]
    raise InvalidInput(f"{path} is no ASTRA-sim network: it lacks {key!r}")


def _kind(path: Path, entry: Json) -> str:
    name = str(entry).lower().replace("_", "").replace("-", "")
    if name not in KIND_BY_NAME:
        raise InvalidInput(f"{path}: topology {str(entry)[:40]!r} is not Ring, FullyConnected or Switch")
    return KIND_BY_NAME[name]


def _number(path: Path, key: str, entry: Json, least: float, most: float) -> float:
    try:
        value = float(str(entry)) if not isinstance(entry, bool) and len(str(entry)) < 40 else float("nan")
    except ValueError:
        value = float("nan")
    if not least <= value <= most or (key == "npus_count" and value != int(value)):
        raise InvalidInput(f"{path}: {key} {str(entry)[:40]!r} must be a number between {least:g} and {most:g}")
    return value


def _yaml(path: Path, content: str) -> dict[str, Json]:
    """The little YAML that these files use: keys with scalars, bracketed lists, or lists of dashes."""
    values: dict[str, Json] = {}
    listed: list[Json] | None = None
    for place, raw in enumerate(lines_of(content, path), 1):
        line = raw.split("#", 1)[0].rstrip()
        if not line.strip() or line.strip() == "---":
            continue
        dash = re.fullmatch(r"\s*-\s+(\S.{0,200}?)\s*", line)
        if dash and listed is not None:
            listed.append(_scalar(dash.group(1)))
            continue
        match = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_-]{0,63})\s*:\s*(.{0,4096})", line)
        if match is None:
            raise InvalidInput(f"{path}, line {place}: {line.strip()[:60]!r} is not KEY: VALUE")
        key, text = match.group(1), match.group(2).strip()
        if key in values:
            raise InvalidInput(f"{path}, line {place}: {key} is given twice")
        listed = None
        if text.startswith("["):
            if not text.endswith("]"):
                raise InvalidInput(f"{path}, line {place}: a list must end on its line")
            values[key] = [_scalar(part) for part in text[1:-1].split(",") if part.strip()]
        elif text:
            values[key] = _scalar(text)
        else:
            listed = []
            values[key] = listed
    return values


def _scalar(text: str) -> str:
    return text.strip().strip("'\"")


def read_simai_topology(path: Path) -> ImportedTopology:
    """SimAI's list of links: `nodes gpus_per_server nvswitches other_switches links TYPE`, switch ids, then links."""
    lines = [line.split() for line in lines_of(read_text(path, MAX_BYTES), path) if line.strip()]
    if len(lines) < 2 or len(lines[0]) < 5:
        raise InvalidInput(f"{path} is no SimAI topology: its first line needs at least five numbers")
    nodes, per_server, nvswitches, others, links = (
        parse_whole(word, f"{path}, line 1", 0, MAX_LINKS) for word in lines[0][:5]
    )
    switches = [parse_whole(word, f"{path}, line 2", 0, nodes - 1) for word in lines[1]]
    ranks = nodes - nvswitches - others
    if len(switches) != nvswitches + others or ranks < 1 or sorted(switches) != list(range(ranks, nodes)):
        raise InvalidInput(f"{path}: {nodes} nodes need switches {ranks} to {nodes - 1} on line 2")
    rows = lines[2:]
    if len(rows) != links or links > MAX_LINKS:
        raise LimitExceeded(f"{path} says {links} links but lists {len(rows)}")
    src, dst, rate, latency = [], [], [], []
    for place, words in enumerate(rows, 3):
        if len(words) < 4:
            raise InvalidInput(f"{path}, line {place}: a link needs two nodes, a rate and a latency")
        a, b = (parse_whole(word, f"{path}, line {place}", 0, nodes - 1) for word in words[:2])
        bandwidth = parse_bandwidth(words[2], f"{path}, line {place}: rate")
        delay = parse_seconds(words[3], f"{path}, line {place}: latency")
        src += [a, b]
        dst += [b, a]
        rate += [bandwidth, bandwidth]
        latency += [delay, delay]
    kind = lines[0][5] if len(lines[0]) > 5 else "GPUs"
    topology = from_edges(src, dst, rate, latency, num_ranks=ranks, switches=switches, name=path.stem[:64])
    return from_graph(path.name, topology, [f"{ranks} {kind[:20]} in servers of {per_server}"])


def read_htsim_topology(path: Path) -> ImportedTopology:
    """htsim's fat tree (`.topo`): hosts under leaves; the tiers above the leaves as spines."""
    header: dict[str, int] = {}
    tiers: list[dict[str, float]] = []
    for place, raw in enumerate(lines_of(read_text(path, MAX_BYTES), path), 1):
        words = raw.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) != 2:
            raise InvalidInput(f"{path}, line {place}: {raw.strip()[:60]!r} is not KEY VALUE")
        if words[0] == "Tier":
            if parse_whole(words[1], f"{path}, line {place}", 0, 2) != len(tiers):
                raise InvalidInput(f"{path}, line {place}: tiers must be numbered 0, 1, 2")
            tiers.append({})
        elif tiers:
            tiers[-1][words[0]] = float(parse_whole(words[1], f"{path}, line {place}", 0, 10**9))
        else:
            header[words[0]] = parse_whole(words[1], f"{path}, line {place}", 0, 1 << 20)
    if "Nodes" not in header or not tiers or header.get("Tiers", len(tiers)) != len(tiers):
        raise InvalidInput(f"{path} is no htsim topology: it needs Nodes, Tiers and as many sections 'Tier'")
    for tier, values in enumerate(tiers):
        for key in ("Downlink_speed_Gbps", "Radix_Down"):
            if values.get(key, 0) <= 0:
                raise InvalidInput(f"{path}: tier {tier} lacks a {key} above 0")
    hosts, per_leaf = header["Nodes"], int(tiers[0]["Radix_Down"])
    if hosts < 2 or hosts % per_leaf:
        raise InvalidInput(f"{path}: {hosts} nodes do not fill leaves of {per_leaf}")
    edge = tiers[0]["Downlink_speed_Gbps"] * 1e9 / 8
    above = tiers[1] if len(tiers) > 1 else tiers[0]
    uplinks = max(1, int(tiers[0].get("Radix_Up", 1)))
    latency = [tier.get("Downlink_Latency_ns", 0.0) * 1e-9 for tier in tiers]
    upper = above["Downlink_speed_Gbps"] * 1e9 / 8 * above.get("Bundle", 1)
    topology = clos(
        hosts // per_leaf, per_leaf, uplinks, bandwidth=(edge, upper), latency=(latency[0], sum(latency[1:]))
    )
    guesses = ["tiers above the leaves are joined into one tier of spines"] if len(tiers) > 2 else []
    return from_graph(path.name, topology, guesses)
