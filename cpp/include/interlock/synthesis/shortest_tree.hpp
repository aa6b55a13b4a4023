#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "interlock/synthesis/arc_graph.hpp"

namespace interlock {

/// Dijkstra's search, again and again over the same arcs; ties go to the arc found first.
class ShortestTree {
public:
    /// Follows arcs from `tail` to `head`; both must outlive the searches.
    ShortestTree(std::int32_t num_nodes, std::span<const std::int32_t> tail, std::span<const std::int32_t> head)
        : head_(head), leaving_(arcs_by_end(num_nodes, tail)), distance_(at(num_nodes)), arc_into_(at(num_nodes)) {}

    /// Finds the shortest way from `root` to every node; lengths must not be negative.
    void search(std::int32_t root, std::span<const double> length) {
        std::ranges::fill(distance_, std::numeric_limits<double>::infinity());
        std::ranges::fill(arc_into_, -1);
        distance_[at(root)] = 0.0;
        order_.clear();
        heap_.assign(1, {0.0, root});
        while (!heap_.empty()) {
            const auto [here, node] = heap_.front();
            std::ranges::pop_heap(heap_, std::greater<>{});
            heap_.pop_back();
            if (here > distance_[at(node)]) continue;
            order_.push_back(node);
            for (const std::int32_t arc : leaving_[node]) {
                const std::int32_t next = head_[at(arc)];
                const double reached = here + length[at(arc)];
                if (reached < distance_[at(next)]) {
                    distance_[at(next)] = reached;
                    arc_into_[at(next)] = arc;
                    heap_.emplace_back(reached, next);
                    std::ranges::push_heap(heap_, std::greater<>{});
                }
            }
        }
    }

    [[nodiscard]] std::span<const double> distance() const { return distance_; }
    /// Nodes that were reached, nearest first: each after the one that it was reached from.
    [[nodiscard]] std::span<const std::int32_t> order() const { return order_; }
    [[nodiscard]] std::span<const std::int32_t> arc_into() const { return arc_into_; }

private:
    std::span<const std::int32_t> head_;
    Adjacency leaving_;
    std::vector<double> distance_;
    std::vector<std::int32_t> arc_into_, order_;
    std::vector<std::pair<double, std::int32_t>> heap_;
};

/// Least cost from each source to each node, row-major [num_sources, num_nodes]; infinity where there is no way.
/// Arc costs must not be negative.
std::vector<double> shortest_distances(std::int32_t num_nodes, std::span<const std::int32_t> src,
                                       std::span<const std::int32_t> dst, std::span<const double> cost,
                                       std::span<const std::int32_t> sources);

}  // namespace interlock
