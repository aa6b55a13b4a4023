"""Write docs/reference/cli.md from the command line itself: python tools/cli_reference.py [--check]."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from interlock.cli.lists import LISTS
from interlock.cli.main import app

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"
INTRODUCTION = """# Command line

<!-- Written by tools/cli_reference.py from the commands' own help: edit that, not this. -->

Every command has `--json` and `--help`. Exit codes: 0 good, 1 the answer is "no" (an invalid plan, a missed bar),
2 bad input (one sentence on stderr, nothing written), 3 no verdict (a file does not
say enough). Sizes, rates and times take units: `'512 MB'`, `'400 Gb/s'`,
`'5 us'`. The same `--seed` gives the same result. Clusters are [presets](presets.md) or TOML files, `--set` changes
any of their fields; kinds of [traffic](traffic.md) and [topologies](topologies.md) have pages of their own.

Colours and progress bars appear on a terminal only; `NO_COLOR=1` turns colours off there too. `interlock
--install-completion` makes your shell complete commands and options (bash, zsh, fish); `--show-completion` prints
the script. `interlock --version` names the version and what it was built with.
"""


def generated() -> str:
    """The page as the commands are now."""
    commands = list(_commands(typer.main.get_command(app), "interlock"))
    rows = [f"| [`{name}`](#{name.replace(' ', '-')}) | {_help(command)[0]} |" for name, command in commands]
    parts = [INTRODUCTION, "\n".join(["| command | does |", "|---|---|", *rows]) + "\n"]
    return "\n".join([*parts, *(_section(name, command) for name, command in commands)])


def _commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its full name."""
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


def _section(name: str, command: Any) -> str:
    lines = [f"## {name}", ""]
    first, rest, examples = _help(command)
    lines += [first, ""]
    if rest:
        lines += [rest, ""]
    options = [option for option in command.params if option.name != "help"]
    if options:
        lines += ["| option | means | default |", "|---|---|---|"]
        lines += [_row(option) for option in options]
        lines.append("")
    lines += ["```sh", "# examples", *examples, "```", ""]
    listed = LISTS.get(name.removeprefix("interlock "))
    if listed is not None:
        lines += ["| name | what |", "|---|---|"]
        lines += [f"| `{row['name']}` | {str(row['what']).replace('|', chr(92) + '|')} |" for row in listed()]
        lines.append("")
    return "\n".join(lines)


def _help(command: Any) -> tuple[str, str, list[str]]:
    """First paragraph, the others, and the examples of a command's help."""
    words, _, examples = inspect.cleandoc(command.help or "").partition("Examples:")
    first, _, rest = words.strip().partition("\n\n")
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    shown = rest.strip()
    if "\n\n  " in f"\n\n{rest}":  # an indented part is a file's text
        plain, _, block = rest.partition("\n\n  ")
        shown = plain.strip() + "\n\n```toml\n" + "\n".join(line.strip() for line in block.split("\n\n")) + "\n```"
    return " ".join(first.split()), shown, lines


def _row(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    if not option.opts[0].startswith("-"):
        names = f"`{option.metavar or option.name.upper()}`"
    default = option.default
    shown = "" if default is None or default is False or callable(default) or default == () else f"`{default}`"
    text = (getattr(option, "help", None) or "").replace("|", "\\|")
    return f"| {names} | {text} | {'required' if option.required else shown} |"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text() == generated() else f"{PAGE} is out of date; run tools/cli_reference.py")
    PAGE.write_text(generated())
