"""Bad files of clusters, graphs, demand and routing: one sentence that names the file, the place and the rule."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import interlock as il
from interlock.errors import InvalidInput

T, D = il.topology, il.traffic
SMALL = il.cluster("h200", servers=2, gpus_per_server=2)


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def zipped(name: str, data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return file.getvalue()


def header_only(shape: str, dtype: str = "<i8") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


LINKS = 'links = {src = [0, 1], dst = [1, 0], bandwidth = "1 GB/s"}\n'

# File name (its ending chooses the reader), its content, what the error must say.
FILES: list[tuple[str, str | bytes, str]] = [
    ("a.txt", "0 -5\n3 0", "demand[0, 1]=-5 is negative"),
    ("a.txt", "0 1\n3 nan", "line 2, column 2: 'nan' is not a whole number"),
    ("a.txt", "0 1.0\n3 0", "line 1, column 2: '1.0' is not a whole number"),
    ("a.txt", "0 0x10\n3 0", "line 1, column 2: '0x10'"),
    ("a.txt", "0 1 2\n3 0 1", "shape (2, 3); it must be square"),
    ("a.txt", "0 1\n3", "line 2 has 1 cells but the first has 2"),
    ("a.txt", "0 9300000000000000000\n1 0", "line 1, column 2: 9300000000000000000 is beyond 2^62"),
    ("a.txt", "0 " + "9" * 5000 + "\n1 0", "is beyond 2^62"),
    ("a.txt", "", "is empty; a matrix"),
    ("a.txt", "# nothing\n\n", "is empty; a matrix"),
    ("a.txt", "0,,1\n1,0,1\n1,1,0", "line 1, column 2: '' is not a whole number"),
    ("a.csv", "rank,bytes\n0,1", "line 1, column 1: 'rank' is not a whole number"),
    ("a.txt", b"\xff\xfe0 1", "byte 0 is not UTF-8 text"),
    ("a.txt", b"0 1\x00\n1 0", "byte 3 is NUL"),
    ("a.npz", b"", "is not an npz file"),
    ("a.npz", b"PK\x03\x04 truncated", "is not an npz file"),
    ("a.npz", npz(demand=np.array([[0.5]])), "float64; bytes must be whole numbers"),
    ("a.npz", npz(demand=np.array([["x"]])), "only numbers are read"),
    ("a.npz", npz(x=np.eye(2, dtype=int), y=np.eye(2, dtype=int)), "has no array named demand"),
    ("a.npz", zipped("demand.npy", b"not numpy"), "demand"),
    ("a.npz", zipped("demand.npy", header_only("(100000, 100000)")), "at most 67108864 entries"),
    ("a.npz", zipped("demand.npy", header_only("(4, 4)")), "truncated or malformed"),
    ("a.npz", zipped("demand.npy", header_only("(2, 2)", "|O")), "only numbers are read"),
    ("a.npz", zipped("readme.txt", b"hello"), "it holds none"),
    ("c.toml", "servers = [", "is not TOML"),
    ("c.toml", "servers = 2\nservers = 3", "is not TOML"),
    ("c.toml", "x = " + "[" * 100_000, "is not TOML: nested too deeply"),
    ("c.toml", "servers = " + "9" * 5000, "more than 1000 digits in a row"),
    ("c.toml", "name = 'x'", "servers is missing"),
    ("c.toml", "servers = 'two'", "servers='two' must be a whole number"),
    ("c.toml", "servers = 2\nserver = 3", "unknown key 'server'; did you mean 'servers'?"),
    ("c.toml", "servers = 2\npreset = 'h20'", "unknown cluster preset 'h20'"),
    ("c.toml", "servers = 2\npreset = 7", "preset=7 must be a word"),
    ("c.toml", "servers = 2\nscale_out_bandwidth = '0 Gb/s'", "scale_out_bandwidth='0 Gb/s' must be between 1 and"),
    ("c.toml", "servers = 2\nscale_out_bandwidth = nan", "scale_out_bandwidth=nan must be finite"),
    ("c.toml", "servers = 2\nscale_up_latency = 2020-01-01", "scale_up_latency="),
    ("c.toml", "servers = 2\nfabric = 3", "fabric must be a table, not int"),
    ("c.toml", "servers = 2\n[fabric]\nfanin = 3", "unknown key 'fanin'; did you mean 'fan_in'?"),
    ("c.toml", "servers = 2\n[fabric]\nfan_in = 0", "fan_in=0"),
    ("c.toml", "servers = 2\n[fabric]\nname = 3", "fabric.name=3 must be a word"),
    ("c.toml", "servers = 2\nfaults = 3", "faults must be a list"),
    ("c.toml", "servers = 2\nfaults = [3]", "faults[0] must be a table"),
    (
        "c.toml",
        "servers = 2\n[[faults]]\nkind = 'slow-nik'",
        "kind='slow-nik' is not a fault; did you mean 'slow-nic'?",
    ),
    ("c.toml", "servers = 2\n[[faults]]\nkind = 'dead-nic'\nserver = 1", "faults[0]: gpu is missing"),
    ("c.toml", "servers = 2\n[[faults]]\nkind = 'dead-nic'\nserver = 1\ngpu = 'x'", "gpu='x'"),
    ("c.toml", "servers = 2\n[[faults]]\nkind = 'dead-nic'\nserver = 5\ngpu = 0", "server=5 must be below 2"),
    ("c.toml", "servers = 2\nnic_rates = [['1 Gb/s', 3, true]]", "nic_rates[0][2]=True"),
    ("t.toml", LINKS + "num_ranks = 9.5", "num_ranks=9.5 must be a whole number"),
    ("t.toml", "num_ranks = 2", "links.src is missing"),
    ("t.toml", "links = 3", "links must be a table"),
    ("t.toml", "links = {src = [0], dst = [1]}", "links.bandwidth is missing"),
    ("t.toml", "links = {src = [0], dst = [1], bandwith = 1}", "unknown key 'bandwith'; did you mean 'bandwidth'?"),
    ("t.toml", "links = {src = ['a'], dst = [1], bandwidth = 1}", "src must be a flat list of whole numbers"),
    ("t.toml", "links = {src = [0], dst = [1], bandwidth = -1}", "bandwidth=-1 must be between 1 and"),
    ("t.toml", LINKS + "nics = [0]", "nics names node 0"),
    ("t.toml", LINKS + "multicasts = [true]", "multicasts names node True"),
    ("t.toml", LINKS + "reduces = 5", "reduces must be a list of nodes"),
    ("t.toml", LINKS + "stage_overhead = '1 mile'", "unknown unit 'mile'"),
    ("t.toml", LINKS + "symmetries = [[0]]", "symmetries must be lists of 2 nodes"),
    ("t.toml", LINKS + "symmetries = [[0, 7]]", "symmetries must name nodes between 0 and 1"),
    ("t.toml", LINKS + "symmetries = [[0, 0]]", "symmetries[0] is not a permutation"),
    ("t.toml", LINKS + "name = 5", "name='5' must be a word"),
    ("t.toml", "shape = 'torus:0x4'", "every dimension must be a whole number"),
    ("t.toml", "shape = 7", "shape='7' must be SHAPE:DIMS"),
    ("t.toml", "shape = 'a.csv'", "shape='a.csv' must be SHAPE:DIMS"),
    ("t.toml", "shape = 'torus:4x4'\nbandwidth = {a = 1}", "bandwidth={'a': 1} must be a quantity"),
    ("t.toml", "shape = 'torus:4x4'\nbandwidht = 1", "unknown key 'bandwidht'; did you mean 'bandwidth'?"),
    ("t.csv", "", "the file is empty"),
    ("t.csv", "src,dst\n0,1", "no column for bandwidth"),
    ("t.csv", "src,dst,bandwidth,speed\n0,1,1,1", "unknown column 'speed'"),
    ("t.csv", "src,dst,bandwidth,gb_per_s\n0,1,1,1", "the header names bandwidth twice"),
    ("t.csv", "src,dst,bandwidth\n0,1", "line 2 has 2 cells; the header has 3"),
    ("t.csv", "src,dst,bandwidth\n0,one,1e9", "line 2: dst='one' must be a whole number"),
    ("t.csv", "src,dst,bandwidth\n\n0,1,zero", "line 3: bandwidth='zero'"),
    ("t.csv", "src,dst,gb_per_s\n0,1,-4", "line 2: bandwidth='-4 GB/s' must be between 1 and"),
    ("t.csv", "src,dst,bandwidth,latency_us\n0,1,1e9,inf", "line 2: latency='inf us'"),
    ("t.csv", "src,dst,bandwidth\n0,1,1e9\n2,2,1e9", "node 2 has a link to itself"),
    ("t.csv", "src,dst,bandwidth\n0,99999999999,1e9", "line 2: dst='99999999999'"),
    ("t.csv", 'src,dst,bandwidth\n0,1,"1e9\n', "this is not CSV"),
    ("t.csv", '"src","dst","band\nwidth"\n0,1,1e9', "a quoted cell runs over several lines"),
    ("t.csv", "# num_ranks = all\nsrc,dst,bandwidth\n0,1,1e9", "num_ranks = all must be a whole number"),
    ("t.csv", "# num_ranks = 0\nsrc,dst,bandwidth\n0,1,1e9", "num_ranks=0"),
    ("r.npz", npz(experts=np.array([[0.5]])), "expert ids are whole numbers"),
    ("r.npz", npz(experts=np.array([[-1]])), "expert ids must be between 0"),
    ("r.npz", npz(experts=np.array([[1, 1]])), "token 0 names an expert twice"),
    ("r.npz", npz(experts=np.zeros((1, 0), int)), "expert ids are whole numbers"),
    ("r.npz", npz(a=np.array([[0]]), b=np.array([[0]])), "has no array named experts"),
    ("r.npz", npz(experts=np.array([[0]]), weights=np.array([[1]])), "gate weights must match (1, 1)"),
    ("l.txt", "5 -4", "layer 0, expert 1: -4 must be at least 0"),
    ("l.txt", "5 x", "line 1, column 2: 'x'"),
    ("l.npz", npz(loads=np.array([0.5])), "loads are whole numbers"),
]

READERS: dict[str, Callable[[Path], object]] = {
    "a": lambda path: D.parse(str(path), SMALL),
    "c": T.read_cluster,
    "t": lambda path: T.parse_topology(str(path)),
    "r": lambda path: D.read_routing(path, num_ranks=1),
    "l": D.read_expert_loads,
}


@pytest.mark.parametrize(("name", "content", "says"), FILES, ids=[f"{n}-{s[:40]}" for n, _, s in FILES])
def test_bad_files_are_refused(name: str, content: str | bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(InvalidInput) as caught:
        READERS[name[0]](file)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 700
    assert str(caught.value).startswith(str(file))
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a.txt", "a.npz", "c.toml", "t.toml", "t.csv", "r.npz", "l.txt"])
def test_folders_and_missing_files_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist or is not a file"):
        READERS[name[0]](tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(InvalidInput, match="is a folder; a file is needed"):
        READERS[name[0]](tmp_path / name)


def test_huge_files_are_refused_unread(tmp_path: Path) -> None:
    for name, limit in (("a.txt", 1 << 29), ("c.toml", 1 << 22), ("t.csv", 1 << 26), ("a.npz", 1 << 32)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(limit + 1)  # a hole: no disk is used
        with pytest.raises(InvalidInput, match=f"has {limit + 1} bytes; at most {limit} are read"):
            READERS[name[0]](tmp_path / name)
