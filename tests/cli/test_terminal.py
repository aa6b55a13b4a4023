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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interlock.cli.show import table_lines

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
UNITS = r"(?:s|ms|us|ns)"
SMALL = ["--servers", "2", "--size", "1 MB"]


def started(words: list[str], columns: int) -> tuple[subprocess.Popen[bytes], int]:
    """A command on a terminal of that many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    running = subprocess.Popen(
        [sys.executable, "-m", "interlock", *words],
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


def lines_of(words: list[str], columns: int) -> list[str]:
    """What stays on the terminal."""
    running, terminal = started(words, columns)
    text = read_all(terminal)
    assert running.wait(60) == 0, text
    shown = ESCAPE.sub("", text).replace("\r\n", "\n").split("\n")
    return [line.rpartition("\r")[2].rstrip() for line in shown if "comparing" not in line and "simulating" not in line]


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["compare", *SMALL, "--baseline", "direct", "--algorithms", "direct,rails-split,fast"], "direct rails-split"),
        (["moe", "layer", "--layer", "small-8", "--gpus", "4", "--schemes", "deepep,inswitch"], "deepep inswitch"),
        (["presets"], "gb200-nvl72 mi300x-100g"),
    ],
    ids=["compare", "moe", "presets"],
)
def test_a_table_fits_and_cuts_neither_numbers_nor_names(words: list[str], names: str, columns: int) -> None:
    lines = lines_of(words, columns)

    assert max(map(len, lines)) <= columns
    assert not any("…" in line or "..." in line for line in lines)
    rows = [line for line in lines if line.split(" ")[0] in names.split()]
    assert len(rows) == 2
    if words[0] != "presets":
        assert all(re.match(rf"[\w-]+ +[\d.]+ {UNITS} ", row) for row in rows)
    if words[0] == "compare":
        assert all(re.search(r" \d\.\d\dx( |$)", row) for row in rows)


def test_columns_go_in_the_order_asked_for_and_the_rest_becomes_a_list() -> None:
    header, rows = ["name", "time", "algbw", "claim"], [["adaptive", "9.6 ms", "82 GB/s", "as fast as it can be"]]
    kept, lines = table_lines(header, rows, 47, drop=["algbw"], words=["claim"])
    assert kept == header and max(map(len, lines)) <= 47

    kept, lines = table_lines(header, rows, 40, drop=["algbw"], words=["claim"])
    assert kept == ["name", "time", "claim"] and max(map(len, lines)) <= 40

    kept, lines = table_lines(header, rows, 34, drop=["algbw"], words=["claim"])
    assert lines[1:] == ["adaptive  9.6 ms  as fast as it", "                  can be"]

    kept, lines = table_lines(header, rows, 20, drop=["algbw"])
    assert lines[1:] == ["adaptive", "  time 9.6 ms", "  claim as fast as it can be"]


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "--cluster", "h200", "--servers", "16", "--size", "64 MB", "--algorithms", "guided"],
        ["reproduce", "tacos"],
        ["plan", "--servers", "40", "--algorithm", "spray"],
        ["moe", "layer", "--layer", "large-32", "--gpus", "256"],
    ],
    ids=lambda words: words[0],
)
def test_ctrl_c_ends_a_command_whatever_it_is_doing(words: list[str]) -> None:
    running, terminal = started(words, 100)
    with ThreadPoolExecutor(1) as pool:
        shown = pool.submit(read_all, terminal)  # all the time: a terminal that nobody reads is full at some time
        while running.poll() is None and processor_s(running.pid) < 2.0:  # by then it works
            time.sleep(0.05)
        was_running = running.poll() is None
        os.killpg(running.pid, signal.SIGINT)
        try:
            code = running.wait(60)
        finally:
            running.kill()
        text = shown.result()

    assert was_running and code == 130, text
    assert "interlock: interrupted; what was not yet whole is not written" in text
    assert text.rstrip().endswith("is not written")


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
