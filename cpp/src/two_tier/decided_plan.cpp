#include <algorithm>
#include <utility>

#include "interlock/errors.hpp"
#include "interlock/two_tier/tiles.hpp"
#include "interlock/two_tier/two_tier_plan.hpp"

namespace interlock {
namespace {

std::size_t to_size(std::int32_t value) { return static_cast<std::size_t>(value); }

/// Bytes of tiles as the decision left them.
Tiles tiles_of(std::span<const std::int64_t> demand, const TwoTierDecision& decision) {
    const std::size_t servers = decision.servers, width = decision.width;
    require(demand.size() == servers * width * servers * width, "demand_bytes must be [ranks, ranks]");
    if (decision.tile_bytes.empty()) return sum_tiles(demand, servers, width);
    return {servers, width, decision.tile_bytes, {}, {}, {}, 0};
}

/// As the segments of `whole_tiles` would tell.
std::int64_t typical_lane_bytes(const Tiles& tiles, const LaneTable& lanes) {
    std::int64_t most = 1;
    for (std::size_t src = 0; src < tiles.servers; ++src) {
        std::int64_t bytes = 0, count = 0;
        for (std::size_t tile = src * tiles.servers; tile < (src + 1) * tiles.servers; ++tile) {
            if (tile % tiles.servers == src || tiles.bytes[tile] == 0) continue;
            bytes += tiles.bytes[tile];
            count += lanes.offsets.empty() ? static_cast<std::int64_t>(tiles.width) : lanes.offsets[tile + 1] - lanes.offsets[tile];
        }
        if (count > 0) most = std::max(most, bytes / count);
    }
    return most;
}

/// Tiles from and to one server, all at once.
std::vector<Segment> tiles_at(const Tiles& tiles, std::size_t server) {
    std::vector<Segment> segments;
    segments.reserve(2 * tiles.servers);
    for (std::size_t src = 0; src < tiles.servers; ++src) {
        const std::size_t first = src == server ? 0 : server, last = src == server ? tiles.servers : server + 1;
        for (std::size_t dst = first; dst < last; ++dst) {
            const std::int64_t bytes = src == dst ? 0 : tiles.bytes[src * tiles.servers + dst];
            if (bytes > 0) segments.push_back({static_cast<std::int32_t>(src), static_cast<std::int32_t>(dst), 0, 0, bytes});
        }
    }
    return segments;
}

}  // namespace

DecidedPlan::DecidedPlan(std::span<const std::int64_t> demand, const TwoTierDecision& decision, std::int32_t rank)
    : tiles_(tiles_of(demand, decision)),
      lanes_(lanes_of(demand, tiles_, decision.targets, decision.pace, decision.crosses_rails)),
      plan_{decision.servers,
            decision.width,
            decision.segments,
            lanes_,
            decision.slice_bytes,
            decision.pace,
            decision.window,
            decision.local_window,
            decision.heavy_pairs,
            decision.is_pair_burst,
            decision.lane_flows,
            decision.least_part_bytes,
            decision.most_port_bytes,
            decision.loops_in_turn,
            decision.flow_bytes,
            &decision.assignment,
            rank} {
    if (decision.way == Way::kDetour) plan_.typical_lane_bytes = decision.pair_bytes;
    if (!decision.segments.empty()) return;
    // In a burst, tiles between other servers do not tell.
    whole_ = rank == kEveryone || decision.pace != Pace::kBurst ? whole_tiles(tiles_) : tiles_at(tiles_, to_size(rank) / decision.width);
    plan_.segments = whole_;
    if (decision.way != Way::kDetour) plan_.typical_lane_bytes = typical_lane_bytes(tiles_, lanes_);
}

TwoTierDecision scaled(const TwoTierDecision& decision, std::span<const std::int64_t> demand_bytes) {
    TwoTierDecision made = decision;
    made.tile_bytes.clear();
    if (decision.segments.empty()) return made;
    const Tiles tiles = sum_tiles(demand_bytes, decision.servers, decision.width);
    made.segments = scale_segments(decision.segments, tiles);
    made.tile_bytes = tiles.bytes;
    return made;
}

}  // namespace interlock
