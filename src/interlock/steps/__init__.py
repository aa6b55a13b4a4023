"""Steps: several collectives and computation, planned as one schedule."""

from interlock.steps.lone import LonePlans
from interlock.steps.ways import WAYS, StepPlan

__all__ = ["WAYS", "LonePlans", "StepPlan"]
