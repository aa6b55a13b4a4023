"""The core against a slow simulator written apart from it: same times, same rates."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.simulate import simulate
from simulate.reference import simulate_slowly
from simulate.strategies import networks, schedules


@given(st.data())
@settings(max_examples=300)
def test_times_equal_those_of_the_slow_simulator(data: st.DataObject) -> None:
    """Dependencies, link orders, barriers, overheads, latencies, half duplex and congestion together."""
    topology = data.draw(networks())
    schedule = data.draw(schedules(topology))
    fast, slow = simulate(schedule, topology), simulate_slowly(schedule, topology)
    for name in ("start_s", "sent_s", "finish_s"):
        np.testing.assert_allclose(getattr(fast, name), getattr(slow, name), rtol=1e-9, atol=1e-12, err_msg=name)
    assert fast.makespan_s == fast.finish_s.max()
