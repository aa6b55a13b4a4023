"""One small schedule per rule, broken in one place, and what the validator says about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from interlock.topology import cluster, from_edges, fully_connected
from interlock.validate import Rule, Violation, check
from interlock.validate.report import describe
from validate.cases import (
    barrier_all_reduce,
    combine,
    direct_all_to_all,
    group_all_reduce,
    in_switch_all_reduce,
    in_switch_reduction,
    multicast_tree,
    relayed_all_to_all,
    ring_all_gather,
    ring_all_reduce,
    scattered_broadcast,
    tree_all_reduce,
)
from validate.rows import COPY, REDUCE, WAIT, Case


def first(case: Case) -> Violation:
    """The first thing the validator finds."""
    report = case.check()
    assert not report.valid
    return report.violations[0]


# Each entry breaks one row of a valid case: builder, change, rule, and where it must be found.
BROKEN: list[tuple[str, Callable[[], Case], Callable[[Case], object], Rule, dict[str, int | None]]] = [
    (
        "a source beyond the last rank",
        direct_all_to_all,
        lambda c: c.rows[2].src.__setitem__(0, 4),
        Rule.RANK_EXISTS,
        {"message": 2, "rank": 4},
    ),
    (
        "a copy from two sources",
        direct_all_to_all,
        lambda c: c.rows[3].src.append(3),
        Rule.ENDS,
        {"message": 3},
    ),
    (
        "a reduction to two destinations",
        in_switch_reduction,
        lambda c: c.rows[1].dst.append(c.rows[1].src.pop()),
        Rule.ENDS,
        {"message": 1},
    ),
    (
        "nobody to send to",
        direct_all_to_all,
        lambda c: c.rows[0].dst.clear(),
        Rule.ENDS,
        {"message": 0},
    ),
    (
        "from a rank to itself",
        direct_all_to_all,
        lambda c: c.rows[0].dst.__setitem__(0, 0),
        Rule.DISTINCT_ENDS,
        {"message": 0, "rank": 0},
    ),
    (
        "a kind that does not exist",
        direct_all_to_all,
        lambda c: setattr(c.rows[5], "kind", 2),
        Rule.KNOWN_KIND,
        {"message": 5},
    ),
    (
        "a stage before the first",
        direct_all_to_all,
        lambda c: setattr(c.rows[5], "stage", -1),
        Rule.STAGE_NOT_NEGATIVE,
        {"message": 5},
    ),
    (
        "waiting for itself",
        direct_all_to_all,
        lambda c: c.rows[7].deps.append(7),
        Rule.DEPENDENCY_EXISTS,
        {"message": 7},
    ),
    (
        "dependencies that descend",
        direct_all_to_all,
        lambda c: c.rows[7].deps.extend([3, 2]),
        Rule.DEPENDENCY_EXISTS,
        {"message": 7},
    ),
    (
        "an item that does not exist",
        direct_all_to_all,
        lambda c: c.rows[1].pieces.append((12, 0, 1)),
        Rule.ITEM_EXISTS,
        {"message": 1, "item": 12},
    ),
    (
        "one byte beyond the item's end",
        direct_all_to_all,
        lambda c: c.rows[1].pieces.__setitem__(0, (1, 0, c.sizes[1] + 1)),
        Rule.PIECE_IN_ITEM,
        {"message": 1, "item": 1, "first_byte": 0, "last_byte": 5},
    ),
    (
        "an empty piece",
        direct_all_to_all,
        lambda c: c.rows[1].pieces.append((1, 0, 0)),
        Rule.PIECE_IN_ITEM,
        {"message": 1, "item": 1, "first_byte": None},
    ),
    (
        "a message smaller than its pieces",
        direct_all_to_all,
        lambda c: setattr(c.rows[4], "padding", -1),
        Rule.SIZE_COVERS_PIECES,
        {"message": 4},
    ),
    (
        "barriers that do not ascend",
        barrier_all_reduce,
        lambda c: c.barriers.append(1),
        Rule.BARRIERS_ASCEND,
        {"message": None},
    ),
    (
        "a link beyond the last",
        ring_all_gather,
        lambda c: c.rows[3].path.__setitem__(0, 4),
        Rule.LINK_EXISTS,
        {"message": 3},
    ),
    (
        "another rank's link",
        ring_all_gather,
        lambda c: c.rows[3].path.__setitem__(0, 0),
        Rule.PATH_CONNECTS,
        {"message": 3, "rank": 3},
    ),
    (
        "a path through another rank",
        lambda: _three_rank_relay(),
        lambda c: None,
        Rule.PATH_CONNECTS,
        {"message": 0, "rank": 0},
    ),
    (
        "a multicast without links",
        multicast_tree,
        lambda c: c.rows[0].path.clear(),
        Rule.TREE_CONNECTS,
        {"message": 0},
    ),
    (
        "a branch that ends nowhere",
        multicast_tree,
        lambda c: c.rows[0].dst.remove(3),
        Rule.TREE_CONNECTS,
        {"message": 0},
    ),
    (
        "a receiver no branch leads to",
        multicast_tree,
        lambda c: c.rows[0].path.pop(),
        Rule.TREE_CONNECTS,
        {"message": 0},
    ),
    (
        "a circle beside the tree",
        multicast_tree,
        lambda c: (c.rows[0].path.remove(8), c.rows[0].path.extend([9, 8])),
        Rule.TREE_CONNECTS,
        {"message": 0},
    ),
    (
        "a tree through a rank that is none of its ends",
        lambda: _tree_through_a_rank(),
        lambda c: None,
        Rule.TREE_CONNECTS,
        {"message": 0},
    ),
    (
        "an exclusive link that is shared",
        ring_all_gather,
        lambda c: setattr(c.rows[0], "order", None),
        Rule.EXCLUSIVE_LINK,
        {"message": 4},
    ),
    (
        "two messages in one place of a link's order",
        ring_all_gather,
        lambda c: setattr(c.rows[4], "order", 0),
        Rule.LINK_ORDER,
        {"message": 4},
    ),
    (
        "a link order against the dependencies",
        lambda: ring_all_gather(2 + 1),
        lambda c: [setattr(row, "order", -(row.order or 0)) for row in c.rows],
        Rule.ACYCLIC,
        {},
    ),
    (
        "sent by a rank that never gets it",
        relayed_all_to_all,
        lambda c: c.rows[0].pieces.remove((0, 0, 2)),
        Rule.HELD_BEFORE_SENT,
        {"message": 2, "rank": 1, "item": 0, "first_byte": 0, "last_byte": 1},
    ),
    (
        "sent without waiting for its arrival",
        relayed_all_to_all,
        lambda c: c.rows[2].deps.clear(),
        Rule.ORDERED_AFTER_ARRIVAL,
        {"message": 2, "rank": 1, "item": 0, "first_byte": 0, "last_byte": 1},
    ),
    (
        "waiting only through another message",
        scattered_broadcast,
        lambda c: c.rows[9].deps.remove(c.rows[9].deps[0]),
        Rule.ORDERED_AFTER_ARRIVAL,
        {"message": 9, "rank": 1, "item": 0, "first_byte": 0, "last_byte": 1},
    ),
    (
        "the same bytes twice",
        direct_all_to_all,
        lambda c: c.send(0, 1, (0, 1, 1), deps=[0]),
        Rule.ARRIVES_ONCE,
        {"message": 12, "rank": 1, "item": 0, "first_byte": 1, "last_byte": 1},
    ),
    (
        "bytes sent back to where they started",
        direct_all_to_all,
        lambda c: c.send(1, 0, c.whole(0), deps=[0]),
        Rule.ARRIVES_ONCE,
        {"message": 12, "rank": 0, "item": 0, "first_byte": 0, "last_byte": 2},
    ),
    (
        "the same bytes twice in one message",
        direct_all_to_all,
        lambda c: c.rows[0].pieces.append((0, 2, 1)),
        Rule.ARRIVES_ONCE,
        {"message": 0, "rank": 1, "item": 0, "first_byte": 2, "last_byte": 2},
    ),
    (
        "a second copy over a sum",
        ring_all_reduce,
        lambda c: c.send(3, 0, c.whole(1), deps=c.rows[23].deps, path=[3], order=99, stage=7),
        Rule.ARRIVES_ONCE,
        {"message": 24, "rank": 0, "item": 1},
    ),
    (
        "one contribution twice, another never",
        combine,
        lambda c: c.rows[2].src.__setitem__(0, 1),
        Rule.CONTRIBUTES_ONCE,
        {"message": 2, "rank": 0, "item": 0, "first_byte": 0, "last_byte": 3},
    ),
    (
        "a sum of two ranks that hold the same contribution",
        lambda: _in_switch_doubling(),
        lambda c: None,
        Rule.CONTRIBUTES_ONCE,
        {"message": 1, "rank": 2, "item": 0},
    ),
    (
        "a switch that adds what two ranks hold of one contributor",
        lambda: _in_switch_doubling(contributors=[0]),
        lambda c: None,
        Rule.CONTRIBUTES_ONCE,
        {"message": 1, "rank": 2, "item": 0},
    ),
    (
        "a copy of something else over bytes that are being sent",
        lambda: _copy_of_something_else(),
        lambda c: None,
        Rule.READ_BEFORE_OVERWRITTEN,
        {"message": 2, "rank": 0, "item": 0},
    ),
    (
        "a copy that waits for the last reader but not for the one before",
        lambda: _early_copy_back(waits_for=1),
        lambda c: None,
        Rule.READ_BEFORE_OVERWRITTEN,
        {"message": 2, "rank": 1, "item": 0},
    ),
    (
        "a copy that overtakes the reader of what it replaces",
        lambda: _early_copy_back(),
        lambda c: None,
        Rule.READ_BEFORE_OVERWRITTEN,
        {"message": 2, "rank": 1, "item": 0},
    ),
    (
        "two ranks that add to each other at once",
        lambda: _exchange_in_place(),
        lambda c: None,
        Rule.ORDERED_AFTER_ARRIVAL,
        {"message": 1, "rank": 1, "item": 0, "first_byte": 0, "last_byte": 3},
    ),
    (
        "a copy and a sum in no certain order",
        lambda: _copy_races_reduce(),
        lambda c: None,
        Rule.WRITES_ORDERED,
        {"rank": 2, "item": 0},
    ),
    (
        "bytes that stop one short",
        direct_all_to_all,
        lambda c: c.rows[0].pieces.__setitem__(0, (0, 0, c.sizes[0] - 1)),
        Rule.DESTINATION_HOLDS,
        {"message": None, "rank": 1, "item": 0, "first_byte": 2, "last_byte": 2},
    ),
    (
        "a sum that lacks a contribution",
        lambda: combine(),
        lambda c: c.rows[4].pieces.clear(),
        Rule.REDUCTION_COMPLETE,
        {"message": None, "rank": 4, "item": 1, "first_byte": 0, "last_byte": 4},
    ),
]


def _three_rank_relay() -> Case:
    case = Case("path through a rank", ring_all_gather(3).topology, [2], [[0]], [[2]])
    case.send(0, 2, case.whole(0), path=[0, 1])
    return case


def _in_switch_doubling(contributors: Sequence[int] = (0, 2)) -> Case:
    """Rank 1 has been given rank 0's contribution; the switch then adds both."""
    base = in_switch_reduction()
    case = Case("doubled in the switch", base.topology, [2], [list(contributors)], [[2]])
    given = case.send(0, 1, case.whole(0), path=[0, 5])
    case.send([0, 1], 2, case.whole(0), kind=REDUCE, deps=[given], path=[0, 1, 8, 6], stage=1)
    return case


def _tree_through_a_rank() -> Case:
    """From rank 0 to ranks 2 and 3 by way of rank 1, which joins two switches able to multicast."""
    graph = from_edges([0, 4, 1, 5, 5], [4, 1, 5, 2, 3], bandwidth="1 GB/s", switches=[4, 5])
    case = Case("tree through a rank", replace(graph, multicasts=np.arange(6) >= 4), [2], [[0]], [[2, 3]])
    case.send(0, [2, 3], case.whole(0), path=[0, 1, 2, 3, 4])
    return case


def _copy_of_something_else() -> Case:
    """Rank 0's contribution is on its way to rank 2 when rank 1's, alone, is copied over it."""
    case = Case("copy of something else", fully_connected(3, bandwidth="1 GB/s"), [2], [[0, 1]], [[2]])
    case.send(0, 2, case.whole(0), kind=REDUCE)
    case.send(1, 2, case.whole(0), kind=REDUCE)
    case.send(1, 0, case.whole(0))
    return case


def _early_copy_back(waits_for: int = 0) -> Case:
    """Rank 0 sends the complete sum back to rank 1, which has two readers; the copy waits for only one of them."""
    case = Case("early copy back", fully_connected(4, bandwidth="1 GB/s"), [2], [[0, 1]], [[0, 1]])
    readers = [case.send(1, 3, case.whole(0), kind=REDUCE), case.send(1, 3, case.whole(0), kind=REDUCE)]
    case.rows[readers[1 - waits_for]].dst = [2]  # a reader that nothing waits for
    last = readers[waits_for]
    case.rows[last].dst = [0]
    case.send(0, 1, case.whole(0), deps=[last], stage=1)
    return case


def _exchange_in_place() -> Case:
    case = Case("exchange", fully_connected(2, bandwidth="1 GB/s"), [4], [[0, 1]], [[0, 1]])
    case.send(0, 1, case.whole(0), kind=REDUCE)
    case.send(1, 0, case.whole(0), kind=REDUCE)
    return case


def _copy_races_reduce() -> Case:
    case = Case("race", fully_connected(3, bandwidth="1 GB/s"), [4], [[0, 1]], [[2]])
    case.send(0, 2, case.whole(0), kind=COPY)
    case.send(1, 2, case.whole(0), kind=REDUCE)
    return case


@pytest.mark.parametrize(
    ("build", "change", "rule", "place"), [entry[1:] for entry in BROKEN], ids=[entry[0] for entry in BROKEN]
)
def test_broken_schedule_is_named(
    build: Callable[[], Case], change: Callable[[Case], object], rule: Rule, place: dict[str, int | None]
) -> None:
    case = build()
    change(case)
    found = first(case)
    assert found.rule is rule, found
    assert {name: getattr(found, name) for name in place} == place
    if found.message is not None:
        assert found.text.startswith(f"message {found.message} ")
    if found.first_byte is not None:
        assert f"bytes {found.first_byte}..{found.last_byte} of item {found.item}" in found.text


def test_every_rule_but_the_budget_and_the_switches_is_broken_above() -> None:
    of_steps = {Rule.ITEM_OF_TASK, Rule.STAGE_OF_TASK, Rule.COMPUTED, Rule.AFTER, Rule.NOT_BEFORE_READY}
    elsewhere = {Rule.WITHIN_BUDGET, Rule.SWITCH_ABLE, Rule.COMPUTES_ALONE, *of_steps}
    assert set(Rule) - {entry[3] for entry in BROKEN} == elsewhere


@pytest.mark.parametrize(("build", "ability"), [(multicast_tree, "multicasts"), (in_switch_reduction, "reduces")])
def test_switch_without_the_ability_cannot_branch(build: Callable[[], Case], ability: str) -> None:
    case = build()
    able = getattr(case.topology, ability).copy()
    able[4] = False
    case.topology = replace(case.topology, **{ability: able})
    found = first(case)
    assert found.rule is Rule.SWITCH_ABLE
    assert "node 4" in found.text
    assert found.rank is None


def test_message_between_ranks_that_no_rail_joins_has_no_path() -> None:
    """On rails only equal GPU indices meet; the message is named even among thousands that can be routed."""
    rails = cluster("h200", servers=2, gpus_per_server=2, scale_out="rail")
    case = Case("off the rail", rails.topology, [4, 4], [[0], [0]], [[2], [3]])
    case.send(0, 2, case.whole(0))
    assert case.rules() == {Rule.DESTINATION_HOLDS}
    case.send(0, 3, case.whole(1))
    found = first(case)
    assert (found.rule, found.message, found.rank) == (Rule.PATH_CONNECTS, 1, 0)
    assert "rails join equal GPU indices only" in found.text


def test_barrier_orders_what_dependencies_do_not() -> None:
    case = barrier_all_reduce()
    assert not any(row.deps for row in case.rows)
    assert case.check().valid
    case.rows[-1].stage = 0
    assert not case.check().valid


def test_reader_done_by_link_order_alone_may_be_overwritten() -> None:
    """A place in a link's order says that a message has been sent, which is all that overwriting its bytes needs."""
    case = Case("overwrite after sending", in_switch_all_reduce().topology, [2], [[0, 1]], [[0, 1, 2]])
    case.send(1, 0, case.whole(0), kind=REDUCE, path=[1, 4], order=0)  # completes the sum at rank 0
    case.send(1, 3, case.whole(0), kind=REDUCE, path=[1, 8, 7], order=1)  # a second reader of rank 1
    case.send(1, 2, (0, 0, 1), kind=REDUCE, path=[1, 8, 6], order=2)
    case.rows[-1].pieces = []  # carries nothing: it only stands behind the reader on rank 1's link
    case.send(0, 1, case.whole(0), deps=[0, 2], path=[0, 5], order=0)
    case.send(0, 2, case.whole(0), deps=[0], path=[0, 8, 6], order=3)
    assert case.check().valid, case.check()
    case.rows[3].deps = [0]
    assert case.rules() == {Rule.READ_BEFORE_OVERWRITTEN}


def test_places_on_a_connection_are_its_own_and_may_not_go_round() -> None:
    """Two messages of a connection that share links with others: each needs its own place, behind what it waits for."""
    host = cluster("h200", servers=1, gpus_per_server=3)
    case = Case("in turn", host.topology, [4, 4, 4], [[0], [0], [2]], [[1], [1], [1]])
    for source, item in ((0, 0), (0, 1), (2, 2)):
        case.send(source, 1, case.whole(item))

    def rules(*order: int, slices: tuple[int, ...] = (0, 0, 0)) -> set[Rule]:
        rows = replace(case.schedule, order=np.array(order, np.int64), slice=np.array(slices, np.int32))
        return {each.rule for each in check(rows, case.problem).violations}

    assert rules(1, 2, 1) == rules(2, 1, 2) == rules(0, 1, 1) == set()
    assert rules(2, 2, 1) == {Rule.LINK_ORDER}
    case.rows[1].deps = [0]
    assert rules(1, 2, 1) == rules(0, 1, 1) == set()
    assert rules(2, 1, 1) == {Rule.ACYCLIC}
    assert rules(2, 1, 1, slices=(0, 1, 0)) == rules(2, 2, 1, slices=(0, 1, 0)) == set()  # slices have their own


def test_copy_waits_for_sums_that_still_arrive() -> None:
    """Link order says that a message was sent, not that it arrived: too little before a copy to the same place."""
    case = Case("copy after sum", in_switch_all_reduce().topology, [2], [[0, 1]], [[1, 2]])
    case.send(0, 2, case.whole(0), kind=REDUCE, path=[0, 8, 6], order=0)
    case.send(0, 1, case.whole(0), kind=REDUCE, path=[0, 5], order=1)
    case.send(1, 2, case.whole(0), deps=[0, 1], path=[1, 8, 6], order=2)
    assert case.check().valid, case.check()
    case.rows[2].deps = [1]  # behind message 0 on the links between the switches, yet not behind its arrival
    assert case.rules() == {Rule.WRITES_ORDERED}


def test_items_that_travel_together_are_each_judged() -> None:
    """Same messages, same bytes, but one item has another destination and one another origin."""
    case = Case(
        "together", fully_connected(4, bandwidth="1 GB/s"), [2] * 4, [[0], [0], [0], [3]], [[1], [1], [1, 2], [1]]
    )
    case.send(0, 1, *(case.whole(item) for item in range(4)))
    found = {(v.rule, v.item) for v in case.check().violations}
    assert found == {(Rule.DESTINATION_HOLDS, 2), (Rule.HELD_BEFORE_SENT, 3)}


def test_first_hundred_of_many_violations_are_kept_and_all_counted() -> None:
    case = Case("nothing sent", fully_connected(16, bandwidth="1 GB/s"), [1] * 240,
                [[i // 15] for i in range(240)], [[(i // 15 + 1 + i % 15) % 16] for i in range(240)])  # fmt: skip
    report = case.check()
    assert (len(report.violations), report.num_violations) == (100, 240)
    assert str(report).startswith("240 broken rules, the first:\nrank ")


def test_report_of_a_valid_schedule_says_how_it_was_checked() -> None:
    report = tree_all_reduce().check()
    assert str(report) == f"valid ({report.num_rows} rows, exact sets)"
    assert report.num_rows == 48
    assert group_all_reduce().check().method == "exact sets"


def test_a_violation_tells_only_what_it_has() -> None:
    """A native row has -1 where there is none; bytes are named by the first and the last."""
    whole = describe(Rule.DESTINATION_HOLDS, 3, 1, 2, 10, 20)
    assert (whole.message, whole.rank, whole.item, whole.first_byte, whole.last_byte) == (3, 1, 2, 10, 19)
    assert "bytes 10..19 of item 2" in whole.text and "rank 1" in whole.text
    none = describe(Rule.DESTINATION_HOLDS, -1, -1, -1, 10, 10)
    assert (none.message, none.rank, none.item, none.first_byte, none.last_byte) == (None,) * 5
    assert "no bytes at 10" in none.text
    first_of_all = describe(Rule.DESTINATION_HOLDS, 0, 0, 0, 0, 1)
    assert (first_of_all.message, first_of_all.rank, first_of_all.item) == (0, 0, 0)
    assert (first_of_all.first_byte, first_of_all.last_byte) == (0, 0)


def test_only_a_step_waits() -> None:
    case = direct_all_to_all()
    case.rows[2].kind = case.rows[5].kind = WAIT
    report = case.check()
    assert report.num_violations == 1 and not report.scratch_bytes.any()
    assert (report.violations[0].rule, report.violations[0].message) == (Rule.KNOWN_KIND, 2)
    assert (report.violations[0].rank, report.violations[0].item) == (None, None)
