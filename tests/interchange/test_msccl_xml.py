"""MSCCL XML: form, limits and meaning, each defect with its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import interlock as il
from interlock.interchange import Intent, read_foreign
from interlock.interchange.msccl.flavors import FLAVORS
from interlock.validate import check

MESH = il.topology.fully_connected(4, bandwidth="50 GB/s")

# Two GPUs: GPU 0 relays through scratch, so that every kind of defect can be planted.
SOUND = """<algo name="a" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="alltoall" inplace="0" outofplace="1" minBytes="0" maxBytes="0">
  <gpu id="0" i_chunks="2" o_chunks="2" s_chunks="1">
    <tb id="0" send="-1" recv="1" chan="0">
      <step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"/>
    </tb>
    <tb id="1" send="1" recv="-1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"/>
      <step s="2" type="cpy" srcbuf="s" srcoff="0" dstbuf="o" dstoff="1" cnt="1" depid="0" deps="0" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="2" o_chunks="2" s_chunks="0">
    <tb id="0" send="-1" recv="0" chan="0">
      <step s="0" type="r" srcbuf="i" srcoff="1" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
    <tb id="1" send="0" recv="-1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="cpy" srcbuf="i" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
"""  # noqa: E501

REFUSED = {
    'coll="alltoall"': ('coll="allsing"', "coll='allsing' is not one of"),
    'ngpus="2"': ('ngpus="3"', "gpu 2 is not there"),
    'nchannels="1"': ('nchannels="33"', "nchannels=33 must be between 1 and 32"),
    '<gpu id="1"': ('<gpu id="0"', "gpu 0 is given twice"),
    '<tb id="1" send="1"': ('<tb id="0" send="1"', "gpu 0, threadblock 0 is given twice"),
    '<tb id="1" send="0" recv="-1"': ('<tb id="2" send="0" recv="-1"', "gpu 1 lacks threadblock 1"),
    'send="1" recv="-1"': ('send="0" recv="-1"', "gpu 0, threadblock 1 sends to or receives from its own gpu"),
    'send="0" recv="-1" chan="0"': ('send="0" recv="-1" chan="1"', "chan=1 must be between 0 and 0"),
    '<step s="1" type="cpy" srcbuf="i" srcoff="0"': (
        '<step s="2" type="cpy" srcbuf="i" srcoff="0"',
        "gpu 0, threadblock 1, step 1: s=2; steps must be numbered",
    ),
    'type="s" srcbuf="i" srcoff="1"': (
        'type="ra" srcbuf="i" srcoff="1"',
        "threadblock 1, step 0: type 'ra' adds a residual",
    ),
    'type="s" srcbuf="i" srcoff="0"': ('type="r" srcbuf="i" srcoff="0"', "names no peer to receive from"),
    'srcbuf="i" srcoff="1" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>\n      <step s="1"': (
        'srcbuf="i" srcoff="1" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>\n      <step s="1"',
        "gpu 0, threadblock 1, step 0: chunks 1 to 2 lie outside buffer 'i' of 2 chunks",
    ),
    'dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"': (
        'dstbuf="s" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="1"',
        "gpu 0, threadblock 0, step 0: chunks 1 to 1 lie outside buffer 's' of 1 chunks",
    ),
    'dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"': (
        'dstbuf="s" dstoff="0" cnt="72" depid="-1" deps="-1" hasdep="0"',
        "gpu 1, threadblock 1, step 0: cnt=72 must be between 1 and 71",
    ),
    'depid="0" deps="0"': ('depid="0" deps="1"', "waits for step 1 of threadblock 0, which does not exist"),
    'depid="0" deps="0" ': ('depid="0" deps="-1" ', "both or neither must be -1"),
    'deps="-1" hasdep="1"/>\n    </tb>': ('deps="-1" hasdep="0"/>\n    </tb>', 'which has hasdep="0" and never says'),
    '<tb id="0" send="-1" recv="0" chan="0">': ('<tb id="0" send="-1" recv="-1" chan="0">', "names no peer to receive"),
    "<algo": ("<!DOCTYPE algo [<!ENTITY a 'b'>]><algo", "document types are not read"),
    "</algo>": ("", "not well-formed XML"),
    'i_chunks="2" o_chunks="2" s_chunks="1"': (
        'i_chunks="-2" o_chunks="2" s_chunks="1"',
        "i_chunks=-2 must be between",
    ),
    's_chunks="1"': ('s_chunks="99999999999999999999999"', "is not a whole number"),
    'hasdep="1"/>\n      <step s="2" type="cpy"': (
        'hasdep="1"/>\n      <step s="2" type="nop"',
        None,
    ),
}


@pytest.mark.parametrize("old", REFUSED)
def test_defects_of_form_are_refused_with_their_place(old: str, tmp_path: Path) -> None:
    new, reason = REFUSED[old]
    assert SOUND.count(old) >= 1
    file = tmp_path / "a.xml"
    file.write_text(SOUND.replace(old, new, 1))
    if reason is None:
        found = read_foreign(file)  # a trailing nop is legal, but now a chunk never reaches the output
        assert "output[1] of rank 0 is never written" in found.violations
        return
    with pytest.raises(il.InvalidInput) as caught:
        read_foreign(file)
    assert reason in str(caught.value)


def test_the_sound_program_verifies(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(SOUND)
    found = read_foreign(tmp_path / "a.xml")
    assert found.violations == () and check(found.schedule, found.problem).valid


def test_names_that_microsofts_msccl_cuts_off_are_noted(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(SOUND.replace('name="a"', f'name="{"a" * 64}"'))
    assert any("longer than 63 characters" in note for note in read_foreign(tmp_path / "a.xml").notes)


WRONG = {
    "a missing dependency": (
        'depid="0" deps="0"',
        'depid="-1" deps="-1"',
        "gpu 0, threadblock 1, step 2 reads scratch[0] of rank 0, where nothing was put before",
    ),
    "a wrong place": (
        'srcoff="0" dstbuf="o" dstoff="0"',
        'srcoff="1" dstbuf="o" dstoff="0"',
        "output[0] of rank 0 holds",
    ),
    "a message that is never sent": (
        'type="s" srcbuf="i" srcoff="0" dstbuf="s"',
        'type="cpy" srcbuf="i" srcoff="0" dstbuf="o"',
        "gpu 0, threadblock 0, step 0 never runs: gpu 1 sends it nothing",
    ),
    "a message that is never received": (
        'type="r" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0"',
        'type="cpy" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0"',
        "1 sends from gpu 1 to gpu 0 on channel 0 are never received",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_defects_of_meaning_are_violations_with_their_place(name: str, tmp_path: Path) -> None:
    old, new, reason = WRONG[name]
    (tmp_path / "a.xml").write_text(SOUND.replace(old, new, 1))
    found = read_foreign(tmp_path / "a.xml")
    assert any(reason in text for text in found.violations), found.violations


def test_a_nop_that_waits_for_nothing_is_refused(tmp_path: Path) -> None:
    nop = (
        '<step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" depid="-1" deps="-1" hasdep="0"/>'
    )
    text = SOUND.replace('<step s="1" type="cpy" srcbuf="i" srcoff="1"', '<step s="2" type="cpy" srcbuf="i" srcoff="1"')
    text = text.replace(
        '<step s="0" type="s" srcbuf="i" srcoff="0"', nop + '<step s="1" type="s" srcbuf="i" srcoff="0"'
    )
    (tmp_path / "a.xml").write_text(text)
    with pytest.raises(il.InvalidInput, match="a nop that waits for nothing shifts"):
        read_foreign(tmp_path / "a.xml")


def test_a_sum_that_counts_a_rank_twice_is_noticed(tmp_path: Path) -> None:
    step = (
        '<step s="{}" type="{}" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>'
    )
    gpus = "".join(
        f'<gpu id="{g}" i_chunks="1" o_chunks="1" s_chunks="0"><tb id="0" send="{1 - g}" recv="{1 - g}" chan="0">'
        + step.format(0, "s")
        + step.format(1, "rrc")
        + step.format(2, "re")
        + "</tb></gpu>"
        for g in (0, 1)
    )
    head = '<algo name="a" proto="LL" nchannels="1" nchunksperloop="1" ngpus="2" coll="allreduce" inplace="0">'
    (tmp_path / "a.xml").write_text(head + gpus + "</algo>")
    found = read_foreign(tmp_path / "a.xml")
    assert any("adds rank 0's contribution to chunk 0 a second time" in text for text in found.violations)
    assert "RCCL would not take it: lacks outofplace, minBytes, maxBytes" in found.notes


def test_fused_steps_mean_what_their_parts_mean(tmp_path: Path) -> None:
    """rcs, rrs and rrcs on a line of three GPUs: sum to the end, then copy back."""

    def block(number: int, send: int, receive: int, kind: str) -> str:
        return (
            f'<tb id="{number}" send="{send}" recv="{receive}" chan="0"><step s="0" type="{kind}" srcbuf="i" '
            'srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/></tb>'
        )

    blocks = [
        block(0, 1, -1, "s") + block(1, -1, 1, "r"),
        block(0, 2, 0, "rrs") + block(1, 0, 2, "rcs"),
        block(0, 1, 1, "rrcs"),
    ]
    gpus = "".join(f'<gpu id="{g}" i_chunks="1" o_chunks="1" s_chunks="0">{b}</gpu>' for g, b in enumerate(blocks))
    head = (
        '<algo name="a" proto="LL" nchannels="1" nchunksperloop="1" ngpus="3" coll="allreduce" inplace="0" '
        'outofplace="1" minBytes="0" maxBytes="0">'
    )
    (tmp_path / "a.xml").write_text(head + gpus + "</algo>")
    found = read_foreign(tmp_path / "a.xml")
    assert found.violations == () and check(found.schedule, found.problem).valid
    assert found.schedule.num_messages == 4


def test_large_messages_stay_within_every_limit(tmp_path: Path) -> None:
    cluster = il.cluster("h200", servers=4, gpus_per_server=4)
    plan = il.plan(cluster, il.traffic.zipf(cluster, bytes_per_gpu="64 MB", seed=2), "pxn")
    plan.export("msccl-xml", tmp_path / "a.xml")
    text = (tmp_path / "a.xml").read_text()
    counts = [int(part.split('"')[0]) for part in text.split(' cnt="')[1:]]
    steps = [int(part.split('"')[0]) for part in text.split('<step s="')[1:]]
    assert max(counts) <= 71 and max(steps) <= 63


def test_nothing_is_sent_beyond_the_demand(tmp_path: Path) -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=4)
    hot = np.zeros((4, 4), np.int64)
    hot[1:, 0] = 3 * 4096
    report = il.plan(cluster, il.traffic.matrix(hot), "direct").export("msccl-xml", tmp_path / "a.xml")
    assert report.chunk_policy == "exact" and report.inflation == 0.0
    assert [path.name for path in report.files] == ["a.xml", "a.chunks.csv"]
    matrix = np.loadtxt(tmp_path / "a.chunks.csv", delimiter=",", dtype=np.int64)
    assert (matrix * report.chunk_bytes == hot).all()
    text = (tmp_path / "a.xml").read_text()
    assert text.count('type="s"') == 3 and 'i_chunks="3" o_chunks="3"' in text


def test_demand_is_held_against_padded_files_too(tmp_path: Path) -> None:
    cluster = il.cluster("h200", servers=1, gpus_per_server=4)
    demand = il.traffic.matrix(np.arange(16).reshape(4, 4) * 1000)
    il.plan(cluster, demand, "direct").export("msccl-xml", tmp_path / "a.xml", chunk_bytes=4096)
    found = read_foreign(tmp_path / "a.xml", Intent(demand=demand))
    assert found.violations == () and check(found.schedule, found.problem).valid
    other = il.traffic.matrix(np.arange(16).reshape(4, 4) * 2000)
    assert not check(*_pair(tmp_path / "a.xml", other)).valid


def _pair(file: Path, demand: il.Demand):  # type: ignore[no-untyped-def]
    found = read_foreign(file, Intent(demand=demand))
    return found.schedule, found.problem


@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize(
    "wanted", [il.reduce_scatter("64 KiB"), il.all_gather("64 KiB"), il.broadcast("64 KiB", root=1)]
)
def test_every_flavor_takes_what_is_written_for_it(flavor: str, wanted: il.Collective, tmp_path: Path) -> None:
    plan = il.synthesize(MESH, wanted, "direct")
    plan.export("msccl-xml", tmp_path / "a.xml", flavor=flavor)
    notes = read_foreign(tmp_path / "a.xml", Intent(root=1)).notes
    assert not [note for note in notes if note.startswith(FLAVORS[flavor].reader)], notes
    if wanted.kind == "reduce-scatter":
        other = "RCCL" if flavor == "msccl" else "microsoft/msccl"
        assert any(note.startswith(f"{other} would not take it: coll=") for note in notes)


def test_byte_ranges_mean_what_each_reader_makes_of_them() -> None:
    def takes(name: str, least: int, most: int, size: int) -> bool:
        """Whether a file with that range is chosen for a call of that many bytes."""
        return least <= size < most if name == "msccl" else least <= size and (most == 0 or size <= most)

    for name, flavor in FLAVORS.items():
        any_size, one_size = flavor.sizes(None), flavor.sizes(4096)
        assert all(takes(name, *any_size, size) for size in (1, 2**20, 2**40))
        assert [takes(name, *one_size, size) for size in (4095, 4096, 4097)] == [False, True, False]


def test_collectives_that_a_reader_never_calls_are_refused(tmp_path: Path) -> None:
    plan = il.synthesize(MESH, il.gather("64 KiB"), "direct")
    with pytest.raises(il.InvalidInput, match="never calls a gather"):
        plan.export("msccl-xml", tmp_path / "a.xml", flavor="msccl")
    with pytest.raises(il.InvalidInput, match="unknown flavor 'nccl'"):
        plan.export("msccl-xml", tmp_path / "a.xml", flavor="nccl")


def test_a_rooted_collective_is_pinned_to_its_size_and_says_whose_root_it_serves(tmp_path: Path) -> None:
    plan = il.synthesize(MESH, il.broadcast("64 KiB", root=2), "direct")
    report = plan.export("msccl-xml", tmp_path / "a.xml")
    assert any("right for root 2 only" in note for note in report.notes)
    assert 'minBytes="65536" maxBytes="65536"' in (tmp_path / "a.xml").read_text()
