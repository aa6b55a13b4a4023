"""How precise a makespan can be: where equal messages tie and release each other, the least change of a link shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import interlock as il
from interlock.simulate import simulate

SERVERS = il.cluster("h200", servers=2)


def _spread(algorithm: str) -> float:
    """By how much the exact makespan of an All-Reduce differs on links that are slower by up to a millionth."""
    made = il.synthesize(SERVERS, il.all_reduce("1 MiB"), algorithm).schedule
    rng = np.random.default_rng(0)
    links = SERVERS.topology
    took_s = [simulate(made, links).makespan_s]
    for _ in range(3):
        rate = links.bandwidth_bytes_per_s * (1 - 1e-6 * rng.random(links.num_links))
        took_s.append(simulate(made, replace(links, bandwidth_bytes_per_s=rate)).makespan_s)
    return max(took_s) / min(took_s) - 1


def test_messages_that_tie_have_no_precise_makespan() -> None:
    """If this fails, a tolerance can be held for such schedules too, and the docs should say so."""
    assert _spread("ring") > 1e-3


def test_a_schedule_of_few_messages_has_a_precise_makespan() -> None:
    assert _spread("tiers") < 1e-4
