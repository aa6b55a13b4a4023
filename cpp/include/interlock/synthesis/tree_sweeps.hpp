#pragma once

#include <cstdint>
#include <span>

#include "interlock/synthesis/tree_packing.hpp"

namespace interlock {

struct SweepOptions {
    std::span<const double> hop_ticks;  ///< [num_arcs] how long it takes to be passed on, merged with others
    std::int32_t passes;                ///< how often every tree is taken out and hung up again
    double haste;                       ///< how much time on the way weighs beside price
    std::uint64_t seed;
};

/// Lays trees that span all nodes, as `pack_trees` does, in time proportional to the number of arcs for each.
///
/// Nodes are ranked by how soon they can be reached from the root; in that order each takes the arc from an earlier one
/// that is best in price and in time on the way. Where nodes have many arcs that balances as well as the cheapest trees
/// do; where few arcs are scarce it does not. Throws where a node cannot be reached from another.
Packing sweep_trees(const ArcGraph& graph, const TreeDemand& demand, const SweepOptions& options);

}  // namespace interlock
