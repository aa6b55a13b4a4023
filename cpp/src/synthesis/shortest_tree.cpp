#include "interlock/synthesis/shortest_tree.hpp"

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/limits.hpp"

namespace interlock {
namespace {

/// Where all arcs cost the same: breadth first, which needs no heap.
void spread_evenly(const Adjacency& leaving, std::span<const std::int32_t> head, std::int32_t source, double step,
                   std::span<double> distance) {
    std::vector<std::int32_t> queue{source};
    queue.reserve(distance.size());
    distance[at(source)] = 0.0;
    for (std::size_t i = 0; i < queue.size(); ++i) {
        for (const std::int32_t arc : leaving[queue[i]]) {
            const std::int32_t next = head[at(arc)];
            if (distance[at(next)] != std::numeric_limits<double>::infinity()) continue;
            distance[at(next)] = distance[at(queue[i])] + step;
            queue.push_back(next);
        }
    }
}

}  // namespace

std::vector<double> shortest_distances(std::int32_t num_nodes, std::span<const std::int32_t> src,
                                       std::span<const std::int32_t> dst, std::span<const double> cost,
                                       std::span<const std::int32_t> sources) {
    require(num_nodes >= 1 && num_nodes <= kMostNodes, "a network has between 1 and 1,000,000 nodes");
    require(src.size() == dst.size() && src.size() == cost.size(), "src, dst and cost must have one entry per arc");
    require_ends(src, dst, num_nodes, "an arc names a node that does not exist");
    for (const double each : cost) require(each >= 0.0, "costs must not be negative");
    require_ids(sources, num_nodes, "a source does not exist");
    const bool is_even = std::ranges::adjacent_find(cost, std::not_equal_to<>{}) == cost.end();
    const Adjacency leaving = arcs_by_end(num_nodes, src);
    ShortestTree tree(num_nodes, src, dst);
    const std::size_t nodes = at(num_nodes);
    std::vector<double> distance(sources.size() * nodes, std::numeric_limits<double>::infinity());
    for (std::size_t row = 0; row < sources.size(); ++row) {
        const std::span<double> mine = std::span(distance).subspan(row * nodes, nodes);
        if (is_even && !cost.empty()) {
            spread_evenly(leaving, dst, sources[row], cost.front(), mine);
        } else {
            tree.search(sources[row], cost);
            std::ranges::copy(tree.distance(), mine.begin());
        }
    }
    return distance;
}

}  // namespace interlock
