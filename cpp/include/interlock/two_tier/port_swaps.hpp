#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "interlock/two_tier/lanes.hpp"
#include "interlock/two_tier/two_tier_expand.hpp"

namespace interlock {

/// Bytes that the scale-up ports of all ranks pass on, [ranks] each way.
struct PortLoads {
    std::vector<std::int64_t> up, down;
};

/// What the lanes of one tile carry, and the first ranks of its two servers.
struct TileLoads {
    std::span<const Lane> lanes;
    std::span<LaneLoad> loads;
    std::size_t src_first, dst_first;
};

/// Adds the moves of a tile before and after the wire.
void count_moves(const TileLoads& tile, PortLoads& ports);

/// Swaps equal amounts between lanes until no port of the tile's servers passes on more than `most_bytes`, or none can
/// be relieved without burdening another one as much. What a lane carries in all stays as it was.
void even_ports(const TileLoads& tile, PortLoads& ports, std::int64_t most_bytes);

/// What the lanes of both tiles between two servers carry, by sending server.
using PairLoads = std::vector<std::vector<LaneLoad>>;

/// Both tiles of a plan for two servers, with ports relieved that would have to pass on more than `most_port_bytes`.
PairLoads even_pair(std::span<const std::int64_t> demand_bytes, const TwoTierPlan& plan, LaneAssigner& assigner);

}  // namespace interlock
