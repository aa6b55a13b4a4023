"""`interlock algorithms`, `presets` and `fabrics`: what there is, a line each."""

from __future__ import annotations

from interlock.cli.options import CsvOption, JsonOption, one_format
from interlock.cli.show import print_csv, print_json, print_table
from interlock.units import format_bandwidth

__all__ = ["LISTS", "algorithms", "fabrics", "presets"]


def algorithm_rows() -> list[dict[str, object]]:
    """Every algorithm, and what it does."""
    from interlock.algorithms import registry

    return [{"name": name, "what": registry.get(name).summary} for name in registry.names()]


def preset_rows() -> list[dict[str, object]]:
    """Every preset: GPUs of a server, and what joins them."""
    from interlock.topology import cluster, preset_names

    made: list[dict[str, object]] = []
    for name in preset_names():
        one = cluster(name, servers=1)
        nic = format_bandwidth(one.scale_out_bandwidth_bytes_per_s)
        able = ", which multicasts and adds" if one.multicasts and one.reduces else ""
        inside = f"{format_bandwidth(one.scale_up_bandwidth_bytes_per_s)} per GPU by {one.scale_up}{able}"
        made.append(
            {"name": name, "what": f"{one.gpus_per_server} GPUs; {inside}; a NIC of {nic} each, {one.fabric.name}"}
        )
    return made


def fabric_rows() -> list[dict[str, object]]:
    """Every fabric: what it does when many send to one."""
    from interlock.topology.fabric import FABRICS

    made: list[dict[str, object]] = []
    for name, fabric in FABRICS.items():
        what = "any number of senders per receiver" if fabric.fan_in is None else f"loses beyond {fabric.fan_in} sender"
        if fabric.collapse_fan_in is not None:
            what += f", collapses beyond {fabric.collapse_fan_in}"
        if fabric.efficiency < 1:
            what += f"; {100 * fabric.efficiency:.0f} % of the rate arrives"
        if fabric.ecmp_radix is not None:
            what += f"; a fat tree of leaves of {fabric.ecmp_radix}, pairs hashed to uplinks"
        made.append({"name": name, "what": what})
    return made


LISTS = {"algorithms": algorithm_rows, "presets": preset_rows, "fabrics": fabric_rows}


def algorithms(as_json: JsonOption = False, as_csv: CsvOption = False) -> int:
    """Algorithms by name, for --algorithm and --algorithms.

    Examples:

      interlock algorithms
    """
    return _show("algorithms", as_json, as_csv)


def presets(as_json: JsonOption = False, as_csv: CsvOption = False) -> int:
    """Clusters by name, for --cluster.

    Examples:

      interlock presets
    """
    return _show("presets", as_json, as_csv)


def fabrics(as_json: JsonOption = False, as_csv: CsvOption = False) -> int:
    """Scale-out fabrics by name, for --set fabric=NAME.

    Examples:

      interlock fabrics
    """
    return _show("fabrics", as_json, as_csv)


def _show(name: str, as_json: bool, as_csv: bool) -> int:
    one_format(as_json, as_csv)
    rows = LISTS[name]()
    if as_json:
        print_json({name: rows})
    elif as_csv:
        print_csv(rows)
    else:
        print_table(name, ["name", "what"], [[str(row["name"]), str(row["what"])] for row in rows], wrap=("what",))
    return 0
