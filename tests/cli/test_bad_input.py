"""Bad input on the command line: exit 2, one line on stderr that names what is wrong, nothing written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from interlock.cli.main import run

# (words after the command, what the line must say); {file:NAME} is a file of FILES.
FILES: dict[str, str | bytes] = {
    "negative.txt": "0 -5\n3 0",
    "nan.txt": "0 nan\n3 0",
    "infinite.txt": "0 inf\n3 0",
    "float.txt": "0 1.5\n3 0",
    "exponent.txt": "0 1e3\n3 0",
    "words.txt": "zero one\ntwo three",
    "wide.txt": "0 1 2\n3 0 1",
    "ragged.txt": "0 1\n3",
    "overflow.txt": "0 9300000000000000000\n1 0",
    "sum.txt": "0 4000000000000000000\n4000000000000000000 0",
    "giant.txt": "0 " + "9" * 400 + "\n1 0",
    "empty.txt": "",
    "blank.txt": "\n\n  \n",
    "small.txt": "0 1\n1 0",
    "binary.txt": bytes(range(256)),
    "nul.txt": b"0 1\x00\n1 0",
    "hello.ilk": "hello",
    "zeros.ilk": b"\0" * 4096,
    "magic.ilk": b"ILK\x00\x01\r\n\x1a",
    "long-header.ilk": b"ILK\x00\x01\r\n\x1a" + (2**62).to_bytes(8, "little") + b"\0" * 100,
    "bad.toml": "servers = [",
    "list.toml": "[[cluster]]\nx = 1",
    "unknown.toml": "name = 'x'\nservers = 2\nwarp = 9",
    "words.toml": "name = 'x'\nservers = 'two'",
    "zero.toml": "name = 'x'\nservers = 0",
    "links.csv": "src,dst,bandwidth\n0,1,fast\n",
    "headless.csv": "0,1,5\n",
    "loop.csv": "src,dst,bandwidth\n0,0,1e9\n",
    "negative.csv": "src,dst,bandwidth\n0,-1,1e9\n",
    "empty.csv": "",
}

PLAN: list[tuple[list[str], str]] = [
    (["--traffic", "{negative.txt}"], "-5"),
    (["--traffic", "{nan.txt}"], "nan"),
    (["--traffic", "{infinite.txt}"], "inf"),
    (["--traffic", "{float.txt}"], "1.5"),
    (["--traffic", "{exponent.txt}"], "1e3"),
    (["--traffic", "{words.txt}"], "zero"),
    (["--traffic", "{wide.txt}"], "square"),
    (["--traffic", "{ragged.txt}"], ""),
    (["--traffic", "{overflow.txt}"], ""),
    (["--traffic", "{sum.txt}"], "2^62"),
    (["--traffic", "{giant.txt}"], ""),
    (["--traffic", "{empty.txt}"], "empty"),
    (["--traffic", "{blank.txt}"], "empty"),
    (["--traffic", "{small.txt}"], "2 ranks"),
    (["--traffic", "{binary.txt}"], ""),
    (["--traffic", "{nul.txt}"], ""),
    (["--traffic", "no-such-file.txt"], "no-such-file.txt"),
    (["--traffic", "{folder}"], ""),
    (["--traffic", "zpif"], "zipf"),
    (["--traffic", "zipf:steep"], "steep"),
    (["--traffic", "zipf:-1"], "-1"),
    (["--traffic", "zipf:nan"], "nan"),
    (["--traffic", "zipf:1e9"], ""),
    (["--traffic", "sparse:2"], "2"),
    (["--traffic", "uniform:3"], "uniform"),
    (["--traffic", ""], ""),
    (["--cluster", "h2000"], "did you mean"),
    (["--cluster", ""], ""),
    (["--cluster", "no-such.toml"], "no-such.toml"),
    (["--cluster", "{bad.toml}"], "bad.toml"),
    (["--cluster", "{list.toml}"], ""),
    (["--cluster", "{unknown.toml}"], "warp"),
    (["--cluster", "{words.toml}"], "two"),
    (["--cluster", "{zero.toml}"], "servers"),
    (["--cluster", "{folder}"], ""),
    (["--algorithm", "fsat"], "fsat"),
    (["--algorithm", ""], ""),
    (["--algorithm", "ring"], "ring"),
    (["--size", "12 parsecs"], "parsecs"),
    (["--size", "-1 MB"], "-1 MB"),
    (["--size", "nan"], "nan"),
    (["--size", "1e300 B"], ""),
    (["--size", "1.5 B"], "whole"),
    (["--size", ""], ""),
    (["--size", "900 PB"], "2^62"),
    (["--servers", "0"], "servers=0"),
    (["--servers", "-3"], "servers=-3"),
    (["--servers", "100000"], "100000"),
    (["--servers", "two"], "--servers"),
    (["--servers", "1.5"], "--servers"),
    (["--seed", "-1"], "seed=-1"),
    (["--seed", "x"], "--seed"),
    (["--set", "scale_out_bandwidth=0 Gb/s"], "between 1 and"),
    (["--set", "scale_out_bandwidth=-1 Gb/s"], "between 1 and"),
    (["--set", "scale_out_bandwidth=nan"], "nan"),
    (["--set", "scale_out_bandwidth=fast"], "fast"),
    (["--set", "scale_up_bandwidth=1e30 GB/s"], ""),
    (["--set", "scale_out_latency=-1 us"], ""),
    (["--set", "scale_out_latency=1 parsec"], "parsec"),
    (["--set", "stage_overhead=forever"], "forever"),
    (["--set", "scale_sideways=1"], "scale_sideways"),
    (["--set", "scale_out_bandwith=400 Gb/s"], "scale_out_bandwidth"),
    (["--set", "gpus_per_server"], "FIELD=VALUE"),
    (["--set", "gpus_per_server=0"], "gpus_per_server=0"),
    (["--set", "gpus_per_server=eight"], "eight"),
    (["--set", "gpus_per_server=100000"], "100000"),
    (["--set", "nics_per_gpu=0"], "nics_per_gpu=0"),
    (["--set", "fan_in=0"], "fan_in=0"),
    (["--set", "fan_in=-2"], "-2"),
    (["--set", "fan_in=some"], "some"),
    (["--set", "scale_out=star"], "star"),
    (["--set", "scale_up=star"], "star"),
    (["--set", "oversubscription=0.5"], "0.5"),
    (["--set", "oversubscription=lots"], "lots"),
    (["--set", "multicasts=maybe"], "maybe"),
    (["--set", "="], ""),
    (["--bogus"], "--bogus"),
    (["stray"], "stray"),
]

SYNTH: list[tuple[list[str], str]] = [
    (["--topology", "klein-bottle:4", "--collective", "all-gather"], "klein-bottle"),
    (["--topology", "torus:0x4", "--collective", "all-gather"], ""),
    (["--topology", "torus:-1x4", "--collective", "all-gather"], ""),
    (["--topology", "torus:4xx4", "--collective", "all-gather"], ""),
    (["--topology", "torus:", "--collective", "all-gather"], ""),
    (["--topology", "torus:99999x99999", "--collective", "all-gather"], ""),
    (["--topology", "torus:1x1", "--collective", "all-gather"], ""),
    (["--topology", "torus:4x4", "--collective", "all-sing"], "all-sing"),
    (["--topology", "torus:4x4", "--collective", "all-gathr"], "all-gather"),
    (["--topology", "torus:4x4"], "--collective"),
    (["--collective", "all-gather"], "--topology"),
    (["--topology", "torus:4x4", "--collective", "all-gather", "--size", "-1"], "-1"),
    (["--topology", "torus:4x4", "--collective", "all-gather", "--chunks", "0"], "chunks=0"),
    (["--topology", "torus:4x4", "--collective", "all-gather", "--chunks", "x"], "--chunks"),
    (["--topology", "torus:4x4", "--collective", "all-gather", "--bandwidth", "0 GB/s"], "between 1 and"),
    (["--topology", "torus:4x4", "--collective", "all-gather", "--algorithm", "tacoz"], "tacoz"),
    (["--topology", "torus:4x4", "--collective", "all-gather", "--algorithm", "pxn"], "pxn"),
    (["--topology", "no-such.csv", "--collective", "all-gather"], "no-such.csv"),
    (["--topology", "{links.csv}", "--collective", "all-gather"], "fast"),
    (["--topology", "{headless.csv}", "--collective", "all-gather"], ""),
    (["--topology", "{loop.csv}", "--collective", "all-gather"], ""),
    (["--topology", "{negative.csv}", "--collective", "all-gather"], "-1"),
    (["--topology", "{empty.csv}", "--collective", "all-gather"], ""),
]

VERIFY: list[tuple[list[str], str]] = [
    (["{hello.ilk}"], ""),
    (["{zeros.ilk}"], ""),
    (["{magic.ilk}"], ""),
    (["{long-header.ilk}"], ""),
    (["{empty.txt}"], ""),
    (["{folder}"], ""),
    (["no-such.ilk"], "no-such.ilk"),
    ([], ""),
]

CASES = (
    [("plan", *case) for case in PLAN] + [("synth", *case) for case in SYNTH] + [("verify", *case) for case in VERIFY]
)


@pytest.mark.parametrize(("command", "words", "says"), CASES, ids=[f"{c} {' '.join(w)}"[:60] for c, w, _ in CASES])
def test_bad_input_is_refused_in_one_line(
    command: str, words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    filled = [str(tmp_path) if w == "{folder}" else str(tmp_path / w[1:-1]) if w.startswith("{") else w for w in words]
    out = tmp_path / "out.ilk"
    extra = ["-o", str(out)] if command in ("plan", "synth") else []

    code = run([command, *filled, *extra])

    shown = capsys.readouterr().err.strip()
    assert code == 2, shown
    assert len(shown.splitlines()) == 1 and shown.startswith("interlock: ")
    assert says in shown
    assert not out.exists() and not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("words", [["frobnicate"], ["--frobnicate"], ["compare", "--algorithms", "direct,fsat"]])
def test_unknown_words_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_matrix_of_objects_is_never_unpickled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "x.npz", demand=np.array([[{}, {}]], dtype=object))
    assert run(["plan", "--traffic", str(tmp_path / "x.npz"), "-o", str(tmp_path / "o.ilk")]) == 2
    assert not (tmp_path / "o.ilk").exists()


def test_a_plan_is_written_only_as_ilk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--servers", "2", "--algorithm", "direct", "-o", str(tmp_path / "plan.json")]) == 2
    assert "export" in capsys.readouterr().err and list(tmp_path.iterdir()) == []
