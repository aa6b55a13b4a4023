"""`interlock lab step` says how uneven what it dispatches is; the network and its ranks are left out here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import interlock.lab
from interlock.cli import lab
from interlock.cli.main import run
from interlock.lab import LabSpec, StepRow, dispatched

SPEC = LabSpec(2, 2, 1e6, 1e7)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def network(*given: Any) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(spec=SPEC)

    @contextmanager
    def ranks_in(network: object) -> Iterator[None]:
        yield None

    row = StepRow("serial", True, 1.0, 1.0, 1.0, 1.0, 1.0, 1)
    monkeypatch.setattr(lab, "_need_torch", lambda: None)
    monkeypatch.setattr(lab, "_network", network)
    monkeypatch.setattr(interlock.lab, "ranks_in", ranks_in)
    monkeypatch.setattr(interlock.lab, "compare_step_in_lab", lambda *given, **named: (row,))


def test_lab_step_says_how_uneven_its_traffic_is(no_network: None, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = dispatched(SPEC.to_cluster(), 10**6, 0.4, 3).unevenness
    words = ["lab", "step", "--size", "1MB", "--skew", "0.4", "--seed", "3"]
    assert run(words) == 0
    assert f"Traffic of dispatch: {wanted.summary}." in " ".join(capsys.readouterr().out.split())
    assert run([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["problem"]["unevenness"]
    assert told["received_gini"] == wanted.received_gini and wanted.pairs_gini > 0.1
