#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/two_tier/nic_targets.hpp"
#include "interlock/two_tier/tiles.hpp"
#include "interlock/two_tier/two_tier_expand.hpp"

namespace interlock {

/// Every tile with bytes as one segment of stage 0, or as `rounds` equal parts, part k of all tiles in stage k.
std::vector<Segment> whole_tiles(const Tiles& tiles, std::int32_t rounds = 1);

/// Segments of an earlier demand stretched to a new one, each tile in proportion; tiles that had nothing come last.
std::vector<Segment> scale_segments(std::span<const Segment> segments, const Tiles& tiles);

/// Segments of a staged plan: one-to-one, in the order they start, in at most 2.5 stages per server and 4 more.
struct Stages {
    std::vector<Segment> segments;
    std::int32_t num_stages = 0;
    double seconds = 0;  ///< when the last segment ends, stage overheads included
};
Stages make_stages(const Tiles& tiles, const Ports& ports, double stage_overhead_s);

}  // namespace interlock
