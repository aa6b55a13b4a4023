"""The command line's manners: completion, colours, pipes, nearest names, version."""

from __future__ import annotations

import html
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_no_color_leaves_no_colour_where_a_terminal_is_forced() -> None:
    done = interlock("doctor", FORCE_COLOR="1", NO_COLOR="1")

    assert "\x1b[1m" in done.stdout  # the heading is still bold: a terminal was assumed
    assert re.findall(r"\x1b\[(?:\d+;)*(?:3[0-8]|9[0-7]|4[0-8])(?:;\d+)*m", done.stdout) == []


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
        (["moe", "--layer", "lagre-8"], "did you mean 'large-8'?"),
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
    assert line.startswith("interlock ")
    assert "Python" in line and "NumPy" in line


def test_every_command_shows_an_example() -> None:
    without = [
        command.name
        for command in app.registered_commands
        if "Examples:" not in (command.callback.__doc__ or "")  # type: ignore[union-attr]
    ]

    assert without == []


@pytest.mark.parametrize(
    "words",
    [
        SMALL,
        ["plan", "--servers", "2", "--size", "1 MB", "--algorithm", "fast"],
        ["synth", "--topology", "ring:4", "--collective", "all-gather", "--size", "1 MB", "--algorithm", "ring"],
        ["moe", "--layer", "small-8", "--gpus", "4", "--schemes", "deepep,inswitch"],
        ["moe", "--iteration", "--servers", "2", "--algorithms", "ecmp,adaptive"],
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
