#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/synthesis/arc_graph.hpp"

namespace interlock {

/// Trees to lay: one from each root to everyone wanted.
struct TreeDemand {
    std::span<const std::int32_t> root;
    std::span<const std::int64_t> bytes;
    /// [num_masks, num_nodes] nodes a tree must reach (others may relay); empty: all nodes.
    std::span<const std::uint8_t> wanted;
    /// Row of `wanted` of each tree; empty: row 0 for all.
    std::span<const std::int32_t> mask;
    /// Where not empty, each tree is laid twice, towards its root (a sum) and away from it, and its root may move to
    /// any of these nodes.
    std::span<const std::int32_t> free_roots;

    /// Of one tree, an entry per node; empty: all nodes.
    [[nodiscard]] std::span<const std::uint8_t> wanted_by(std::size_t tree, std::size_t num_nodes) const {
        if (wanted.empty()) return {};
        return wanted.subspan((mask.empty() ? 0 : static_cast<std::size_t>(mask[tree])) * num_nodes, num_nodes);
    }
};

/// Throws InvalidInput unless the demand fits the graph.
void check_demand(const ArcGraph& graph, const TreeDemand& demand);

struct PackingOptions {
    std::int32_t passes;  ///< how often every tree is taken out and laid again
    double slack;         ///< a shallower tree is preferred while it costs at most this much more than the cheapest
    double haste;         ///< how much time on the way weighs beside price when a shallow tree is sought
    std::uint64_t seed;
};

struct Packing {
    std::vector<std::int32_t> root;        ///< [num_trees]
    std::vector<std::int32_t> arc_into;    ///< [num_trees, num_nodes] arc into each node; -1 at the root and outside
    std::vector<std::int32_t> arc_outof;   ///< the same towards the root: arc out of each node; only with free roots
    std::vector<std::int64_t> load_ticks;  ///< [num_resources]
};

/// Lays one tree per root so that the busiest resource is as little busy as possible.
///
/// Trees are laid one by one along the cheapest arcs, a resource's price rising exponentially with its load (a
/// multiplicative-weights packing); later passes take each tree out and lay it again at the new prices. Throws where
/// a wanted node cannot be reached.
Packing pack_trees(const ArcGraph& graph, const TreeDemand& demand, const PackingOptions& options);

/// Trees of fastest ways that look alike from every root, so that chunks of different roots travel together: of the
/// last hops that are equally fast, a node takes the first arc (or the last, if `descending`).
/// @return [num_roots, num_nodes] arc into each node; -1 at the root and where nothing leads
std::vector<std::int32_t> alike_trees(const ArcGraph& graph, std::span<const std::int32_t> roots, std::int64_t bytes,
                                      bool descending);

/// Ticks that `bytes` need from each node to the farthest other one; -1 where one cannot be reached.
std::vector<std::int64_t> eccentricities(const ArcGraph& graph, std::int64_t bytes);

}  // namespace interlock
