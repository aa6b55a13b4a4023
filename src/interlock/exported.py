"""What an export keeps of a plan's gain: the exported file, read back and simulated, beside the plan and `direct`."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.errors import InterlockError
from interlock.interchange import ExportReport, Intent, read_foreign
from interlock.planning import Plan, solve
from interlock.units import format_seconds

__all__ = ["ExportedTime", "time_after_export"]

TOLERANCE = 0.001  # of the simulator: rounding to chunks costs more
MAX_CHUNK_MOVES = 2_000_000  # of files that are read back: about a minute


@dataclass(frozen=True, slots=True)
class ExportedTime:
    """Simulated times of an All-to-Allv: its plan, the plan after export, and sending everything directly."""

    plan_s: float
    exported_s: float
    direct_s: float

    @property
    def pays(self) -> bool:
        """Whether the exported file is faster than no plan at all."""
        return self.exported_s < self.direct_s

    def __str__(self) -> str:
        times = (
            f"simulated: plan {format_seconds(self.plan_s)}, after export {format_seconds(self.exported_s)}, "
            f"direct {format_seconds(self.direct_s)}"
        )
        return f"{times}: the export {'pays' if self.pays else 'does not pay'}"


def time_after_export(plan: Plan, report: ExportReport) -> ExportedTime | None:
    """The time of a file of equal chunks, where it holds an All-to-Allv; None for anything else, or if it is too large.

    The file is read as any other tool's: what is simulated is what it says, not what was meant.
    """
    problem = plan.problem
    if problem.demand is None or report.chunk_bytes is None:
        return None
    if int(plan.schedule.size_bytes.sum()) // report.chunk_bytes > MAX_CHUNK_MOVES:
        return None
    intent = Intent(demand=problem.demand, cluster=problem.cluster, topology=problem.topology)
    found = read_foreign(report.files[0], intent, report.format)
    after = Plan(found.problem, found.schedule, report.format)
    try:
        direct_s = solve(problem, "direct").simulate(TOLERANCE).makespan_s
    except InterlockError:
        return None  # links that are dead leave pairs without a direct way
    return ExportedTime(plan.simulate(TOLERANCE).makespan_s, after.simulate(TOLERANCE).makespan_s, direct_s)
