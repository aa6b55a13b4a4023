#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/synthesis/arc_graph.hpp"

namespace interlock {

/// Bytes to be moved from one node to another; sorted by source.
struct PathDemand {
    std::span<const std::int32_t> src;
    std::span<const std::int32_t> dst;
    std::span<const std::int64_t> bytes;
};

struct PathOptions {
    std::int32_t passes;  ///< how often every path is taken out and laid again
    std::int32_t batch;   ///< paths of one source laid together, at the same prices
    double haste;         ///< how much time on the way weighs beside price
    std::uint64_t seed;
    std::span<const std::int64_t> delay_ticks;  ///< [num_arcs] more time on the way, which holds nothing
};

struct Paths {
    std::vector<std::int64_t> offsets;     ///< [num_demands + 1]
    std::vector<std::int32_t> arcs;        ///< from the source on
    std::vector<std::int64_t> load_ticks;  ///< [num_resources]
};

/// One path per demand, laid so that the busiest resource is as little busy as possible; prices as in `pack_trees`.
/// Throws where a destination cannot be reached.
Paths route_paths(const ArcGraph& graph, const PathDemand& demand, const PathOptions& options);

}  // namespace interlock
