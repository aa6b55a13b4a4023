"""The command line's manners: completion, colours, pipes, nearest names, version."""

from __future__ import annotations

import contextlib
import html
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from interlock.cli.main import app, run

SMALL = ["compare", "--servers", "2", "--size", "1 MB", "--algorithms", "direct,fast"]


def interlock(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, its output in pipes."""
    return subprocess.run(
        [sys.executable, "-m", "interlock", *words], capture_output=True, text=True, env=os.environ | environment
    )


def test_a_pipe_gets_no_colours_and_no_progress_bar() -> None:
    done = interlock(*SMALL)

    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_a_terminal_gets_a_progress_bar_and_colours_unless_no_color_is_set() -> None:
    seen = {}
    for setting in ("", "1"):
        out, terminal = pty.openpty()
        words = [sys.executable, "-m", "interlock", *SMALL]
        environment = os.environ | {"TERM": "xterm-256color", "NO_COLOR": setting}
        with subprocess.Popen(words, stdout=terminal, stderr=terminal, stdin=terminal, env=environment) as running:
            os.close(terminal)
            seen[setting] = _read_all(out)
        assert running.returncode == 0

    assert "comparing" in seen[""] and "comparing" in seen["1"]
    assert COLOUR.search(seen[""]) is not None
    assert COLOUR.search(seen["1"]) is None


COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|9[0-7]|4[0-8])(?:;\d+)*m")


def _read_all(terminal: int) -> str:
    parts = []
    with contextlib.suppress(OSError):  # how Linux says that the other end is closed
        while part := os.read(terminal, 65_536):
            parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()


def test_no_color_leaves_no_colour_where_a_terminal_is_forced() -> None:
    done = interlock("doctor", FORCE_COLOR="1", NO_COLOR="1")

    assert "\x1b[1m" in done.stdout  # the heading is still bold: a terminal was assumed
    assert COLOUR.search(done.stdout) is None


def test_a_shell_can_complete_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    # Typer guesses the shell from the parent process, which need not be one here; this names it instead.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    done = interlock("--show-completion", "bash")

    assert done.returncode == 0
    assert "_INTERLOCK_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["plan", "--algorithm", "adaptve"], "did you mean 'adaptive'?"),
        (["plan", "--cluster", "h2000"], "did you mean 'h200'?"),
        (["plan", "--traffic", "zpif"], "did you mean 'zipf'?"),
        (["reproduce", "tacoss"], "did you mean 'tacos'?"),
        (["moe", "layer", "--layer", "lagre-8"], "did you mean 'large-8'?"),
        (["plan", "--set", "scale_out_bandwith=4 GB/s"], "did you mean 'scale_out_bandwidth'?"),
        (["synth", "--topology", "trous:4x4", "--collective", "all-reduce"], "did you mean 'torus'?"),
        (["synth", "--topology", "torus:4x4", "--collective", "all-reduec"], "did you mean 'all-reduce'?"),
        (["moe", "layer", "--schemes", "deeepp"], "did you mean 'deepep'?"),
        (["moe", "step", "--model", "mixtrl"], "did you mean 'mixtral-8x7b'?"),
        (["export", "plan.ilk", "--to", "msccl-xlm", "-o", "plan.xml"], "did you mean 'msccl-xml'?"),
        (["lab", "rnu"], "'run'"),
        (["topology", "shows"], "'show'"),
        (["comprae"], "compare"),
        (["compare", "--sevrers", "4"], "--servers"),
    ],
)
def test_a_wrong_name_gets_the_nearest_right_one(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    error = capsys.readouterr().err
    assert hint in error
    assert error.count("\n") == 1


def test_version_names_build_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    line = capsys.readouterr().out

    assert re.fullmatch(
        r"interlock \d+\.\d+\.\d+ \(core by (gcc|clang) [\d.]+, (optimised|with assertions); "
        r"Python [\d.]+, NumPy [\d.]+, \w+\)\n",
        line,
    )


def commands(group: Any = None, name: str = "interlock") -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its full name."""
    for word, command in (typer.main.get_command(app) if group is None else group).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=[name for name, _ in commands()])
def test_every_command_has_json_and_shows_examples_of_itself(name: str, command: Any) -> None:
    _, _, examples = (command.help or "").partition("Examples:")
    lines = [line.strip() for line in examples.splitlines() if line.strip()]

    assert lines and all(name in line for line in lines)
    assert "--json" in [word for option in command.params for word in option.opts]


@pytest.mark.parametrize(
    "words",
    [
        SMALL,
        ["plan", "--servers", "2", "--size", "1 MB", "--algorithm", "fast"],
        ["synth", "--topology", "ring:4", "--collective", "all-gather", "--size", "1 MB", "--algorithm", "ring"],
        ["moe", "layer", "--layer", "small-8", "--gpus", "4", "--schemes", "deepep,inswitch"],
        ["moe", "step", "--servers", "2", "--algorithms", "ecmp,adaptive"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_page_says_by_which_command_it_was_made(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "page.html"
    monkeypatch.setattr(sys, "argv", ["interlock", *words, "--html", str(file)])

    assert run(sys.argv[1:]) == 0
    assert html.escape(shlex.join(sys.argv)) in file.read_text()
    assert list(tmp_path.iterdir()) == [file]


def test_traces_beside_a_page_are_named_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.report.timeline.MAX_BARS", 40)
    page = tmp_path / "page.html"
    assert run(["compare", "--servers", "2", "--algorithms", "direct", "--html", str(page)]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line.split(" (")[0] for line in said if line.startswith("wrote")] == [
        f"wrote {page}",
        f"wrote {tmp_path / 'page.traces'}/",
    ]
    assert "(1 file, " in said[-1]
