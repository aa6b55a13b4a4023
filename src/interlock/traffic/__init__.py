"""What has to be moved between ranks: byte matrices, token routing, and the generators and readers that make them."""

from interlock.traffic.by_name import kinds, parse
from interlock.traffic.demand import Demand, HasRanks, Unevenness, gini, matrix
from interlock.traffic.generators import hot_expert, lognormal, random, sparse, uniform, zipf
from interlock.traffic.moe_router import expert_popularity, moe, moe_routing, token_bytes
from interlock.traffic.placement import Placement, contiguous_placement, eplb_placement
from interlock.traffic.readers import read_demand
from interlock.traffic.routing import Routing, RoutingStatistics, read_expert_loads, read_routing

__all__ = [
    "Demand",
    "HasRanks",
    "Placement",
    "Routing",
    "RoutingStatistics",
    "Unevenness",
    "contiguous_placement",
    "eplb_placement",
    "expert_popularity",
    "gini",
    "hot_expert",
    "kinds",
    "lognormal",
    "matrix",
    "moe",
    "moe_routing",
    "parse",
    "random",
    "read_demand",
    "read_expert_loads",
    "read_routing",
    "sparse",
    "token_bytes",
    "uniform",
    "zipf",
]
