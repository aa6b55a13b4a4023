"""Small files and short words that ask for minutes or gigabytes: refused in words, before anything is allocated."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import interlock as il
from interlock.errors import InvalidInput, LimitExceeded
from interlock.interchange import Intent, get_format, read_foreign
from interlock.interchange.shared.json_text import parse_json
from interlock.interchange.shared.xml_text import parse_xml
from interlock.interchange.tacos import HEADER
from interlock.memory import check_memory
from interlock.problem.step_files import read_step
from interlock.report.sweep import read_grid
from interlock.topology import parse_topology, read_cluster, read_topology
from interlock.traffic import read_demand
from interlock.traffic.readers import read_npz

SECONDS, BYTES = 5, 1 << 30  # of processor and of memory, for each case


@pytest.fixture(autouse=True)
def within_limits() -> Iterator[None]:
    """No case may take more than its share: beyond the memory there is a MemoryError, beyond the time a failure."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (held + BYTES, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < SECONDS


def test_a_key_given_twice_among_many_is_found_at_once() -> None:
    text = "{" + ",".join(f'"k{number}":0' for number in range(200_000)) + ',"z":1,"z":2}'
    with pytest.raises(InvalidInput, match="'z' is given twice"):
        parse_json(text, "keys.json")


@pytest.mark.parametrize("key", ["a" + ".a" * 200_000, '"a"' + ' . "a"' * 200_000, "[" + "a." * 200_000 + "a]"])
def test_dotted_keys_of_many_parts_are_refused(tmp_path: Path, key: str) -> None:
    file = tmp_path / "dots.toml"
    file.write_text(f"{key} = 1\n")
    with pytest.raises(LimitExceeded, match="line 1: a key of more than 64 parts"):
        read_topology(file)


@pytest.mark.parametrize("digits", ["1", "0xf", "1_1", "1.1", "1e1"])
def test_numbers_of_many_digits_are_refused(tmp_path: Path, digits: str) -> None:
    file = tmp_path / "digits.toml"
    file.write_text(f'name = "{"f" * 1000}"\nnum_ranks = {digits}{digits[-1] * 8_000_000}\n')
    with pytest.raises(LimitExceeded, match="line 2: more than 1000 digits in a row"):
        read_topology(file)
    file.write_text("# " + ("1" * 999 + " ") * 8_000)
    with pytest.raises(InvalidInput, match=r"links\.src is missing"):
        read_topology(file)


def test_long_words_and_lists_of_fractions_are_no_dotted_keys(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('servers = 2\nname = "' + "a.b" * 60 + '"\n# ' + "1.5, " * 100 + "\n")
    assert read_cluster(file).servers == 2


def test_a_long_cell_takes_no_memory_for_the_others(tmp_path: Path) -> None:
    file = tmp_path / "cell.csv"
    file.write_text("\n".join([" ".join("0" * 2000)] * 200 + [" ".join(["0"] * 1999 + ["x" * 3_000_000])]))
    with pytest.raises(InvalidInput, match="line 201, column 2000: 'xxx"):
        read_demand(file)


@pytest.mark.parametrize("cell", ["1_0", "１", "٣", "0x1", "1.0", "--1", "99999999999999999999", str(2**62 + 1)])
def test_numbers_are_written_in_plain_digits(tmp_path: Path, cell: str) -> None:
    file = tmp_path / "m.csv"
    file.write_text(f"0,{cell}\n1,0\n")
    with pytest.raises(InvalidInput, match="line 1"):
        read_demand(file)


def test_an_archive_that_would_expand_beyond_the_limit_is_not_expanded(tmp_path: Path) -> None:
    import zipfile

    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (268435456,), }".ljust(117) + b"\n"
    with zipfile.ZipFile(tmp_path / "zeros.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("topk.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(1 << 20))
    with pytest.raises(LimitExceeded, match="268435456"):
        read_npz(tmp_path / "zeros.npz", ["topk"])


@pytest.mark.parametrize("shape", ["-" * 9000 + "1", "(" * 9000, "[" * 500 + "]" * 500])
def test_headers_that_choke_a_parser_are_refused(tmp_path: Path, shape: str) -> None:
    import zipfile

    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({shape},), }}\n".encode()
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("topk.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(InvalidInput, match="topk"):
        read_npz(tmp_path / "a.npz", ["topk"])


def test_an_attribute_of_fifty_megabytes_is_refused() -> None:
    with pytest.raises(LimitExceeded, match="longer than"):
        parse_xml(b'<algo name="' + b"x" * 50_000_000 + b'"/>', "long.xml")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("dragonfly:1000x1000", "999999000 links; at most 50000000"),
        ("dragonfly:2x400000", "160000400000 links; at most 50000000"),
        ("clos:10000x90x10000", "above the limit of 1000000 ranks"),
        ("fully-connected:100000", "9999900000 links; at most 50000000"),
    ],
)
def test_graphs_beyond_the_limit_are_refused_before_they_are_made(words: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        parse_topology(words, bandwidth="1 GB/s")


def test_a_mesh_of_sixty_thousand_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mesh.toml"
    file.write_text('preset = "mi300x"\nservers = 1\ngpus_per_server = 60000\n')
    with pytest.raises(LimitExceeded, match="3600060000 links"):
        read_cluster(file).topology  # noqa: B018


def test_what_is_legal_but_too_much_for_this_machine_says_how_much_it_needs() -> None:
    with pytest.raises(LimitExceeded, match="a matrix needs about 1000 TB of memory, but only"):
        check_memory(1e15, "a matrix")
    check_memory(1e6, "a matrix")


def test_lists_inside_columns_are_refused(tmp_path: Path) -> None:
    for column, says in (
        ("src = [0, []]\ndst = [1, 0]", "src must be a flat list"),
        ("src = [0, 1]\ndst = [1, 0]\nlatency = ['1 us', []]", r"latency\[1\]='\[\]' is not a quantity"),
    ):
        (tmp_path / "t.toml").write_text(f'num_ranks = 2\n[links]\n{column}\nbandwidth = "1 GB/s"\n')
        with pytest.raises(InvalidInput, match=says):
            read_topology(tmp_path / "t.toml")


@pytest.mark.parametrize("order", ["F", "strided", "read-only"])
def test_demand_takes_any_layout_and_leaves_the_callers_array_alone(order: str, h200_2x4: il.Cluster) -> None:
    values = np.arange(64).reshape(8, 8)
    given = {"F": np.asfortranarray(values), "strided": np.repeat(values, 2, 1)[:, ::2], "read-only": values}[order]
    given.flags.writeable = order != "read-only"
    demand = il.Demand(given)
    assert given.flags.writeable == (order != "read-only")
    assert il.plan(h200_2x4, demand).certificate().valid
    if order != "read-only":
        given[0, 1] = 10**6
        assert demand.bytes_matrix[0, 1] == 1
    with pytest.raises(ValueError, match="read-only"):
        demand.bytes_matrix[0, 1] = 7


@pytest.mark.parametrize("entry", [2**62, -1])
def test_demand_is_held_to_its_limits_however_it_is_made(entry: int) -> None:
    with pytest.raises(InvalidInput, match="bytes_matrix"):
        il.Demand(np.full((4, 4), entry))


def test_parameters_that_count_must_be_whole(h200_2x4: il.Cluster) -> None:
    with pytest.raises(InvalidInput, match=r"slices=1\.5 must be a whole number"):
        il.plan(h200_2x4, il.traffic.uniform(h200_2x4), "adaptive", slices=1.5)
    assert il.plan(h200_2x4, il.traffic.uniform(h200_2x4), report=print).certificate().valid


@pytest.mark.parametrize("format_name", ["msccl-xml", "mscclpp-json"])
def test_bytes_that_stay_in_place_count_towards_what_an_export_may_write(format_name: str, tmp_path: Path) -> None:
    rows = np.full((4, 4), 100)
    rows[0, 0] = 2**60
    plan = il.plan(il.cluster("h200", servers=2, gpus_per_server=2), il.traffic.matrix(rows), "direct")
    with pytest.raises(LimitExceeded, match=r"the schedule moves [0-9]+ chunks of"):
        plan.export(format_name, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_message_of_very_many_flows_is_not_written(tmp_path: Path) -> None:
    plan = il.plan(il.cluster("h200", servers=2, gpus_per_server=2), il.traffic.matrix(np.full((4, 4), 100)), "direct")
    sizes = plan.schedule.size_bytes.copy()
    sizes[0] = 2**63 - 1
    padded = il.Plan(plan.problem, replace(plan.schedule, size_bytes=sizes), "padded")
    assert padded.report.valid
    with pytest.raises(LimitExceeded, match="would be 4294967310 flows"):
        padded.export("htsim", tmp_path / "out.cm")
    assert list(tmp_path.iterdir()) == []


PLANS = {
    "spreadout": lambda: il.plan(il.cluster("h200", servers=3, gpus_per_server=4), uneven(12), "spreadout"),
    "adaptive": lambda: il.plan(il.cluster("h200", servers=4, gpus_per_server=2), uneven(8), "adaptive"),
    "huge": lambda: il.plan(
        il.cluster("h200", servers=2, gpus_per_server=2), il.traffic.matrix([[2**57] * 4] * 4), "fast"
    ),
}


def uneven(ranks: int) -> il.Demand:
    return il.traffic.matrix(np.random.default_rng(0).integers(0, 10**9, (ranks, ranks)))


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("format_name", ["chakra", "chrome-trace", "nccl-tests"])
def test_an_export_takes_no_more_than_is_counted_beforehand(name: str, format_name: str, tmp_path: Path) -> None:
    plan = PLANS[name]()
    most_bytes = get_format(format_name).most_bytes
    assert most_bytes is not None
    plan.export(format_name, tmp_path / "out")
    taken = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert 0 < taken <= most_bytes(plan.schedule, plan.problem)


@pytest.mark.parametrize("format_name", ["chakra", "chrome-trace", "nccl-tests"])
def test_an_export_for_which_there_is_no_room_is_not_begun(
    format_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = PLANS["adaptive"]()
    monkeypatch.setattr("interlock.interchange.contract.MOST_WRITTEN_BYTES", 1000)
    with pytest.raises(LimitExceeded, match=f"a {format_name} export of this schedule takes up to .* room for 1 kB"):
        plan.export(format_name, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_very_many_chunks_are_not_written_for_tacos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = il.synthesize(il.topology.ring(4, bandwidth="1 GB/s"), il.all_gather("4 MB"), "ring")
    monkeypatch.setattr("interlock.interchange.tacos.MAX_TRANSFERS", 10)
    with pytest.raises(LimitExceeded, match=r"the schedule moves [0-9]+ chunks of"):
        plan.export("tacos-csv", tmp_path / "out.csv")
    assert list(tmp_path.iterdir()) == []


def test_tacos_rows_are_counted_before_they_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.csv"
    head = f"NPUs Count,2\nLinks Count,2\nChunks Count,4\nChunk Size,8\n{HEADER}\n"
    file.write_text(head + "0,1,0,50,0, 1 :9:2,\n1,0,0,50,2,,3\n")
    rows = read_foreign(file, Intent(), "tacos-csv").schedule
    assert rows.pieces.item.tolist() == [0, 1, 2, 3] and rows.src.values.tolist() == [0, 0, 1, 1]
    for cell, says in (
        ("4", "4 must be between 0 and 3"),
        ("x", "'x' is not a whole number"),
        ("9" * 19, "9' is not a"),
    ):
        file.write_text(head + f"0,1,0,50,0,1\n1,0,0,50,2,{cell}\n")
        with pytest.raises(InvalidInput, match=says):
            read_foreign(file, Intent(), "tacos-csv")
    monkeypatch.setattr("interlock.interchange.tacos.MAX_TRANSFERS_READ", 10)
    file.write_text(head + "0,1,0,50," + "0," * 10)
    with pytest.raises(LimitExceeded, match="more than 10 transfers"):
        read_foreign(file, Intent(), "tacos-csv")


def test_cells_of_a_line_are_counted_before_they_are_split(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("src,dst,bandwidth\n0,1" + "," * 16)
    with pytest.raises(InvalidInput, match="line 2 has more than 16 commas"):
        read_topology(file)
    file.write_text("1," * 8193)
    with pytest.raises(LimitExceeded, match="line 1: more than 8192 columns"):
        read_demand(file)


def test_tables_of_too_many_lines_or_rows_are_refused_before_they_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    for lines, says in (("1\n" * 8193, "8193 rows; at most 8192"), ("\n\r" * 600_000, "has 1200000 lines; at most")):
        file.write_text(lines, newline="")
        with pytest.raises(LimitExceeded, match=says):
            read_demand(file)
    with pytest.raises(LimitExceeded, match="has 1200000 lines; at most 1000000 are read"):
        read_topology(file)


@pytest.mark.parametrize("row", ["0 18", "0,18", " 0  18 ", "0, 18", "0;18", "0,18,", "0\t18"])
def test_plain_and_odd_lines_are_read_alike(tmp_path: Path, row: str) -> None:
    file = tmp_path / "m.txt"
    file.write_text(f"{row}\n7 0\n")
    assert read_demand(file).bytes_matrix.tolist() == [[0, 18], [7, 0]]


@pytest.mark.parametrize("kind", ["uniform", "random", "zipf:0.8", "hot:0.8", "lognormal:1", "sparse:0.5", "moe:0.8"])
def test_a_demand_that_would_not_fit_is_refused_before_it_is_drawn(kind: str) -> None:
    with pytest.raises(InvalidInput, match="65536 ranks; demand is limited to 8192"):
        il.traffic.parse(kind, il.cluster("h200", servers=8192))
    with pytest.raises(LimitExceeded, match=r"a demand of 8192 ranks needs about 2\.\d+ GB"):
        il.traffic.parse(kind, il.cluster("h200", servers=1024))


def _step(folder: Path, servers: int, *tasks: str) -> Path:
    file, tables = folder / "s.toml", (f'[[task]]\nname = "{place}"\n{words}\n' for place, words in enumerate(tasks))
    file.write_text(f'[cluster]\npreset = "h200"\nservers = {servers}\n' + "".join(tables))
    return file


@pytest.mark.parametrize(
    ("servers", "tasks"),
    [
        (128, ['move = "zipf:0.8"'] * 9),  # matrices
        (32, ['move = "all-to-all"\nsize = "1 MB"\ngroups = "servers"'] * 5),  # a matrix of all ranks for each group
        (512, ['move = "all-reduce"\nsize = "1 MB"'] * 3),
        (8192, ['compute = "1 ms"'] * 200),  # ranks
    ],
)
def test_steps_that_name_too_many_pairs_of_ranks_are_refused(tmp_path: Path, servers: int, tasks: list[str]) -> None:
    with pytest.raises(LimitExceeded, match=r"name \d+ pairs of ranks in all; at most 8388608"):
        read_step(_step(tmp_path, servers, *tasks))


def test_a_step_times_very_much_does_not_wrap(tmp_path: Path) -> None:
    def steps(times: int) -> Path:
        return _step(tmp_path, 1, 'move = "uniform"\nsize = "8 GB"', f'transposed = "0"\ntimes = {times}')

    doubled = read_step(steps(2)).tasks[1].what
    assert isinstance(doubled, il.Demand) and doubled.bytes_matrix[0, 1] == 2 * 10**9
    for times in (2**30, 2**62, 10**30):
        with pytest.raises(InvalidInput, match=r"times='\d+' must be a whole number from 1 to 72057594"):
            read_step(steps(times))


def test_an_unknown_name_among_thousands_is_refused_in_a_few_words(tmp_path: Path) -> None:
    tasks = [f'compute = "1 ms"\nafter = ["{"x" * 300}"]'] * 2000
    with pytest.raises(InvalidInput, match=r"after names 'x+'; known: 1, 10, ") as refused:
        read_step(_step(tmp_path, 1, *tasks))
    assert len(str(refused.value)) < 1000


def test_a_sweep_over_large_clusters_is_read_at_once(tmp_path: Path) -> None:
    file = tmp_path / "g.toml"
    file.write_text('traffic = ["zipf:0.8", "zipf:0.9"]\n[[clusters]]\npreset = "h200"\nservers = [2, 900, 1000]\n')
    assert len(read_grid(file).clusters) == 3
    file.write_text('traffic = ["zipf:3"]\n[[clusters]]\npreset = "h200"\nservers = [1000, 2]\n')
    with pytest.raises(InvalidInput, match="skew"):  # on the smallest of them all is checked
        read_grid(file)
