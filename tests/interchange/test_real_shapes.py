"""Programs shaped like those that tools in the field write: in place, swapped sums, packets, groups of threadblocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.interchange import read_foreign
from interlock.interchange.shared.chunks.transfers import SWAPPED
from interlock.validate import check

ALGO = '<algo name="x" proto="LL" nchannels="1" nchunksperloop="{chunks}" ngpus="{gpus}" coll="{coll}" inplace="1" '
ALGO += 'outofplace="0" minBytes="0" maxBytes="0">'


def step(number: int, kind: str, source: str, target: str, count: int = 1, wait: str = "-1,-1", has: int = 0) -> str:
    """A step; places are written like i3."""
    depid, deps = wait.split(",")
    return (
        f'<step s="{number}" type="{kind}" srcbuf="{source[0]}" srcoff="{source[1:]}" dstbuf="{target[0]}" '
        f'dstoff="{target[1:]}" cnt="{count}" depid="{depid}" deps="{deps}" hasdep="{has}"/>'
    )


def block(number: int, send: int, receive: int, *steps: str) -> str:
    return f'<tb id="{number}" send="{send}" recv="{receive}" chan="0">{"".join(steps)}</tb>'


def verified(path: Path) -> Any:
    """Read and check; returns what was read."""
    found = read_foreign(path)
    assert found.violations == (), found.violations[:3]
    report = check(found.schedule, found.problem)
    assert report.valid, str(report)
    return found


@pytest.mark.parametrize("inputs", [0, 1])
def test_in_place_all_gathers_declare_one_buffer(inputs: int, tmp_path: Path) -> None:
    """RCCL's files say i_chunks="0", TACCL's i_chunks="1"; both name only the output."""
    gpus = ""
    for gpu in range(3):
        others = [peer for peer in range(3) if peer != gpu]
        takes = [block(k, -1, peer, step(0, "r", f"o{peer}", f"o{peer}")) for k, peer in enumerate(others)]
        gives = [block(2 + k, peer, -1, step(0, "s", f"o{gpu}", f"o{gpu}")) for k, peer in enumerate(others)]
        gpus += f'<gpu id="{gpu}" i_chunks="{inputs}" o_chunks="3" s_chunks="0">{"".join(takes + gives)}</gpu>'
    (tmp_path / "a.xml").write_text(ALGO.format(chunks=3, gpus=3, coll="allgather") + gpus + "</algo>")
    assert verified(tmp_path / "a.xml").schedule.num_messages == 6


def test_in_place_reduce_scatters_leave_the_sum_in_the_input(tmp_path: Path) -> None:
    gpus = "".join(
        f'<gpu id="{g}" i_chunks="2" o_chunks="0" s_chunks="0">'
        + block(0, 1 - g, 1 - g, step(0, "s", f"i{1 - g}", f"i{1 - g}"), step(1, "rrc", f"i{g}", f"i{g}"))
        + "</gpu>"
        for g in (0, 1)
    )
    (tmp_path / "a.xml").write_text(ALGO.format(chunks=2, gpus=2, coll="reduce_scatter") + gpus + "</algo>")
    assert verified(tmp_path / "a.xml").schedule.num_messages == 2


def one_pass_all_reduce(gpus: int) -> str:
    """Everyone sends everything to everyone's scratch, and adds there: sums are formed at their destinations only."""
    text = ""
    for gpu in range(gpus):
        others = [peer for peer in range(gpus) if peer != gpu]
        blocks = []
        for k, peer in enumerate(others):
            give, take = step(0, "s", "i0", f"s{k}", has=1), step(1, "r", "i0", f"s{k}", has=1)
            blocks.append(block(k, peer, peer, give, take))
        waits = [f"{k},{s}" for k in range(len(others)) for s in (0, 1)]
        nops = [step(n, "nop", "i-1", "o-1", 0, wait) for n, wait in enumerate(waits[:-1])]
        adds = [
            step(len(nops) + k, "re", f"s{k}", "i0", wait=waits[-1] if k == 0 else "-1,-1") for k in range(len(others))
        ]
        blocks.append(block(len(others), -1, -1, *nops, *adds))
        text += f'<gpu id="{gpu}" i_chunks="1" o_chunks="0" s_chunks="{len(others)}">{"".join(blocks)}</gpu>'
    return ALGO.format(chunks=1, gpus=gpus, coll="allreduce") + text + "</algo>"


def test_one_pass_all_reduces_are_followed_contribution_by_contribution(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(one_pass_all_reduce(3))
    found = verified(tmp_path / "a.xml")
    assert SWAPPED in found.notes and found.schedule.num_messages == 6
    assert found.schedule.size_bytes.tolist() == [1] * 6


def test_a_one_pass_all_reduce_without_its_dependencies_is_a_race(tmp_path: Path) -> None:
    text = one_pass_all_reduce(3)
    first_add = text.index('type="re"')
    at = text.index('depid="', first_add)
    end = text.index('hasdep="', at)
    (tmp_path / "a.xml").write_text(text[:at] + 'depid="-1" deps="-1" ' + text[end:])
    with pytest.raises(Exception, match="the last dependency of a chain"):
        read_foreign(tmp_path / "a.xml")


def test_recursive_doubling_swaps_sums_of_sums(tmp_path: Path) -> None:
    """Two rounds over four GPUs: what is sent in the second is the sum of the first."""
    gpus = ""
    for gpu in range(4):
        near, far = gpu ^ 1, gpu ^ 2
        rounds = [
            block(0, near, near, step(0, "s", "i0", "s0"), step(1, "r", "i0", "s0"), step(2, "re", "s0", "i0", has=1)),
            block(
                1, far, far, step(0, "s", "i0", "s1", wait="0,2"), step(1, "r", "i0", "s1"), step(2, "re", "s1", "i0")
            ),
        ]
        gpus += f'<gpu id="{gpu}" i_chunks="1" o_chunks="0" s_chunks="2">{"".join(rounds)}</gpu>'
    (tmp_path / "a.xml").write_text(ALGO.format(chunks=1, gpus=4, coll="allreduce") + gpus + "</algo>")
    found = verified(tmp_path / "a.xml")
    assert SWAPPED in found.notes
    assert sorted(found.schedule.size_bytes.tolist()) == [1] * 4 + [2] * 4
    broken = (tmp_path / "a.xml").read_text().replace('depid="0" deps="2"', 'depid="-1" deps="-1"', 1)
    (tmp_path / "b.xml").write_text(broken)
    assert read_foreign(tmp_path / "b.xml").violations


def part(**place: int | str) -> dict[str, Any]:
    return {"index": 0, "size": 1} | place


def op(name: str, sources: list[dict[str, Any]], targets: list[dict[str, Any]], group: int) -> dict[str, Any]:
    """A packet operation of one member of a group of two threadblocks."""
    made = {"name": name, "src_buff": sources, "dst_buff": targets, "tbg_info": {"tb_id": group, "tbg_size": 2}}
    return made | ({"channel_type": "memory"} if any("buffer_id" in t for t in targets) else {})


def packet_plan() -> dict[str, Any]:
    """An all-reduce of two GPUs by packets, every operation shared by two threadblocks."""
    gpus = []
    for gpu in (0, 1):
        mine, theirs = gpu, 1 - gpu
        blocks = []
        for group in (0, 1):
            give = op("ppkt", [part(type="i", index=theirs)], [part(buffer_id=0, index=theirs)], group)
            add = op(
                "respkt",
                [part(type="i", index=mine), part(type="s", index=mine)],
                [part(type="i", index=mine), part(buffer_id=0, index=2 + mine)],
                group,
            )
            take = op("upkt", [part(type="s", index=2 + theirs)], [part(type="i", index=theirs)], group)
            blocks += [[give], [add], [take]]
        references = [{"access_channel_type": "memory", "remote_buffer_ids": [0]}]
        gpus.append(
            {
                "id": gpu,
                "input_chunks": 2,
                "output_chunks": 2,
                "scratch_chunks": 4,
                "threadblocks": [
                    {"id": k, "ops": ops, "channels": [], "remote_buffer_refs": references}
                    for k, ops in enumerate(blocks)
                ],
                "channels": [],
                "remote_buffers": [{"rank": theirs, "type": "s", "access_channel_types": ["memory"]}],
                "semaphores": [],
            }
        )
    return {"name": "x", "collective": "allreduce", "protocol": "LL", "inplace": True, "gpus": gpus}


def test_packets_and_groups_of_threadblocks_are_understood(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(packet_plan()))
    found = verified(tmp_path / "a.json")
    assert found.schedule.num_messages == 8  # halves of two chunks, there and back


def test_a_packet_that_is_never_sent_is_waited_for_in_vain(tmp_path: Path) -> None:
    plan = packet_plan()
    plan["gpus"][1]["threadblocks"][0]["ops"] = []
    (tmp_path / "a.json").write_text(json.dumps(plan))
    assert any("(respkt) waits forever" in text for text in read_foreign(tmp_path / "a.json").violations)


def test_pipelines_of_sums_in_the_switch_are_understood(tmp_path: Path) -> None:
    def gpu(number: int) -> dict[str, Any]:
        place = [{"switch_channel_id": 0, "index": number, "size": 1}]
        inner = {"name": "glres", "src_buff": place, "dst_buff": place, "channel_type": "switch", "reduce_op": "sum"}
        signal = {"name": "rlxsignal", "channel_ids": [0], "channel_type": "memory"}
        wait = {"name": "rlxwait", "channel_ids": [0], "channel_type": "memory"}
        pipeline = {"name": "pipeline", "iter_context": {"unit_size": 1 << 20, "num_chunks": 1}, "ops": [inner]}
        nop = {"name": "nop"}
        return {
            "id": number,
            "input_chunks": 2,
            "output_chunks": 2,
            "scratch_chunks": 0,
            "threadblocks": [
                {
                    "id": 0,
                    "ops": [signal, wait, nop, pipeline, nop, signal, wait],
                    "channels": [
                        {"channel_type": "memory", "channel_ids": [0]},
                        {"channel_type": "switch", "channel_ids": [0]},
                    ],
                    "remote_buffer_refs": [],
                }
            ],
            "channels": [
                {"channel_type": "memory", "connected_to": [1 - number]},
                {"channel_type": "switch", "buffer_type": "i", "rank_groups": [{"size": 2, "ranks": [0, 1]}]},
            ],
            "remote_buffers": [],
            "semaphores": [],
        }

    top = {"name": "x", "collective": "allreduce", "protocol": "Simple", "inplace": True, "gpus": [gpu(0), gpu(1)]}
    (tmp_path / "a.json").write_text(json.dumps(top))
    assert verified(tmp_path / "a.json").schedule.num_messages == 4
