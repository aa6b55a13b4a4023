"""In a real terminal: tables fit any width, Ctrl-C ends every command."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import pytest

from interlock.cli.show import table_lines
from steps.cases import DISPATCH_TOML

BARS = "comparing|simulating|planning:|reproducing"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
UNITS = r"(?:s|ms|us|ns)"
SMALL = ["--servers", "2", "--size", "1 MB"]
STEP = f"""{DISPATCH_TOML}[[task]]
name = "combine"
transposed = "dispatch"
after = ["dispatch"]
"""
GRID = 'algorithms = ["guided"]\nsizes = ["64 MB"]\nclusters = [{preset = "h200", servers = [16, 20]}]'


def started(
    words: list[str], columns: int, program: Sequence[str] = ("-m", "interlock")
) -> tuple[subprocess.Popen[bytes], int]:
    """A command on a terminal of that many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    running = subprocess.Popen(
        [sys.executable, *program, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment | {"TERM": "xterm"},
        start_new_session=True,
    )
    os.close(theirs)
    return running, ours


def processor_s(pid: int) -> float:
    """What a process has used: a clock that runs as slowly as the process does where the machine is busy."""
    with contextlib.suppress(FileNotFoundError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def read_all(terminal: int) -> str:
    parts = []
    with contextlib.suppress(OSError):  # how Linux says that the other end is closed
        while part := os.read(terminal, 65_536):
            parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()


def lines_of(words: list[str], columns: int, program: Sequence[str] = ("-m", "interlock")) -> list[str]:
    """What stays on the terminal."""
    running, terminal = started(words, columns, program)
    text = read_all(terminal)
    assert running.wait(60) == 0, text
    shown = ESCAPE.sub("", text).replace("\r\n", "\n").split("\n")
    return [line.rpartition("\r")[2].rstrip() for line in shown if not re.match(BARS, line)]


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["compare", *SMALL, "--baseline", "direct", "--algorithms", "direct,rails-split,fast"], "direct rails-split"),
        (["moe", "layer", "--layer", "small-8", "--gpus", "4", "--schemes", "deepep,inswitch"], "deepep inswitch"),
        (["moe", "step", "--servers", "2", "--algorithms", "direct,rails-split"], "direct rails-split"),
        (["moe", "across", "--servers", "2", "--tokens", "16"], "dispatch combine"),
        (["moe", "plan", "--servers", "2", "--tokens", "16", "--chunks", "1"], "dispatch combine"),
        (["step", "{step}"], "dispatch combine"),
        (["presets"], "gb200-nvl72 mi300x-100g"),
    ],
    ids=["compare", "moe layer", "moe step", "moe across", "moe plan", "step", "presets"],
)
def test_a_table_fits_and_cuts_neither_numbers_nor_names(
    words: list[str], names: str, columns: int, tmp_path: Path
) -> None:
    (tmp_path / "step.toml").write_text(STEP)
    lines = lines_of([word.replace("{step}", str(tmp_path / "step.toml")) for word in words], columns)

    assert max(map(len, lines)) <= columns
    assert not any("…" in line or "..." in line for line in lines)
    rows = [line for line in lines if line.split(" ")[0] in names.split()]
    assert len(rows) == 2
    if words[0] != "presets":
        assert all(re.match(rf"[\w-]+ +[\d.]+ {UNITS} ", row) for row in rows)
    if words[0] == "compare":
        assert all(re.search(r" \d\.\d\dx( |$)", row) for row in rows)


QUICK = """
from interlock.cli.main import main
from interlock.report import reproduce_dysharp
from interlock.report.claims import Claim, Status
words = "communication share of an MoE layer, DeepSeek-V3 on 32 GPUs", "useless traffic of the NVLS workaround"
made = [Claim("dysharp", each, "70.4", 1069.15, "us", Status.REPRODUCED, 0.05, "fitted to this") for each in words]
reproduce_dysharp.claims = lambda quick: made
main()
"""


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
def test_claims_are_broken_between_words_and_their_figures_are_not(columns: int) -> None:
    lines = lines_of(["reproduce", "dysharp"], columns, ["-c", QUICK])

    assert max(map(len, lines)) <= columns
    if columns == 60:  # no room for a table: a fact per line
        assert lines.count("  published 70.4 us") == lines.count("  ours 1069 us") == 2
        return
    rows = [line for line in lines if line.startswith("dysharp ")]
    assert len(rows) == 2
    assert all(re.search(r" 70\.4 us  +1069 us  +5 %  +reproduced", row) for row in rows)
    said = " ".join(" ".join(lines).split())
    beneath = "Constants fitted to this: communication share of an MoE layer, DeepSeek-V3 on 32 GPUs; useless"
    assert (beneath in said) == ("verdict constants" not in said)
    assert said.count("fitted to this") == (1 if beneath in said else 2)


def test_columns_go_in_the_order_asked_for_and_the_rest_becomes_a_list() -> None:
    header, rows = ["name", "time", "algbw", "claim"], [["adaptive", "9.6 ms", "82 GB/s", "as fast as it can be"]]
    kept, lines = table_lines(header, rows, 47, drop=["algbw"], wrap=["claim"])
    assert kept == header and max(map(len, lines)) <= 47

    kept, lines = table_lines(header, rows, 40, drop=["algbw"], wrap=["claim"])
    assert kept == ["name", "time", "claim"] and max(map(len, lines)) <= 40

    kept, lines = table_lines(header, rows, 34, drop=["algbw"], wrap=["claim"])
    assert lines[1:] == ["adaptive  9.6 ms  as fast as it", "                  can be"]

    kept, lines = table_lines(header, rows, 20, drop=["algbw"])
    assert lines[1:] == ["adaptive", "  time 9.6 ms", "  claim as fast as", "    it can be"]


WHOLE = "what was not yet whole is not written"


NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


@pytest.mark.parametrize(
    ("words", "after_s", "kept"),
    [
        (["compare", "--cluster", "h200", "--servers", "16", "--algorithms", "guided"], 2.0, WHOLE),
        (["reproduce", "tacos"], 2.0, WHOLE),
        (["plan", "--servers", "128", "--algorithm", "spray"], 2.0, WHOLE),
        (["moe", "layer", "--layer", "large-32", "--gpus", "256"], 2.0, WHOLE),
        (["step", "{step}"], 2.0, WHOLE),
        (["sweep", "{grid}", "--workers", "1"], 60.0, "no point was finished; {folder} has those of earlier runs"),
        pytest.param(["doctor"], 0.7, WHOLE, marks=[pytest.mark.torch, NEEDS_TORCH]),  # which takes it that long
    ],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
@pytest.mark.usefixtures("hears_ctrl_c")
def test_ctrl_c_ends_a_command_whatever_it_is_doing(
    words: list[str], after_s: float, kept: str, tmp_path: Path
) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    pair = files("interlock") / "problem" / "step_presets" / "deepseek-pair.toml"
    (tmp_path / "step.toml").write_text(pair.read_text().replace("servers = 8", "servers = 32"))  # 8 take a second
    made = {"{grid}": str(tmp_path / "grid.toml"), "{step}": str(tmp_path / "step.toml")}
    running, terminal = started([made.get(word, word) for word in words], 200)
    with ThreadPoolExecutor(1) as pool:
        shown = pool.submit(read_all, terminal)  # all the time: a terminal that nobody reads is full at some time
        begun = tmp_path / "grid.sweep" / "points"  # a sweep's own processor is idle
        while running.poll() is None and not begun.exists() and processor_s(running.pid) < after_s:  # by then it works
            time.sleep(0.05)
        was_running = running.poll() is None
        os.killpg(running.pid, signal.SIGINT)
        try:
            code = running.wait(60)
        finally:
            running.kill()
        text = shown.result()

    assert was_running and code == 130, text
    assert text.rstrip().endswith(f"interlock: interrupted; {kept.format(folder=tmp_path / 'grid.sweep')}")


@pytest.mark.usefixtures("hears_ctrl_c")
def test_a_file_that_was_being_written_is_gone_after_a_hard_end(tmp_path: Path) -> None:
    script = """if True:
        import sys, time
        from pathlib import Path
        from interlock.files import write_atomically
        from interlock.interrupts import watch

        watch()
        def write(file):
            file.write(b"half")
            while True:  # as work that answers Ctrl-C by going on
                try:
                    print("writing", flush=True)
                    time.sleep(60)
                except KeyboardInterrupt:
                    pass
        write_atomically(Path(sys.argv[1]), write)
    """
    words = [sys.executable, "-c", script, str(tmp_path / "page.html")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stderr is not None
        assert running.stdout.readline() == "writing\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
        assert "interrupted" in running.stderr.read()
    assert list(tmp_path.iterdir()) == []
