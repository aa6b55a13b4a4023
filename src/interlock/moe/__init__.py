"""MoE layers and models: what their communication costs, simulated. The in-switch hardware does not exist."""

from interlock.moe.comparison import LayerRow, compare_schemes
from interlock.moe.constants import H200, PAPER, Machine
from interlock.moe.gemm import FixedRate, GemmTable, h200_gemms
from interlock.moe.iteration import Iteration, iteration_times
from interlock.moe.layer import Layer, LayerTraffic, paper_layers, uniform_traffic
from interlock.moe.models import ModelShape, model, model_names
from interlock.moe.schemes import SCHEMES, layer_time

__all__ = [
    "H200",
    "PAPER",
    "SCHEMES",
    "FixedRate",
    "GemmTable",
    "Iteration",
    "Layer",
    "LayerRow",
    "LayerTraffic",
    "Machine",
    "ModelShape",
    "compare_schemes",
    "h200_gemms",
    "iteration_times",
    "layer_time",
    "model",
    "model_names",
    "paper_layers",
    "uniform_traffic",
]
