"""What has to be moved between ranks: byte matrices, and the generators and readers that make them."""

from interlock.traffic.demand import Demand, matrix
from interlock.traffic.generators import hot_expert, lognormal, random, sparse, uniform, zipf

__all__ = ["Demand", "hot_expert", "lognormal", "matrix", "random", "sparse", "uniform", "zipf"]
