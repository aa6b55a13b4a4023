"""MoE layers and models: what their communication costs, modelled and simulated."""

from interlock.moe.iteration import Iteration, iteration_times
from interlock.moe.models import ModelShape, model, model_names

__all__ = ["Iteration", "ModelShape", "iteration_times", "model", "model_names"]
