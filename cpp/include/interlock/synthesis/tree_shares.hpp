#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/synthesis/tree_packing.hpp"

namespace interlock {

struct ShareOptions {
    std::span<const double> hop_ticks;  ///< [num_arcs] how long it takes to be passed on
    double haste;                       ///< how much time on the way weighs beside price
    double tolerance;                   ///< how much longer than the least the busiest resource may be busy
    std::int32_t most_steps;            ///< give up improving after so many
};

struct TreeShares {
    std::vector<std::int32_t> demand;     ///< [num_trees] whose bytes a tree carries
    std::vector<double> share;            ///< which part of them
    std::vector<std::int32_t> root;       ///< [num_trees]
    std::vector<std::int32_t> arc_into;   ///< [num_trees, num_nodes] arc into each node; -1 at the root and outside
    std::vector<std::int32_t> arc_outof;  ///< the same towards the root: arc out of each node; only with free roots
    double peak_ticks = 0.0;              ///< how long the busiest resource is busy, overhead not counted
    std::int32_t steps = 0;
};

/// Splits what every root sends over several trees, in whatever parts, so that the busiest resource is busy no longer
/// than it must be.
///
/// A linear program whose columns are trees: at the prices of the resources so far, the cheapest tree of each root
/// shows whether anything better is left. Where roots are free the bytes of all demands are shared over all of them,
/// each with a tree towards it and one away from it. The number of trees is at most that of resources and demands
/// together; there are none where steps are too few for a tree to every demand.
TreeShares share_trees(const ArcGraph& graph, const TreeDemand& demand, const ShareOptions& options);

}  // namespace interlock
