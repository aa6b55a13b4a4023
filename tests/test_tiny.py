"""The public surface in under a second; pre-commit runs this."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

import interlock as il


def test_the_main_path_works_end_to_end() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    demand = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="1 MB", seed=0)
    plan = il.plan(cluster, demand, algorithm="direct")
    proof = plan.certificate()
    assert proof.valid and proof.makespan_s >= proof.lower_bound_s > 0
    assert proof.binds and abs(proof.gap - (proof.makespan_s / proof.lower_bound_s - 1)) < 1e-12
    assert plan.simulate().finish_s.shape == plan.messages["src"].shape
    table = il.compare(cluster, demand)
    assert "direct" in str(table) and table.best().valid


def test_a_matrix_is_planned_as_given() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=1)
    plan = il.plan(cluster, il.traffic.matrix(np.array([[5, 7], [3, 1]])), algorithm="direct")
    sent = dict(zip(plan.messages["src"].tolist(), plan.messages["size_bytes"].tolist(), strict=True))
    assert sent == {0: 7, 1: 3}


def test_importing_pulls_in_numpy_and_the_core_only() -> None:
    code = (
        "import interlock, sys; "
        "print(sorted({'torch', 'plotly', 'typer', 'rich', 'highspy', 'networkx', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
