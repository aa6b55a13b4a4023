#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// A directed graph whose first `num_ranks` nodes are ranks. A link of negative cost is never used.
struct RoutedGraph {
    std::int32_t num_ranks = 0;
    std::int32_t num_nodes = 0;
    std::span<const std::int32_t> link_src;
    std::span<const std::int32_t> link_dst;
    std::span<const std::int64_t> cost;
};

/// Row r holds the links of the r-th route, in order.
struct Routes {
    std::vector<std::int64_t> offsets;
    std::vector<std::int32_t> links;
};

/// Cheapest route of every pair (src[r], dst[r]), passing through no other rank; none for a rank to itself.
/// Among equally cheap ways into a node the destination chooses, number `dst mod ways`, so that the spines of a Clos
/// share the destinations and the routes of one destination stay together.
/// @throws InvalidInput naming the pair that cannot be joined.
Routes shortest_routes(const RoutedGraph& graph, std::span<const std::int32_t> src, std::span<const std::int32_t> dst);

}  // namespace interlock
