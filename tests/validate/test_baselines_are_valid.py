"""The baselines pass the validator, and a schedule that loses a message does not."""

import numpy as np
import pytest

from interlock import traffic
from interlock.algorithms import registry
from interlock.problem import Problem, demand_problem
from interlock.schedule import empty_schedule
from interlock.topology import cluster
from interlock.validate import Rule, check


@pytest.fixture(scope="module")
def zipf_2x8() -> Problem:
    two_servers = cluster("h200", servers=2)
    return demand_problem(two_servers, traffic.zipf(two_servers, skew=0.8, bytes_per_gpu="1 MB", seed=0))


@pytest.mark.parametrize("name", ["direct", "pxn", "spreadout", "no-stage", "forward", "padded"])
def test_baseline_delivers_every_byte(name: str, zipf_2x8: Problem) -> None:
    report = check(registry.get(name).build(zipf_2x8, seed=0), zipf_2x8)
    assert report.valid, report


def test_nothing_sent_means_every_item_is_missing(zipf_2x8: Problem) -> None:
    report = check(empty_schedule(), zipf_2x8)
    assert report.num_violations == len(zipf_2x8.items)
    first = report.violations[0]
    assert (first.rule, first.message, first.item, first.first_byte) == (Rule.DESTINATION_HOLDS, None, 0, 0)
    assert first.last_byte == zipf_2x8.items.size_bytes[0] - 1
    assert np.all(report.scratch_bytes == 0)
