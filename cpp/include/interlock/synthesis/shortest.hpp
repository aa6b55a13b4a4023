#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// Least cost from each source to each node, row-major [num_sources, num_nodes]; infinity where there is no way.
/// Arc costs must not be negative.
std::vector<double> shortest_distances(std::int32_t num_nodes, std::span<const std::int32_t> src,
                                       std::span<const std::int32_t> dst, std::span<const double> cost,
                                       std::span<const std::int32_t> sources);

}  // namespace interlock
