#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// A directed network: arc a goes from src[a] to dst[a] and carries at most capacity[a]. Capacities are whole numbers
/// whose sum fits 62 bits.
struct Arcs {
    std::int32_t num_nodes;
    std::span<const std::int32_t> src;
    std::span<const std::int32_t> dst;
    std::span<const std::int64_t> capacity;
};

/// A set of nodes and the capacity of the arcs that leave it.
struct Cut {
    std::int64_t value = 0;
    std::vector<std::uint8_t> source_side;  // [num_nodes], 1 where the node is in the set
};

/// The narrowest cut between two nodes (Dinic's maximum flow).
Cut narrowest_cut_between(const Arcs& arcs, std::int32_t source, std::int32_t sink);

/// The narrowest cut between `source` and any other node: one preflow for all sinks (Hao and Orlin).
Cut narrowest_cut_from(const Arcs& arcs, std::int32_t source);

/// Of all ways to split the nodes into blocks, one that minimises (capacity of arcs between blocks) - price * blocks:
/// block of each node, numbered in order of first appearance. (Dilworth truncation, one minimum cut per node.)
std::vector<std::int32_t> cheapest_partition(const Arcs& arcs, std::int64_t price);

}  // namespace interlock
