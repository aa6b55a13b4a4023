"""The command `interlock`: subcommands, one-line errors, exit codes.

Exit 0: good. 1: the answer is "no" (an invalid plan, a missed bar). 2: bad input, one sentence on stderr.
3: no verdict: a file does not say enough.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from typing import Annotated

import typer

from interlock.cli import (
    compare,
    doctor,
    export,
    import_topology,
    lab,
    lists,
    moe,
    plan,
    reproduce,
    simulate,
    step,
    sweep,
    synth,
    topology,
    verify,
)
from interlock.errors import InterlockError
from interlock.interrupts import EXIT_CODE, interruption_message, keep, watch

__all__ = ["app", "main"]

# Typer brings its own copy of Click or uses the installed one, depending on its version: take the class from Typer.
_CommandError = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

app = typer.Typer(
    name="interlock",
    help="Plan, prove and run the communication of GPU clusters.",
    epilog="Start with: interlock compare",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(doctor.version_line())
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Version and build facts.")
    ] = False,
) -> None:
    """Options of the command itself."""


app.command("compare")(compare.command)
app.command("plan")(plan.command)
app.command("synth")(synth.command)
app.command("verify")(verify.command)
app.command("simulate")(simulate.command)
app.command("export")(export.command)
app.command("import-topology")(import_topology.command)
app.command("sweep")(sweep.command)
app.command("step")(step.command)
app.add_typer(moe.app, name="moe")
app.command("reproduce")(reproduce.command)
app.add_typer(topology.app, name="topology")
app.add_typer(lab.app, name="lab")
app.command("algorithms")(lists.algorithms)
app.command("presets")(lists.presets)
app.command("fabrics")(lists.fabrics)
app.command("doctor")(doctor.command)


def main() -> None:
    """Run the command line; turn errors into one line and an exit code."""
    try:
        watch()
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before there was anything to interrupt
        code = _interrupted()
    if code == EXIT_CODE:
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> None:
    """End with this code: Python itself ends by SIGINT where Ctrl-C came inside `exec` of a text, whoever caught it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run(arguments: list[str]) -> int:
    """Exit code of one invocation."""
    keep("what was not yet whole is not written")
    try:
        result = app(args=arguments, prog_name="interlock", standalone_mode=False)
    except InterlockError as error:
        print(f"interlock: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except (typer.Abort, KeyboardInterrupt):
        return _interrupted()
    except BrokenPipeError:
        return 0
    except OSError as error:
        print(f"interlock: {error.filename or 'file'}: {error.strerror or error}", file=sys.stderr)
        return 2
    except Exception as error:
        if not isinstance(error, _CommandError):
            raise
        text = str(getattr(error, "format_message", error.__str__)())
        is_help = type(error).__name__ == "NoArgsIsHelpError"
        print(text if is_help else f"interlock: {' '.join(text.split())}", file=sys.stderr)
        return 2
    if result == EXIT_CODE:  # some versions of Typer turn an interruption into the code
        return _interrupted()
    return result if isinstance(result, int) else 0


def _interrupted() -> int:
    print(interruption_message(), file=sys.stderr)
    return EXIT_CODE
