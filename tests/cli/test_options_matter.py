"""No option is ignored: in every use of every command, each option changes what comes out or is refused.

`USES` has the ways in which a command can be used; every option that a way does not name is tried on it alone. A new
command or option fails here until it has a use or a value.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from interlock.cli.main import app, run
from steps.cases import DISPATCH_TOML

TWO = ["--servers", "2"]
TINY = [*TWO, "--set", "gpus_per_server=2"]
RING = ["--topology", "ring:4"]

USES: dict[str, list[list[str]]] = {
    "compare": [
        [*TINY, "--size", "1 MB", "--algorithms", "direct,adaptive"],
        [*TINY, "--traffic", "{4.txt}", "--algorithms", "direct,auto"],
        [*TINY, "--collective", "all-gather", "--size", "1 MB", "--algorithms", "ring,tiers"],
        [*TINY, "--collective", "all-gather", "--sizes", "1KiB:4KiB", "--algorithms", "ring"],
        [*RING, "--collective", "broadcast", "--size", "1 MB", "--algorithms", "ring,guided"],
        [*RING, "--size", "1 MB", "--algorithms", "guided"],
    ],
    "plan": [
        [*TINY, "--size", "1 MB"],
        [*TINY, "--size", "1 MB", "--algorithm", "direct"],
        [*TINY, "--size", "1 MB", "--algorithm", "adaptive"],
        [*TINY, "--traffic", "{4.txt}", "--algorithm", "fast"],
        ["--cluster", "{cluster.toml}", "--size", "1 MB"],
    ],
    "synth": [
        [*RING, "--collective", "all-gather", "--size", "1 MB", "--algorithm", "ring"],
        [*RING, "--collective", "all-gather", "--size", "1 MB"],
        [*RING, "--collective", "broadcast", "--size", "1 MB"],
        [*RING, "--collective", "all-to-allv", "--traffic", "zipf:0.8", "--size", "1 MB"],
        [*RING, "--collective", "all-to-allv", "--traffic", "{4.txt}"],
        ["--topology", "{edges.csv}", "--collective", "all-gather", "--size", "1 MB"],
    ],
    "verify": [["{plan.ilk}"], ["{plan.xml}"], ["{gather.xml}"], ["{plan.cm}", "--demand", "{4.txt}"]],
    "simulate": [["{plan.ilk}"], ["{plan.xml}"], ["{gather.xml}"], ["{gather.xml}", "--cluster", "h100", *TINY]],
    "export": [
        ["{plan.ilk}", "--to", "msccl-xml", "-o", "{new}"],
        ["{plan.ilk}", "--to", "htsim", "-o", "{new}"],
        ["{gather.xml}", "--to", "mscclpp-json", "-o", "{new}"],
    ],
    "import-topology": [["{server.xml}"], ["{silent.xml}"]],
    "sweep": [["{grid.toml}", "--workers", "1"]],
    "step": [["{step.toml}"], []],
    "reproduce": [["dysharp", "--quick"]],
    "algorithms": [[]],
    "presets": [[]],
    "fabrics": [[]],
    "doctor": [[]],
    "moe layer": [
        ["--layer", "small-8", "--gpus", "4", "--schemes", "deepep"],
        ["--routing", "{routing.npz}", "--gpus", "4", "--schemes", "deepep"],
        ["--layer", "small-8", "--gpus", "4", "--schemes", "deepep", "--gemm", "paper"],
    ],
    "moe step": [[*TINY, "--algorithms", "direct"], ["--cluster", "{cluster.toml}", "--algorithms", "direct"]],
    "moe across": [[*TINY, "--tokens", "16"], [*TINY, "--routing", "{routing.npz}"]],
    "moe plan": [[*TINY, "--tokens", "16"], [*TINY, "--routing", "{routing.npz}", "--algorithms", "serial,joint"]],
    "topology show": [["ring:4"], ["{edges.csv}"], ["h200:2"]],
}
LAB = ("lab run", "lab step", "lab calibrate", "lab up", "lab down", "lab list")  # below

VALUES: dict[str, str] = {
    "--algorithm": "direct",
    "--algorithms": "direct",
    "--align": "4096",
    "--backward": "",
    "--bandwidth": "7 GB/s",
    "--baseline": "direct",
    "--chunk-bytes": "64 KiB",
    "--chunks": "3",
    "--cluster": "mi300x-100g",
    "--collective": "reduce-scatter",
    "--combine": "fp8",
    "--csv": "",
    "--dask": "tcp://127.0.0.1:1",
    "--demand": "{4.txt}",
    "--dispatch": "fp8",
    "--effort": "simulate",
    "--experts": "32",
    "--fault": "dead-nic:0:1",
    "--ffn": "512",
    "--flavor": "azure",
    "--format": "ilk",
    "--gantt": "{new}",
    "--gemm": "paper",
    "--gpu": "",
    "--gpus": "8",
    "--group": "0,1",
    "--hidden": "512",
    "--html": "{new}",
    "--json": "",
    "--latency": "3 us",
    "--layer": "small-16",
    "--message-overhead": "3 us",
    "--model": "deepseek-v3",
    "--nic": "100 Gb/s",
    "--notes": "",
    "--overlap": "",
    "--picture": "{new}",
    "--quick": "",
    "--read-chunk-bytes": "64 KiB",
    "--replicas": "1",
    "--root": "1",
    "--routing": "{routing.npz}",
    "--schemes": "inswitch",
    "--seed": "5",
    "--servers": "3",
    "--set": "scale_out_bandwidth=9 GB/s",
    "--size": "3 MB",
    "--sizes": "1KiB:2KiB",
    "--skew": "1.1",
    "--table": "{new}",
    "--to": "htsim",
    "--token-bytes": "512 B",
    "--tokens": "64",
    "--tolerance": "0.05",
    "--top-k": "2",
    "--topology": "ring:4",
    "--trace": "{new}",
    "--traffic": "uniform",
    "--without-link": "0-1",
    "--workers": "2",
    "-o": "{new}",
}
# What can be said and changes nothing, and why that is right.
MAY_DO_NOTHING: dict[str | tuple[str, str], str] = {
    "--seed": "of whatever is drawn at random, which may be nothing",
    "--format": "what is recognised anyhow",
    ("--tolerance", "simulate"): "an upper limit of the error, which may be none",
    ("--gpu", "doctor"): "there may be none",
    ("--flavor", "export"): "which reader the file is for; readers may agree",
}


def commands(group: Any = None, name: str = "") -> Iterator[tuple[str, Any]]:
    for word, command in (typer.main.get_command(app) if group is None else group).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} {word}".strip())
        else:
            yield f"{name} {word}".strip(), command


SERVER = """<system version="1"><cpu numaid="0">
<pci busid="1" class="0x030200"><gpu dev="0"%s/></pci>
<pci busid="2" class="0x020000"><nic><net name="n0"%s/></nic></pci></cpu></system>"""
FILES = {
    "4.txt": "\n".join(" ".join("0" if a == b else str(50_000 * (1 + a + 3 * b)) for b in range(4)) for a in range(4)),
    "cluster.toml": 'preset = "h200"\nservers = 2\ngpus_per_server = 2\n',
    "edges.csv": "src,dst,bandwidth,latency,message_overhead\n"
    + "".join(f"{a},{(a + d) % 4},5 GB/s,1 us,1 us\n" for a in range(4) for d in (1, 3)),
    "grid.toml": 'algorithms = ["direct"]\nsizes = ["1 MB"]\n'
    'clusters = [{preset = "h200", servers = 2, gpus_per_server = 2}]',
    "step.toml": DISPATCH_TOML,
    "server.xml": SERVER % (' sm="90"', ' speed="400000"'),
    "silent.xml": SERVER % ("", ""),
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every file that a use names."""
    root = tmp_path_factory.mktemp("places")
    for name, text in FILES.items():
        (root / name).write_text(text)
    np.savez(
        root / "routing.npz", x=np.argsort(np.random.default_rng(0).random((2, 64, 16)), -1)[..., :6].astype(np.uint8)
    )
    plan, gather = str(root / "plan.ilk"), str(root / "gather.ilk")
    assert run(["plan", *TINY, "--traffic", str(root / "4.txt"), "--algorithm", "direct", "-o", plan]) == 0
    assert (
        run(["synth", *RING, "--collective", "all-gather", "--algorithm", "ring", "--size", "1 MB", "-o", gather]) == 0
    )
    for file, form, to in (
        (plan, "msccl-xml", "plan.xml"),
        (plan, "htsim", "plan.cm"),
        (gather, "msccl-xml", "gather.xml"),
    ):
        assert run(["export", file, "--to", form, "-o", str(root / to)]) == 0
    return root


COMMANDS = dict(commands())
OPTIONS = {
    name: [min(p.opts, key=len) for p in command.params if p.opts[0].startswith("-") and p.opts[0] != "--help"]
    for name, command in COMMANDS.items()
}


def test_every_command_and_every_option_is_tried() -> None:
    assert set(COMMANDS) == {*USES, *LAB}
    asked = {option for name in USES for option in OPTIONS[name]}
    assert asked == set(VALUES)


CASES = [(name, use, option) for name, uses in USES.items() for use in uses for option in OPTIONS[name]]
ENDINGS = {"--html": "html", "--gantt": "html", "--picture": "svg", "--trace": "json", "--table": "table"}
ENDING_OF_OUTPUT = {"import-topology": "toml", "topology show": "csv"}
BESIDE = {
    "import-topology": {"--gpu": "a100"},
    "step": {"--algorithms": "serial"},
    "sweep": {"--dask": "tcp://127.0.0.1:1"},
}


@dataclass(frozen=True)
class Outcome:
    """What a command left behind, without how long it took."""

    code: int
    said: str
    files: dict[str, bytes]


@pytest.fixture(scope="module")
def outcome(places: Path) -> Callable[[list[str], str, pytest.CaptureFixture[str]], Outcome]:
    """Runs words, each only once."""
    known: dict[str, Outcome] = {}

    def run_once(words: list[str], ending: str, capsys: pytest.CaptureFixture[str]) -> Outcome:
        new = places / f"new.{ending}"
        filled = [word.replace("{new}", str(new)).replace("{", f"{places}/").replace("}", "") for word in words]
        if (key := str(filled)) not in known:
            shutil.rmtree(places / "grid.sweep", ignore_errors=True)
            before = set(places.iterdir())
            code = run(filled)
            told = capsys.readouterr()
            assert code != 2 or (len(told.err.splitlines()) == 1 and told.err.startswith("interlock: ")), told.err
            said = re.sub(r'"(plan_s|planning_s)": [^,}]+', "", told.out)
            made = [path for path in places.iterdir() if path not in before]
            files = {path.name: path.read_bytes() if path.is_file() else b"" for path in made}
            for path in made:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            known[key] = Outcome(code, said, files)
        return known[key]

    return run_once


@pytest.fixture(autouse=True)
def one_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reproducing takes minutes; what its options do is seen from two claims."""
    from interlock.report import reproduce_dysharp
    from interlock.report.claims import Claim, Status

    def claims(quick: bool) -> list[Claim]:
        return [Claim("dysharp", f"quick {quick}", "1", 1.0, "x", Status.REPRODUCED, note="a note")]

    monkeypatch.setattr(reproduce_dysharp, "claims", claims)


@pytest.mark.parametrize(("name", "use", "option"), CASES, ids=lambda each: str(each))
def test_an_option_changes_what_comes_out_or_is_refused(
    name: str, use: list[str], option: str, outcome: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    if option in use and option != "--set":
        return
    ending = ENDINGS.get(option) or ENDING_OF_OUTPUT.get(name, "sweep" if name == "sweep" else "ilk")
    value = BESIDE.get(name, {}).get(option, VALUES[option])
    form = [] if option in ("--json", "--csv", "--notes") else ["--json"]  # tables round
    plain = outcome([*name.split(), *use, *form], ending, capsys)
    assert plain.code in (0, 3), plain.said
    changed = outcome([*name.split(), *use, *form, option, *([value] if value else [])], ending, capsys)
    if (option, name) in MAY_DO_NOTHING or option in MAY_DO_NOTHING:
        assert changed.code in (plain.code, 2)
    else:
        assert changed.code == 2 or changed != plain


NAMED = ["--servers=2", "--gpus=2", "--nic=10Mbit", "--scale-up=90Mbit", "--nic-of=1=0", "--port-queue=1MB"]


@pytest.mark.torch
@pytest.mark.parametrize("option", NAMED)
@pytest.mark.parametrize("command", ["run", "step", "calibrate"])
def test_a_lab_that_is_up_cannot_be_made_otherwise(
    command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    if option.partition("=")[0] not in OPTIONS[f"lab {command}"]:
        return
    assert run(["lab", command, "--name", "mine", option]) == 2
    said = f"interlock: {option.partition('=')[0]} has no effect here: the lab mine is as `lab up` made it"
    assert capsys.readouterr().err.strip() == said


@pytest.mark.torch
@pytest.mark.parametrize("option", ["--traffic=uniform", "--html=new.html", "--seed=3"])
def test_a_collective_in_the_lab_has_no_traffic(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert run(["lab", "run", "--collective", "all-reduce", option]) == 2
    assert f"{option.partition('=')[0]} has no effect here" in capsys.readouterr().err
