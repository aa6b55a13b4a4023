"""`interlock lab` says on what its figures hang: traffic, queues, TCP. The network and its ranks are left out here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import interlock.lab
from interlock.cli import lab
from interlock.cli.main import run
from interlock.lab import LabSpec, StepRow, congestion_control, dispatched

ROOT = Path(__file__).parent.parent.parent
SPEC = LabSpec(2, 2, 1e6, 1e7, port_queue_bytes=40_000)


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


def test_a_lab_is_named_with_the_queue_of_its_ports_and_its_congestion_control(
    no_network: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gain over torch's own call is 1.04 to 2.07 by these two (docs/howto/lab.md)."""
    monkeypatch.setattr(interlock.lab, "congestion_control", lambda: "vegas")
    assert run(["lab", "step", "--size", "1MB", "--json"]) == 0
    name = json.loads(capsys.readouterr().out)["problem"]["name"]
    assert name.endswith("2x2, NICs 8 Mb/s, scale-up 80 Mb/s, ports of 40 kB, TCP vegas")


def test_congestion_control_is_that_of_the_machine() -> None:
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    assert congestion_control() in (known.read_text().split() if known.exists() else ["unknown"])


@pytest.mark.parametrize("picture", ["lab", "torchrun"])
def test_pictures_of_the_lab_s_gain_show_both_queues_and_both_congestion_controls(picture: str) -> None:
    drawn = (ROOT / "docs" / "images" / f"howto-{picture}.svg").read_text()
    rows = json.loads((ROOT / "benchmarks" / "results" / "lab_queues.json").read_text())["rows"]
    gains = {(row["congestion control"], row["queue kB"]): f", {row['faster']:.2f}x faster<" for row in rows}
    for tcp in ("bbr", "cubic"):
        for queue in (24, 150):
            assert drawn.count(f", {tcp}, ports of {queue} kB<") == 2 and gains[tcp, queue] in drawn
    assert drawn.count("x faster") == 4
