"""Bad input to every other command: exit 2, one line on stderr, nothing written and nothing taken away."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from interlock.cli.main import run

SMALL = ["--servers", "2", "--set", "gpus_per_server=2", "--size", "1 MB"]
SERVER = (
    '<system version="1"><cpu numaid="0"><pci busid="1" class="0x030200"><gpu dev="0" sm="90"/></pci></cpu></system>'
)
FILES: dict[str, str | bytes] = {
    "m2.txt": "0 5\n5 0\n",
    "utf16.txt": "0 1\n1 0".encode("utf-16"),
    "underscore.txt": "0 1_0\n1 0",
    "hex.txt": "0 0x10\n1 0",
    "bad.npz": b"PK\x03\x04garbage",
    "a.pt": b"no tensor",
    "a.parquet": b"PAR1xxPAR1",
    "algo.xml": "<algo/>",
    "system.xml": "<system/>",
    "open.xml": "<a",
    "latin.xml": b"<algo name='\xff'/>",
    "twice.xml": '<algo name="a" name="b"/>',
    "server.xml": SERVER,
    "object.json": "{}",
    "list.json": "[]",
    "null.json": "null",
    "huge.json": '{"name": 1e999}',
    "empty.et": b"",
    "far.csv": "NPUs Count,2\nLinks Count,1\nChunks Count,1\nChunk Size,5,B\nSrcID\n0,5,1,1,0\n",
    "far.cm": "Nodes 2\nConnections 1\n0->5 start 0 size 9\n",
    "huge.toml": "name = 'x'\nservers = 1e99\n",
    "fault.toml": "name = 'x'\nservers = 2\n[[faults]]\nkind = 'nic'\nserver = 9\ngpu = 0\n",
    "faults.toml": "name = 'x'\nservers = 2\nfaults = [1, 2]\n",
    "number.toml": "name = 3\nservers = 2\n",
    "truth.toml": "servers = true\n",
    "nan.toml": "name = 'x'\nservers = 2\nscale_out_bandwidth = nan\n",
    "dots.toml": "a." * 5000 + "b = 1",
    "nothing.toml": "",
    "open.toml": "x = [",
    "empty-axis.toml": "[grid]\nservers = []\n",
    "unknown-axis.toml": "[grid]\nservers = [1, 2]\nwarp = [9]\n",
}

COMPARE = ["--algorithms=", "--algorithms=,", "--algorithms=ring", "--html={folder}", "--html=", "--html={pipe}"]
COMPARE += ["--html={folder}/none/x.html", "--traffic=zipf:", "--traffic=:1", "--traffic=zipf:0.8:1", "--traffic=moe:x"]
COMPARE += ["--set==", "--set=name=", "--set=faults=x", "--set=fabric=", "--seed=-1", f"--seed={2**64}"]
COMPARE += [
    f"--traffic={{{name}}}" for name in ("utf16.txt", "underscore.txt", "hex.txt", "bad.npz", "a.pt", "a.parquet")
]
COMPARE += ["--traffic={pipe}", "--traffic=/dev/null"]
CLUSTERS = ["huge", "fault", "faults", "number", "truth", "nan", "dots", "nothing", "open"]
SYNTH = ["--seed=-1", f"--seed={2**64}", "--latency=-1 us", "--latency=nan", "--bandwidth=inf", "--message-overhead=x"]
SYNTH += ["--size=1 EB", "--chunks=999999999", "--algorithm=fast", "--collective=", "--html={pipe}"]
MOE = [
    ["--routing", f"{{{name}}}"] for name in ("none.npz", "m2.txt", "bad.npz", "wide.npz", "minus.npz", "halves.npz")
]
MOE += [["--routing", "{empty.npz}"], ["--routing", "{wide.npz}:y"], ["--routing", "{wide.npz}:x:9"]]
MOE += [["--layer", name] for name in ("", "huge", "small-0", "small-x")] + [["--gpus", n] for n in ("0", "-1", "7")]
MOE += [
    ["--schemes", ""],
    ["--schemes", "x"],
    ["--dispatch", "fp4"],
    ["--combine", "x"],
    ["--gemm", "x"],
    ["--seed", "-1"],
]
MOE += [["--replicas", "-1"], ["--replicas", "2"], ["--servers", "2"]]
STEP = [["--model", "x"], ["--algorithms", "x"], ["--skew", "nan"], ["--servers", "0"], ["--layer", "small-8"]]
ACROSS = [["--tokens", "-1"], ["--token-bytes", "x"], ["--experts", "0"], ["--top-k", "99"], ["--algorithm", "x"]]
ACROSS += [["--routing", "{wide.npz}", "--tokens", "4"], ["--routing", "{bad.npz}"]]
FOREIGN = ["algo.xml", "system.xml", "open.xml", "latin.xml", "twice.xml", "object.json", "list.json", "null.json"]
FOREIGN += ["huge.json", "empty.et", "far.csv", "far.cm", "m2.txt", "pipe", "folder", "none.xml"]
VERIFY = [["--demand", "{m2.txt}"], ["--collective", "all-gather"], ["--format", "x"], ["--format", "msccl-xml"]]
VERIFY += [["--root", "-1"], ["--chunk-bytes", "0"], ["--demand", "{m2.txt}", "--collective", "all-gather"]]
SIMULATE = [["--tolerance", "-1"], ["--tolerance", "nan"], ["--trace", "{folder}"], ["--trace", "{pipe}"]]
SIMULATE += [["--gantt", "{folder}"], ["--cluster", "h100"], ["--servers", "9"], ["--set", "x"]]
EXPORT = [
    ["x", "{new}"],
    ["tacos-csv", "{new}"],
    ["msccl-xml", "{folder}"],
    ["msccl-xml", "{pipe}"],
    ["htsim", "{pipe}"],
]
EXPORT += [["msccl-xml", "{folder}/none/x.xml"], ["chakra", "{folder}"], ["chakra", "{plan.ilk}"], ["chakra", "{pipe}"]]
EXPORT += [["mscclpp-json", "{new}", "--chunk-bytes", "3 B"], ["htsim", "{new}", "--chunk-bytes", "5 B"]]
IMPORT = [["{server.xml}", "--servers", n] for n in ("0", "-1", "99999999")]
IMPORT += [["{server.xml}", "-o", "{folder}/x.txt"], ["{server.xml}", "-o", "{folder}/none/x.toml"], []]

CASES: list[list[str]] = [["compare", *SMALL, word] for word in COMPARE]
CASES += [["compare", "--size", "1 MB", "--cluster", f"{{{name}.toml}}"] for name in CLUSTERS]
CASES += [["synth", "--topology", "ring:4", "--collective", "all-gather", "--size", "1 MB", word] for word in SYNTH]
CASES += [["moe", "layer", *words] for words in MOE]
CASES += [["moe", "step", *words] for words in STEP]
CASES += [["moe", "across", *words] for words in ACROSS]
CASES += [["moe", "plan", *words] for words in (["--hidden", "0"], ["--ffn", "-3"], ["--chunks", "0"], ["-o", "x.txt"])]
CASES += [["sweep", f"{{{name}}}", "-o", "{new}"] for name in ("open.toml", "empty-axis.toml")]
CASES += [["sweep", f"{{{name}}}", "-o", "{new}"] for name in ("unknown-axis.toml", "none.toml", "folder", "plan.ilk")]
CASES += [[command, f"{{{name}}}"] for name in FOREIGN for command in ("verify", "import-topology")]
CASES += [["verify", "{plan.ilk}", *words] for words in VERIFY]
CASES += [["verify", f"{{{name}}}"] for name in ("longer.ilk", "shorter.ilk", "flipped.ilk")]
CASES += [["simulate", "{plan.ilk}", *words] for words in SIMULATE]
CASES += [["export", "{plan.ilk}", "-o", words[1], "--to", words[0], *words[2:]] for words in EXPORT]
CASES += [["import-topology", *words] for words in IMPORT]
CASES += [["plan", *SMALL, "-o", target] for target in ("{folder}", "{pipe}", "{plan.ilk}/x.ilk", "")]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of hostile files, a sound plan and broken copies of it, and a pipe."""
    root = tmp_path_factory.mktemp("hostile")
    for name, text in FILES.items():
        (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    np.savez(root / "wide.npz", x=np.full((2, 10, 6), 200, np.uint8))
    np.savez(root / "minus.npz", x=np.full((2, 10, 6), -1, np.int64))
    np.savez(root / "halves.npz", x=np.full((2, 10, 6), 0.5))
    np.savez(root / "empty.npz", x=np.ones((2, 0, 6), np.int64))
    assert run(["plan", *SMALL, "--algorithm", "direct", "-o", str(root / "plan.ilk")]) == 0
    sound = (root / "plan.ilk").read_bytes()
    (root / "longer.ilk").write_bytes(sound + b"\0" * 1000)
    (root / "shorter.ilk").write_bytes(sound[:-9])
    (root / "flipped.ilk").write_bytes(sound[:200] + bytes((sound[200] ^ 255,)) + sound[201:])
    (root / "folder").mkdir()
    (root / "folder" / "mine.txt").write_text("keep")
    os.mkfifo(root / "pipe")
    return root


def contents(root: Path) -> dict[str, int]:
    """Every path and its kind."""
    return {str(path.relative_to(root)): path.lstat().st_mode for path in root.rglob("*")}


@pytest.mark.parametrize("words", CASES, ids=lambda words: " ".join(words)[:70])
def test_it_is_refused_in_one_line_and_nothing_changes(
    words: list[str], places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(places)
    filled = [word.replace("{", f"{places}/").replace("}", "") for word in words]

    code = run(filled)

    shown = capsys.readouterr().err.strip()
    assert code == 2, shown
    assert len(shown.splitlines()) == 1 and shown.startswith("interlock: "), shown
    assert contents(places) == before
