"""Real schedules from other tools: each verifies, or is refused for the reason given here."""

from __future__ import annotations

from pathlib import Path

import pytest

import interlock as il
from interlock.interchange import Intent, read_foreign
from interlock.traffic import read_demand
from interlock.validate import check

VALID = {
    "msccl_xml/allreduce-allpairs-8n-ll-32tb.xml": 448,
    "msccl_xml/alltoall-8n-0-9kb.xml": 56,
    "msccl_xml/alltoall-8n-9kb-190kb.xml": 112,
    "msccl_xml/alltoall-8n-190kb-512kb.xml": 224,
    "msccl_xml/astra_custom_allreduce_8npus.xml": 112,
    "examples/msccl_a2av_direct_4gpu.xml": 12,
    "examples/msccl_alltoall_2gpu.xml": 2,
    "examples/msccl_alltoall_twostep_2x2.xml": 12,
    "examples/mscclpp_allreduce_nvls_2gpu.json": 32,
    "examples/mscclpp_alltoall_2gpu.json": 4,
    "examples/mscclpp_sendrecv_2rank_port.json": 2,
}


@pytest.mark.parametrize(("name", "num_messages"), VALID.items())
def test_programs_that_name_their_collective_verify(name: str, num_messages: int, shared_data: Path) -> None:
    found = read_foreign(shared_data / name)
    assert found.violations == ()
    assert check(found.schedule, found.problem).valid
    assert found.schedule.num_messages == num_messages


def test_an_alltoallv_program_is_held_against_its_chunk_matrix(shared_data: Path) -> None:
    matrix = read_demand(shared_data / "examples/msccl_a2av_2x2_chunks.csv", scale_bytes=4096)
    file = shared_data / "examples/msccl_a2av_direct_4gpu.xml"
    found = read_foreign(file, Intent(demand=matrix))
    assert found.violations == () and check(found.schedule, found.problem).valid
    assert any("chunks of 4096 bytes" in note for note in found.notes)
    with pytest.raises(il.InvalidInput, match="no chunk size makes the demand"):
        read_foreign(file, Intent(demand=il.traffic.matrix([[0, 9, 1, 1]] * 4)))


@pytest.mark.parametrize("target", ["chakra_et/custom_allreduce_8npus", "chakra_et/custom_allreduce_8npus.3.et"])
def test_a_ring_all_reduce_trace_is_understood_from_its_dependencies(target: str, shared_data: Path) -> None:
    found = read_foreign(shared_data / target, Intent(collective="all-reduce"))
    assert found.violations == () and check(found.schedule, found.problem).valid
    assert found.problem.collective is not None and found.problem.collective.size_bytes == 2**20
    assert any("inferred" in note for note in found.notes)


def test_an_alltoallv_trace_is_held_against_its_demand(shared_data: Path) -> None:
    folder = shared_data / "examples/chakra_a2av_2rank"
    found = read_foreign(folder, Intent(demand=il.traffic.matrix([[0, 3_000_000], [1_000_000, 0]])))
    assert check(found.schedule, found.problem).valid
    short = read_foreign(folder, Intent(demand=il.traffic.matrix([[0, 3_000_001], [1_000_000, 0]])))
    assert not check(short.schedule, short.problem).valid


def test_htsim_flows_are_held_against_their_demand(shared_data: Path) -> None:
    demand = il.traffic.matrix([[0, 0, 3_000_000, 0], [0] * 4, [1_000_000, 0, 0, 0], [0] * 4])
    found = read_foreign(shared_data / "examples/htsim_a2av.cm", Intent(demand=demand))
    assert check(found.schedule, found.problem).valid


REFUSED = {
    "chakra_et/all_to_all_4npus_1MB.0.et": "leaves the algorithm to the simulator",
    "examples/timeline_chrome_trace.json": "is a timeline",
    "examples/nccl_tests_a2av_matrix_8.txt": "what to move, not how",
    "examples/msccl_a2av_2x2_chunks.csv": "what to move, not how",
    "moe/a2av-128_chunks.csv": "what to move, not how",
    "examples/timeline_min.pftrace": "in no format that is known here",
    "nccl_topo/ndv4-topo.xml": "not an MSCCL algorithm",
}


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_files_without_a_schedule_are_refused_with_the_reason(name: str, reason: str, shared_data: Path) -> None:
    with pytest.raises(il.InvalidInput, match=reason):
        read_foreign(shared_data / name)
