"""The command `interlock`, also as `python -m interlock`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Load the command line, which takes a moment that Ctrl-C may fall into, and run it."""
    try:
        from interlock.cli.main import main as begin
    except KeyboardInterrupt:
        print("interlock: interrupted; nothing was begun", file=sys.stderr, flush=True)
        os._exit(130)
    begin()


if __name__ == "__main__":
    main()
