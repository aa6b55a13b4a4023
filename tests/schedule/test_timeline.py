"""The Chrome trace of a schedule, number by number."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from interlock.ragged import Ragged
from interlock.schedule import Kind, TaskRows
from interlock.schedule.timeline import chrome_trace_lines
from simulate.strategies import bare_schedule


def events(*arguments: object) -> list[dict[str, Any]]:
    """What a trace of these says."""
    made = json.loads("".join(chrome_trace_lines(*arguments)))  # type: ignore[arg-type]
    assert (made["displayTimeUnit"], made["otherData"]) == ("ns", {"times": "simulated"})
    return list(made["traceEvents"])


def test_a_message_is_an_event_of_its_sender_in_microseconds() -> None:
    rows = bare_schedule([1, 0], [2, 1], [30, 40], stage=[0, 3])
    rows = replace(rows, dst=Ragged.from_lists([[0, 2], [1]]), phase=np.array([2, 4], np.uint8))
    named, *sent = np.array_split(events(rows, 3, np.array([0.5, 1.25]), np.array([2.0, 1.5])), [3])
    assert [(event["ph"], event["pid"], event["args"]["name"]) for event in named] == [
        ("M", 0, "rank 0"),
        ("M", 1, "rank 1"),
        ("M", 2, "rank 2"),
    ]
    second, first = sent[0].tolist()
    assert first == {
        "ph": "X",
        "pid": 1,
        "tid": 1,
        "name": "1->0+2 stage 0",
        "cat": "scale-out",
        "ts": 500_000.0,
        "dur": 1_500_000.0,
        "args": {"message": 0, "bytes": 30, "stage": 0},
    }
    assert (second["name"], second["ts"], second["dur"]) == ("0->1 stage 3", 1_250_000.0, 250_000.0)


def test_a_task_has_a_row_above_from_its_first_message_of_a_rank_to_its_last() -> None:
    """Rank 0 sends twice for task 1 and computes task 0; rank 1 sends once for task 1; a wait of no task is unseen."""
    rows = bare_schedule([0, 0, 0, 1, 1], [1, 1, 0, 0, 1], [5, 5, 0, 5, 0])
    kind = np.where(rows.src.values == rows.dst.values, Kind.WAIT, Kind.COPY).astype(np.uint8)
    tasks = TaskRows(np.array([1, 1, 0, 1, -1], np.int32), np.array([0.0, 0.0, 3.0, 0.0, 1.0]))
    start, end = np.array([1.0, 2.0, 4.0, 2.0, 0.0]), np.array([2.0, 4.0, 7.0, 3.5, 1.0])
    made = events(replace(rows, kind=kind, tasks=tasks), 2, start, end, ["work", "send"])[2:]
    above = [event for event in made if event.get("cat") == "task"]
    assert [(e["pid"], e["tid"], e["name"], e["ts"], e["dur"]) for e in above] == [
        (0, 1, "work", 4e6, 3e6),
        (0, 2, "send", 1e6, 3e6),
        (1, 2, "send", 2e6, 1.5e6),
    ]
    names = [(e["pid"], e["tid"], e["args"]["name"]) for e in made if e["ph"] == "M"]
    assert names == [(0, 1, "work"), (0, 2, "send"), (1, 2, "send")]
    below = [e for e in made if e["ph"] == "X" and e.get("cat") != "task"]
    assert [(e["pid"], e["tid"], e["args"]["message"]) for e in below] == [(0, 3, 0), (0, 3, 1), (1, 3, 3)]
