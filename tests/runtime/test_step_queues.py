"""What a rank does of a step: what waits at which end, and in which order queues wait for messages."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("torch")

import interlock as il
from interlock.execution import plan_step
from interlock.planning import Plan
from interlock.runtime import steps
from interlock.runtime.steps import _actions, _latest_here, _link_rates
from interlock.topology import NicFault

pytestmark = pytest.mark.torch


@pytest.fixture
def joint_plan() -> Plan:
    cluster = il.cluster("h200", servers=2, gpus_per_server=4)
    demand = il.traffic.zipf(cluster, skew=0.8, bytes_per_gpu="4 MB", seed=1)
    step = il.step(cluster)
    step.move("gradients", il.reduce_scatter("8 MB"))
    dispatch = step.move("dispatch", demand)
    step.move("combine", demand.transposed(), after=step.compute("experts", "50 us", after=dispatch))
    return plan_step(step, "joint")


def test_a_lane_has_the_messages_of_one_task_peer_and_direction_each_once(joint_plan: Plan) -> None:
    actions, queues = _actions(joint_plan.schedule, joint_plan.problem, 1)
    for queue in queues:
        assert len({(actions[n].task, actions[n].peer, actions[n].sends) for n in queue}) == 1
    assert sorted(n for queue in queues for n in queue) == [n for n, each in enumerate(actions) if each.peer >= 0]


def test_a_receiver_leaves_the_order_of_one_sender_to_the_sender(joint_plan: Plan) -> None:
    num_left = 0
    for rank in range(8):
        actions, _ = _actions(joint_plan.schedule, joint_plan.problem, rank)
        for action in actions:
            for later in (actions[n] for n in action.releases):
                assert action.peer < 0 or action.sends or later.sends or action.peer != later.peer
                num_left += action.peer >= 0 and action.sends and later.sends and action.peer == later.peer
    assert num_left > 0  # senders keep it


def test_what_comes_last_before_a_row_is_looked_for_behind_what_others_do() -> None:
    waits = [[], [0], [1], [2, 0], []]  # 3 waits for 2, which others do, and that for 1
    assert _latest_here(waits, [0, 1, 2, 3, 4], {0: None, 1: None, 3: None}) == [-1, 0, 1, 1, -1]
    assert _latest_here(waits, [0, 1, 2, 3, 4], {3: None}) == [-1] * 5


def test_what_cannot_come_yet_is_not_asked_for(joint_plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked_at_once() -> int:
        made = [_actions(joint_plan.schedule, joint_plan.problem, rank)[0] for rank in range(8)]
        return sum(each.peer >= 0 and not each.sends and each.open == 0 for actions in made for each in actions)

    now = asked_at_once()
    monkeypatch.setattr(steps, "_latest_here", lambda waits, order, here: [-1] * len(waits))
    assert now < asked_at_once()


def test_lanes_end_whatever_they_wait_for_in(joint_plan: Plan) -> None:
    """Every queue waits only for the first of its messages; still all messages of all ranks end."""
    made = [_actions(joint_plan.schedule, joint_plan.problem, rank) for rank in range(8)]
    open_ = [[action.open for action in actions] for actions, _ in made]
    place = [[0] * len(queues) for _, queues in made]
    ended = [set[int]() for _ in made]

    def end(rank: int, number: int) -> None:
        ended[rank].add(number)
        for later in made[rank][0][number].releases:
            open_[rank][later] -= 1

    def can_end(rank: int, number: int) -> bool:
        action = made[rank][0][number]
        if open_[rank][number]:
            return False
        if action.peer < 0:
            return True
        others = made[action.peer][0]
        other = next(n for n, each in enumerate(others) if each.row == action.row and each.peer == rank)
        return open_[action.peer][other] == 0

    moved = True
    while moved:
        moved = False
        for rank, (actions, queues) in enumerate(made):
            heads = [queue[place[rank][k]] for k, queue in enumerate(queues) if place[rank][k] < len(queue)]
            waits = [n for n, action in enumerate(actions) if action.peer < 0 and n not in ended[rank]]
            for number in [*heads, *waits]:
                if can_end(rank, number):
                    end(rank, number)
                    moved = True
            for k, queue in enumerate(queues):
                while place[rank][k] < len(queue) and queue[place[rank][k]] in ended[rank]:
                    place[rank][k] += 1
    assert [len(each) for each in ended] == [len(actions) for actions, _ in made]


def test_links_are_as_fast_as_their_slower_end() -> None:
    cluster = il.cluster("h200", servers=2, gpus_per_server=2)
    nic = float(cluster.nic_bandwidth_bytes_per_s[0])
    slow = cluster.with_(faults=(NicFault(1, 0, 0, nic / 4),))
    rates = _link_rates(slow, 0)
    assert sorted(rates) == [1, 2, 3]
    assert rates[1] == cluster.scale_up_bandwidth_bytes_per_s
    assert rates[3] == pytest.approx(4 * rates[2])
    assert all(later <= earlier for earlier, later in pairwise([nic, rates[3], rates[2]]))
    assert np.isfinite(list(rates.values())).all()
