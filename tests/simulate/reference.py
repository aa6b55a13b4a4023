"""A slow, obvious simulator with the same rules as the core's, written apart from it: plain loops, rates from scratch.

Every rate is found by progressive filling over all active flows whenever anything changes, and every flow's remaining
bytes are counted down one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from interlock.schedule import Schedule, resolved_paths
from interlock.topology import Topology, receiving_ports

EPSILON = 1e-12


def fair_rates(paths: dict[int, list[int]], capacity: dict[int, float]) -> dict[int, float]:
    """Progressive filling: raise all rates together and freeze the flows of the channel that fills first."""
    left = dict(capacity)
    growing = dict(paths)
    rates: dict[int, float] = {}
    while growing:
        users: dict[int, int] = {}
        for path in growing.values():
            for channel in path:
                users[channel] = users.get(channel, 0) + 1
        share, full = min((left[channel] / count, channel) for channel, count in users.items())
        for flow in [flow for flow, path in growing.items() if full in path]:
            rates[flow] = share
            for channel in growing.pop(flow):
                left[channel] -= share
    return rates


@dataclass
class Reference:
    """Times of every message."""

    start_s: np.ndarray
    sent_s: np.ndarray
    finish_s: np.ndarray
    rates: list[tuple[float, dict[int, float], dict[int, float]]] = field(default_factory=list)  # time, rates, capacity

    @property
    def makespan_s(self) -> float:
        return float(self.finish_s.max(initial=0.0))


class Run:
    """One schedule under way."""

    def __init__(self, schedule: Schedule, topology: Topology) -> None:
        count = schedule.num_messages
        self.schedule, self.topology = schedule, topology
        self.path = [resolved_paths(schedule, topology)[m].tolist() for m in range(count)]
        self.channels = [[int(topology.channel[link]) for link in path] for path in self.path]
        self.base = {
            int(c): float(topology.bandwidth_bytes_per_s[topology.channel == c].min()) for c in topology.channel
        }
        self.ports = {int(c) for c in topology.channel[receiving_ports(topology)]}
        for port in self.ports:
            self.base[port] *= topology.fabric.efficiency
        self.now = 0.0
        self.state = ["waiting"] * count  # waiting, delayed, overhead, sending, flying, done
        self.until = [0.0] * count  # of delayed and flying
        self.left = [0.0] * count  # bytes of overhead and sending
        self.opened: dict[tuple[int, int], float] = {}
        self.rank_free: dict[int, float] = {}
        self.result = Reference(np.zeros(count), np.zeros(count), np.zeros(count))

    def run(self) -> Reference:
        """To the end."""
        while any(state != "done" for state in self.state):
            while self._settle():
                pass
            rates = self._rates()
            times = [self.now + self.left[m] / rate for m, rate in rates.items()]
            times += [self.until[m] for m, s in enumerate(self.state) if s in ("delayed", "flying")]
            if not times:
                if all(state == "done" for state in self.state):
                    break
                raise ValueError("circular wait")
            step = min(times) - self.now
            self.now = min(times)
            for m, rate in rates.items():
                self.left[m] -= rate * step
        return self.result

    def _rates(self) -> dict[int, float]:
        active = {m: self.channels[m] for m, s in enumerate(self.state) if s == "sending"}
        overhead = {m: self.channels[m][:1] for m, s in enumerate(self.state) if s == "overhead"}
        capacity = dict(self.base)
        fabric = self.topology.fabric
        if fabric.fan_in is not None:
            for port in self.ports:
                here = [m for m, path in active.items() if port in path]
                senders = {int(self.schedule.src[m][0]) for m in here}
                if not here:
                    continue
                each = float(sum(self.schedule.size_bytes[m] for m in here)) / len(senders) / fabric.reference_bytes
                loss = 0.0
                if len(senders) > fabric.fan_in:
                    over = len(senders) - fabric.fan_in
                    loss += fabric.loss_per_sender * over**fabric.sender_exponent * each**fabric.size_exponent
                if fabric.collapse_fan_in is not None and len(senders) > fabric.collapse_fan_in:
                    over = len(senders) - fabric.collapse_fan_in
                    more = fabric.collapse_loss * over**fabric.collapse_sender_exponent
                    loss += more * each**fabric.collapse_size_exponent
                capacity[port] /= 1 + min(loss, fabric.max_loss)
        rates = fair_rates(active | overhead, capacity)
        self.result.rates.append((self.now, rates, capacity))
        return rates

    def _settle(self) -> bool:
        """Carry out everything that is due now; whether anything happened."""
        moved = False
        tick = EPSILON * max(self.now, 1e-9)
        for m, state in enumerate(self.state):
            if state == "waiting" and self._may_start(m):
                self._open_doors(m)
            elif state == "delayed" and self.until[m] <= self.now + tick:
                self.result.start_s[m] = self.now
                self._begin(m)
            elif state in ("overhead", "sending") and self.left[m] <= EPSILON * self._work(m, state):
                if state == "overhead":
                    self._send(m)
                else:
                    self._end(m)
            elif state == "flying" and self.until[m] <= self.now + tick:
                self.result.finish_s[m] = self.now
                self.state[m] = "done"
            else:
                continue
            moved = True
        return moved

    def _may_start(self, m: int) -> bool:
        schedule = self.schedule
        if any(self.state[d] != "done" for d in schedule.deps[m]):
            return False
        for b in schedule.barriers:
            behind = schedule.stage[m] >= b
            if behind and any(self.state[k] != "done" for k in np.flatnonzero(schedule.stage < b)):
                return False
        return all(self.state[k] in ("flying", "done") for k in range(schedule.num_messages) if self._goes_before(k, m))

    def _goes_before(self, k: int, m: int) -> bool:
        """Whether message k must have left before message m starts."""
        schedule = self.schedule
        if schedule.order[k] >= schedule.order[m] or schedule.exclusive[k] != schedule.exclusive[m]:
            return False
        if schedule.exclusive[m]:
            return bool(set(self.path[k]) & set(self.path[m]))
        named = [(schedule.slice[each], schedule.src[each].tolist(), schedule.dst[each].tolist()) for each in (k, m)]
        return bool(schedule.order[k] > 0) and named[0] == named[1]

    def _open_doors(self, m: int) -> None:
        start = self.now
        for rank in self.schedule.src[m].tolist() if self.topology.stage_overhead_s else []:
            door = (rank, int(self.schedule.stage[m]))
            if door not in self.opened:
                self.rank_free[rank] = max(self.rank_free.get(rank, 0.0), self.now) + self.topology.stage_overhead_s
                self.opened[door] = self.rank_free[rank]
            start = max(start, self.opened[door])
        self.state[m], self.until[m] = "delayed", start

    def _begin(self, m: int) -> None:
        alpha = float(self.topology.message_overhead_s[self.path[m][0]]) if self.path[m] else 0.0
        if alpha > 0:
            self.state[m], self.left[m] = "overhead", alpha * self.base[self.channels[m][0]]
        else:
            self._send(m)

    def _send(self, m: int) -> None:
        self.state[m], self.left[m] = "sending", float(self.schedule.size_bytes[m])
        if not self.path[m] or self.left[m] == 0:
            self._end(m)

    def _end(self, m: int) -> None:
        self.result.sent_s[m] = self.now
        self.state[m] = "flying"
        self.until[m] = self.now + float(self.topology.latency_s[self.path[m]].sum() if self.path[m] else 0.0)

    def _work(self, m: int, state: str) -> float:
        if state == "sending":
            return float(self.schedule.size_bytes[m])
        return float(self.topology.message_overhead_s[self.path[m][0]]) * self.base[self.channels[m][0]]


def simulate_slowly(schedule: Schedule, topology: Topology) -> Reference:
    """Times of a schedule, by the slow way. Paths must be chains, not trees."""
    return Run(schedule, topology).run()
