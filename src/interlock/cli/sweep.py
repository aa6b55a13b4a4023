"""`interlock sweep`: a grid of problems, on local processes or a Dask cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.options import CsvOption, JsonOption, one_format, refuse
from interlock.cli.outputs import say_written
from interlock.cli.show import command_line, print_csv, print_json, print_table, progress_of
from interlock.errors import InvalidInput
from interlock.files import write_text
from interlock.interrupts import keep

if TYPE_CHECKING:
    from interlock.report.sweep import Grid, Row

__all__ = ["command"]


def command(
    file: Annotated[Path, typer.Argument(metavar="GRID.toml", help="Lists of clusters, traffic, sizes, ...")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder of the results; default: GRID.sweep.")
    ] = None,
    workers: Annotated[int | None, typer.Option("--workers", help="Local processes; default: one each CPU.")] = None,
    dask: Annotated[
        str | None, typer.Option("--dask", metavar="ADDRESS", help="Dask scheduler, like tcp://10.0.0.1:8786.")
    ] = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> int:
    """Run every algorithm on a grid of problems; run again to take up a stopped sweep.

    The folder gets one file per finished point, table.json and summary.html. A grid:

      traffic = ["uniform", "zipf:0.8"]

      sizes = ["16 MB", "512 MB"]

      algorithms = ["direct", "fast", "adaptive"]

      seeds = [0, 1]

      clusters = [{preset = "h200", servers = [2, 4]}]

    Examples:

      interlock sweep grid.toml -o results

      interlock sweep grid.toml -o results --dask tcp://10.0.0.1:8786
    """
    from interlock.report.sweep import read_grid
    from interlock.report.sweep_page import sweep_page

    one_format(as_json, as_csv)
    if dask is not None:
        refuse({"--workers": workers}, "a Dask scheduler has its own")
    grid = read_grid(file)
    folder = output or file.with_suffix(".sweep")
    _check_folder(folder)
    rows = _swept(grid, folder, workers, dask)
    write_text(folder / "summary.html", sweep_page(rows, file.stem, command_line()))
    if as_json:
        print_json({"rows": rows, "times_are": "simulated"})
    elif as_csv:
        print_csv(rows)
    else:
        _print_summary(rows, file.stem)
    say_written(folder)
    return 0 if all("refused" in row or row["valid"] for row in rows) else 1


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"-o {folder} is a file; a sweep needs a folder")
    if not folder.parent.is_dir():
        raise InvalidInput(f"-o {folder}: there is no folder {folder.parent}")


def _swept(grid: Grid, folder: Path, workers: int | None, dask: str | None) -> list[Row]:
    """A row per point; Ctrl-C tells how many points are kept."""
    from interlock.report.sweep import sweep

    count, finished = len(grid.points()), 0
    keep(f"no point was finished; {folder} has those of earlier runs")
    with progress_of(count, "sweeping") as show:

        def step(point: str) -> None:
            nonlocal finished
            finished += 1
            keep(f"stopped after {finished} of {count} points, which are kept in {folder}; run again to go on")
            show(point)

        return sweep(grid, folder, workers=workers, dask=dask, progress=step)


def _print_summary(rows: list[Row], name: str) -> None:
    """The fastest algorithm for every cluster, traffic and size."""
    from interlock.report.sweep_page import summarise

    summary = summarise(rows)
    lines = []
    for place in summary.places:
        uneven = summary.unevenness.get(place)
        received = "-" if uneven is None else f"{uneven.received_gini:.2f}, {uneven.received_peak:.2f}"
        pairs = "-" if uneven is None else f"{uneven.pairs_gini:.2f}, {uneven.pairs_peak:.2f}"
        for size_bytes in summary.sizes_bytes:
            fastest = summary.winner(place, size_bytes)
            ratio = "-" if fastest is None else f"{summary.over_bound[place, size_bytes, fastest]:.3f}"
            lines.append([place[0], place[1], received, pairs, str(size_bytes), fastest or "-", ratio])
    notes = [
        f"{len(rows)} points, simulated; the folder has table.json and summary.html.",
        "Of what ranks receive and of pairs of ranks: Gini coefficient, largest over mean; mean of the draws.",
    ]
    header = ["cluster", "traffic", "receive", "pairs", "bytes per GPU", "fastest", "over bound"]
    print_table(f"sweep {name}", header, lines, notes, wrap=("cluster",), drop=("pairs", "receive"))
