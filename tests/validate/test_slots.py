"""Compact forms are checked as streams, and agree with a slow reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.ragged import Ragged
from interlock.validate import ChunkGoal, Rule, check_slot_table

NOTHING = 2**16 - 1


def ring_goal(num_nodes: int) -> ChunkGoal:
    node = np.arange(num_nodes, dtype=np.int32)
    return ChunkGoal(
        node, Ragged.from_lists([node.tolist()]), node, ((node + 1) % num_nodes).astype(np.int32), num_nodes
    )


def ring_table(num_nodes: int) -> np.ndarray:
    """All-Gather round the ring: in slot s, link l passes on the chunk of s nodes before."""
    slot, link = np.mgrid[: num_nodes - 1, :num_nodes]
    return np.ascontiguousarray((link - slot) % num_nodes, np.uint16)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_ring_all_gather_is_valid_in_both_directions(dtype: type) -> None:
    table = ring_table(5).astype(dtype)
    assert check_slot_table(table, ring_goal(5)).valid
    # Read backwards it is a spreading only if the links are reversed too, which is what a reduction needs.
    backwards = np.ascontiguousarray(table[::-1])
    reverse = ring_goal(5)
    reverse = ChunkGoal(reverse.origin, reverse.destinations, reverse.link_dst, reverse.link_src, 5)
    assert check_slot_table(backwards, reverse, is_reversed=True).valid


def test_chunk_sent_in_the_slot_it_arrives_is_caught() -> None:
    table = ring_table(4)
    table[[0, 1]] = table[[1, 0]]
    report = check_slot_table(table, ring_goal(4))
    assert report.violations[0].rule is Rule.HELD_BEFORE_SENT


def test_missing_chunk_names_node_and_chunk() -> None:
    table = ring_table(4)
    table[2, 1] = NOTHING
    report = check_slot_table(table, ring_goal(4))
    assert [(v.rule, v.entry, v.node, v.chunk) for v in report.violations] == [(Rule.DESTINATION_HOLDS, None, 2, 3)]


def reference_is_valid(table: np.ndarray, goal: ChunkGoal) -> bool:
    """What the rules say, with sets."""
    holds = [{chunk for chunk, origin in enumerate(goal.origin) if origin == node} for node in range(goal.num_nodes)]
    for row in table.tolist():
        arriving = []
        for link, chunk in enumerate(row):
            if chunk == NOTHING:
                continue
            if chunk >= len(goal.origin) or chunk not in holds[goal.link_src[link]]:
                return False
            arriving.append((goal.link_dst[link], chunk))
        for node, chunk in arriving:
            if chunk in holds[node]:
                return False
            holds[node].add(chunk)
    everyone = len(goal.destinations) == 1
    return all(
        chunk in holds[node]
        for chunk in range(len(goal.origin))
        for node in goal.destinations[0 if everyone else chunk]
    )


@settings(max_examples=300, deadline=None)
@given(
    num_nodes=st.integers(2, 5),
    changes=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(-1, 5)), max_size=3),
)
def test_changed_tables_are_judged_as_the_reference_does(num_nodes: int, changes: list[tuple[int, int, int]]) -> None:
    table, goal = ring_table(num_nodes), ring_goal(num_nodes)
    for slot, link, chunk in changes:
        table[slot % len(table), link % num_nodes] = NOTHING if chunk < 0 else chunk
    expected = reference_is_valid(table, goal)
    assert check_slot_table(table, goal).valid == expected
    each = ChunkGoal(
        goal.origin, Ragged.from_lists([[0, num_nodes - 1]] * num_nodes), goal.link_src, goal.link_dst, num_nodes
    )
    assert check_slot_table(table, each).valid == reference_is_valid(table, each)
