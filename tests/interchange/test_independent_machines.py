"""Exports executed by machines that share no code with the exporters or readers, on numbers and in random orders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.interchange.msccl_machine import run as run_msccl
from tests.interchange.mscclpp_machine import Machine
from tests.interchange.problems import problems

from interlock.algorithms import registry
from interlock.collectives import CollectiveKind
from interlock.interchange.shared.chunks.layout import lay_out
from interlock.interchange.shared.chunks.quantise import ChunkPolicy, quantise
from interlock.planning import Plan, solve
from interlock.problem import Problem

CASES = [
    (name, label)
    for name in registry.names()
    for label, problem in problems()
    if label.split(" on ")[-1] != "a ring" and registry.get(name).supports(problem) is None
]


def made(name: str, label: str) -> Plan:
    """The plan of one case."""
    return solve(dict(problems())[label], name)


def check_collective(problem: Problem, outputs: list[list[float | None]]) -> None:
    """Every output chunk holds what the collective says, computed from buffer sizes alone."""
    ranks = len(outputs)
    assert problem.collective is not None
    kind, root = problem.collective.kind, problem.collective.root
    for rank, output in enumerate(outputs):
        for k, value in enumerate(output):
            want: float | None
            if kind is CollectiveKind.ALL_REDUCE or (kind is CollectiveKind.REDUCE and rank == root):
                want = sum(1000.0 * r + k for r in range(ranks))
            elif kind is CollectiveKind.REDUCE_SCATTER:
                want = sum(1000.0 * r + rank * len(output) + k for r in range(ranks))
            elif kind is CollectiveKind.ALL_GATHER or (kind is CollectiveKind.GATHER and rank == root):
                share = len(output) // ranks
                want = 1000.0 * (k // share) + k % share
            elif kind is CollectiveKind.ALL_TO_ALL:
                share = len(output) // ranks
                want = 1000.0 * (k // share) + rank * share + k % share
            elif kind is CollectiveKind.BROADCAST:
                want = 1000.0 * root + k
            elif kind is CollectiveKind.SCATTER:
                want = 1000.0 * root + rank * len(output) + k
            else:
                continue
            padding = value is None and k >= len(output) - 2
            assert value == want or padding, (kind, rank, k)


def blocks_of(matrix: np.ndarray) -> list[list[float]]:
    """Outputs of an All-to-Allv by its chunk matrix: by source, each from the source's own prefix sums."""
    starts = np.cumsum(matrix, axis=1) - matrix
    return [
        [1000.0 * i + starts[i, j] + k for i in range(len(matrix)) for k in range(matrix[i, j])]
        for j in range(len(matrix))
    ]


@pytest.mark.parametrize(("name", "label"), CASES)
def test_programs_compute_what_they_should_in_any_order(name: str, label: str, tmp_path: Path) -> None:
    plan = made(name, label)
    plan.export("msccl-xml", tmp_path / "a.xml")
    plan.export("mscclpp-json", tmp_path / "a.json")
    xml, plain = (tmp_path / "a.xml").read_text(), (tmp_path / "a.json").read_text()
    for seed in range(2):
        one, other = run_msccl(xml, seed), Machine(plain).run(seed)
        if plan.problem.demand is None:
            check_collective(plan.problem, one)
            check_collective(plan.problem, other)
            continue
        for outputs, size in (
            (one, xml.split("chunk_bytes=")[1].split(" ")[0]),
            (other, plain.split('"chunk_bytes": ')[1].split("\n")[0]),
        ):
            assert int(size) % 16 == 0
            whole = blocks_of(chunk_matrix(plan, int(size)))
            assert [out[: len(want)] for out, want in zip(outputs, whole, strict=True)] == whole


def chunk_matrix(plan: Plan, chunk_bytes: int) -> np.ndarray:
    """Chunks between ranks."""
    quantised = quantise(plan.schedule, plan.problem, ChunkPolicy(chunk_bytes))
    matrix = lay_out(plan.problem, quantised, equal_buffers=False).chunk_matrix
    assert matrix is not None
    return matrix
