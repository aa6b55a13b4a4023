"""Our All-to-Allv: four ways to use the NICs of every server; the one that is predicted to be fastest is taken.

* direct: every pair on its own, all at once; for traffic that is balanced, or so small that overheads are most of it;
* burst: each server's bytes spread over its NICs, in slices that hide balance and redistribution; all at once, or in
  turns where ports are short of time;
* staged: each server's bytes spread by NIC rate, every NIC with one partner or a few at a time, for fabrics that
  suffer from fan-in;
* detour: direct, but for what is above the level that NICs and scale-up ports can all keep, where these are too slow
  to touch every byte; all at once, or in turns too.

One native call decides (`Planner::decide` in `cpp/src/two_tier/two_tier_plan.cpp`), in six parts:

1. `sum_tiles`, `rank_loads`: what servers and ranks owe each other, and the seconds that no plan can beat;
2. `Slices`: how finely lanes (what goes from one NIC to one NIC) are cut, so that hops hide behind the wire;
3. which bytes take which NIC. `assign_bytes`: bytes move from the fullest port to the way around it that is least
   full, until no move lowers the level, and by `il.plan` then from the other ports; begun with everybody's own NIC
   (detour), or with everything in shares by NIC rate, of which `nic_targets` keeps what each NIC carries (burst);
4. the price of a way. `Ledger` sums up what ports are busy with: from tiles where NICs are alike and ports inside
   servers have time, else from the messages as they will be written (`port_levels`). `trial_seconds`: what would win by
   a sum of messages, or may have lost by its error, is run by `il.plan`, up to 128 ranks;
5. who sends when. `make_timetable`: turns for the messages of a burst or a detour, each with its ports to itself, taken
   where they end sooner than messages that share ports. `make_stages`: one-to-one, an open shop of tiles. Both, and
   the detour itself, are made only where they could gain by their least price, turns only for `il.plan`;
6. the least price wins; if either of two is a sum, a detour or stages must win by 1.5 %. `expand_two_tier` writes out
   messages and pieces when they are asked for.

docs/reference/adaptive.md explains them, with an example by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from interlock._native import _core
from interlock.algorithms.detours import refuses_apart
from interlock.algorithms.registry import Algorithm
from interlock.algorithms.two_tier_plan import TwoTierPlan, Way
from interlock.errors import InvalidInput
from interlock.problem import Problem
from interlock.schedule import CompactSchedule, scratch_spans
from interlock.topology import Cluster
from interlock.traffic import Demand

__all__ = ["ALGORITHM", "adaptive", "network_of"]

_WAYS = {way.name.lower(): way for way in Way}
MOST_DRIFT = 0.15  # change of any server's traffic, from a sample, up to which an earlier plan is kept
MOST_ROUNDS = 1024  # that a limit on scratch may ask for; each costs a barrier


def adaptive(
    problem: Problem,
    *,
    seed: int = 0,
    way: str | None = None,
    slices: int = 0,
    scratch_bytes: int | None = None,
) -> TwoTierPlan:
    """Plan an All-to-Allv.

    Parameters
    ----------
    way
        "direct", "burst", "staged" or "detour"; None takes the fastest by prediction.
    slices
        Slices per lane of average size; 0 chooses. With a number, only ways whose lanes are cut alike are compared:
        burst and staged.
    scratch_bytes
        Most bytes that may wait at any GPU on their way to others; None sets no limit. It is applied last and overrides
        the others: where a way cannot keep it, the traffic goes in rounds or another way.
    """
    assert problem.cluster is not None and problem.demand is not None
    if way is not None and way not in _WAYS:
        raise InvalidInput(f"way={way!r} is not one of {', '.join(_WAYS)}")
    plan = prepare(problem.cluster, way=way, slices=slices, has_time=True)(problem.demand)
    return plan if scratch_bytes is None else _within(plan, problem, scratch_bytes)


def prepare(cluster: Cluster, *, way: str | None = None, slices: int = 0, has_time: bool = False) -> Planner:
    """A planner for one cluster; what depends only on the cluster is done here.

    Who `has_time` runs what may win, evens detours out and makes timetables: milliseconds, for ports that nothing else
    wants, and a rank finds its turns from all rows. Not for a planner that is asked between two steps of a job, nor for
    moves beside others.
    """
    return Planner(cluster, network_of(cluster), -1 if way is None else int(_WAYS[way]), slices, has_time)


def network_of(cluster: Cluster) -> _core.TwoTierNetwork:
    """The cluster as the core's ledger sees it."""
    fabric = cluster.fabric
    return _core.two_tier_network(
        servers=cluster.servers,
        nic=np.ascontiguousarray(cluster.nic_bandwidth_bytes_per_s, np.float64),
        nominal_nic=np.ascontiguousarray(cluster.nominal_nic_bandwidth_bytes_per_s, np.float64),
        present=np.ascontiguousarray(cluster.present, np.uint8),
        scale_up=cluster.slowest_scale_up_bytes_per_s,
        is_mesh=cluster.scale_up == "mesh",
        scale_out=("flat", "rail-spine", "rail").index(cluster.scale_out),
        oversubscription=cluster.oversubscription,
        scale_up_latency_s=cluster.scale_up_latency_s,
        scale_out_latency_s=cluster.scale_out_latency_s,
        message_overhead_s=cluster.message_overhead_s,
        stage_overhead_s=cluster.stage_overhead_s,
        fan_in=fabric.fan_in or 0,
        efficiency=fabric.efficiency,
        losses=np.array(
            [
                fabric.fan_in or 0,
                fabric.loss_per_sender,
                fabric.sender_exponent,
                fabric.size_exponent,
                fabric.collapse_fan_in or 0,
                fabric.collapse_loss,
                fabric.collapse_sender_exponent,
                fabric.collapse_size_exponent,
                fabric.max_loss,
            ],
            np.float64,
        ),
        reference_bytes=fabric.reference_bytes,
        # Pairs with many flows spread over all uplinks: nothing to choose.
        hash_radix=(fabric.ecmp_radix or 0) if fabric.ecmp_flows == 1 else 0,
        hash_uplinks=fabric.ecmp_uplinks or 0,
        hash_seed=fabric.ecmp_seed,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Planner:
    """Plans demands on one cluster, in one native call each."""

    cluster: Cluster
    network: _core.TwoTierNetwork
    only: int  # the way that is asked for; -1: any
    slices: int
    has_time: bool

    def __call__(self, demand: Demand, previous: CompactSchedule | None = None) -> TwoTierPlan:
        """Plan a demand; from an earlier plan, if the traffic has only drifted since."""
        if isinstance(previous, TwoTierPlan) and (previous.cluster is self.cluster or previous.cluster == self.cluster):
            kept = _carried_over(previous, demand)
            if kept is not None:
                return kept
        decision = _core.plan_two_tier(demand.bytes_matrix, self.network, self.only, self.slices, self.has_time)
        return TwoTierPlan(self.cluster, demand, decision)


def _carried_over(previous: TwoTierPlan, demand: Demand) -> TwoTierPlan | None:
    """The earlier decisions for new traffic: shares follow the demand, stages are scaled to it. None after a jump."""
    if previous.decision.has_routes or previous.decision.is_timed:  # routes of single pairs and turns do not stretch
        return None
    before, now = previous.demand.bytes_matrix, demand.bytes_matrix
    if before.shape != now.shape or _core.sampled_drift(before, now, previous.servers) > MOST_DRIFT:
        return None
    return replace(previous, demand=demand, decision=previous.decision.scaled(now))


def _within(plan: TwoTierPlan, problem: Problem, scratch_bytes: int) -> TwoTierPlan:
    """The plan in as many rounds as the limit asks for; where none suffice, straight sending, which uses no scratch."""
    if isinstance(scratch_bytes, bool) or not isinstance(scratch_bytes, int) or scratch_bytes < 0:
        raise InvalidInput(f"scratch_bytes={scratch_bytes!r} must be a whole number of at least 0")
    assert problem.cluster is not None and problem.demand is not None
    while plan.num_rounds <= MOST_ROUNDS:
        needed = int(scratch_spans(plan.schedule, problem).high_water_bytes.max(initial=0))
        if needed <= scratch_bytes:
            return plan
        if plan.way is Way.STAGED:  # its stages are many already; start from traffic that is not in stages
            plan = prepare(problem.cluster, way="burst")(problem.demand)
        else:
            more = -(-plan.num_rounds * needed // max(scratch_bytes, 1))
            plan = _in_rounds(plan, max(plan.num_rounds + 1, min(more, MOST_ROUNDS + 1)))
    if problem.cluster.scale_out == "rail":
        raise InvalidInput(f"scratch_bytes={scratch_bytes} is too little: bytes that change rails must wait somewhere")
    return prepare(problem.cluster, way="direct")(problem.demand)


def _in_rounds(plan: TwoTierPlan, rounds: int) -> TwoTierPlan:
    """Every tile in equal parts, one after the other, with a barrier between."""
    return replace(plan, decision=plan.decision.in_rounds(plan.demand.bytes_matrix, rounds))


ALGORITHM = Algorithm(
    "adaptive",
    "direct, detour, burst or stages over balanced NICs, whichever is predicted fastest (ours)",
    refuses_apart,
    adaptive,
    prepare,
    plans_demands=True,
)
