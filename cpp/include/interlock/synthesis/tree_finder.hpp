#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "interlock/synthesis/arborescence.hpp"
#include "interlock/synthesis/shortest_tree.hpp"

namespace interlock {

/// Finds trees in one direction: out of their roots along arcs, or (with ends swapped) into them.
class TreeFinder {
public:
    TreeFinder(std::int32_t num_nodes, std::span<const std::int32_t> tail, std::span<const std::int32_t> head)
        : num_nodes_(num_nodes),
          tail_(tail),
          head_(head),
          entering_(arcs_by_end(num_nodes, head)),
          cheapest_(num_nodes, tail, head),
          tree_(num_nodes, tail, head),
          least_(at(num_nodes)),
          is_needed_(at(num_nodes)),
          spanning_(at(num_nodes)) {}

    /// Price of the cheapest tree found; writes its arcs. Infinite where a wanted node cannot be reached.
    double cheapest(std::int32_t root, std::span<const std::uint8_t> wanted, std::span<const double> cost,
                    std::span<std::int32_t> arcs) {
        const double by_paths = shortest(root, wanted, cost, arcs);
        if (!cheapest_.cheapest(root, cost, spanning_)) return by_paths;
        prune(wanted, spanning_);
        const double by_tree = price(spanning_, cost);
        if (by_tree > by_paths) return by_paths;
        std::copy(spanning_.begin(), spanning_.end(), arcs.begin());
        return by_tree;
    }

    /// A shallow tree: nodes are ranked by their distance from the root, time counted beside price, and each takes
    /// the cheapest arc from a nearer one.
    double shallow(std::int32_t root, std::span<const std::uint8_t> wanted, std::span<const double> cost,
                   std::span<const double> length, std::span<std::int32_t> arcs) {
        tree_.search(root, length);
        std::ranges::copy(tree_.arc_into(), arcs.begin());
        const std::span<const double> distance = tree_.distance();
        std::fill(least_.begin(), least_.end(), std::numeric_limits<double>::infinity());
        for (std::size_t arc = 0; arc < tail_.size(); ++arc) {
            const std::size_t from = at(tail_[arc]), to = at(head_[arc]);
            if (distance[from] < distance[to] && cost[arc] < least_[to]) {
                least_[to] = cost[arc];
                arcs[to] = static_cast<std::int32_t>(arc);
            }
        }
        return finish(root, wanted, cost, arcs);
    }

    /// A tree whose last node is reached early: in the order of their distance from the root, price and time counted,
    /// each node takes the arc from a nearer one that is best in price and in the time at which it is reached.
    double early(std::int32_t root, std::span<const std::uint8_t> wanted, std::span<const double> cost,
                 std::span<const double> length, std::span<std::int32_t> arcs) {
        tree_.search(root, length);
        std::ranges::fill(least_, std::numeric_limits<double>::infinity());
        std::ranges::fill(arcs, -1);
        least_[at(root)] = 0.0;
        for (const std::int32_t node : tree_.order()) {
            if (node == root) continue;
            double best = std::numeric_limits<double>::infinity();
            for (const std::int32_t arc : entering_[node]) {
                // What is left of the length without the cost is time.
                const double reached = least_[at(tail_[at(arc)])] + length[at(arc)] - cost[at(arc)];
                if (reached + cost[at(arc)] >= best) continue;
                best = reached + cost[at(arc)];
                least_[at(node)] = reached;
                arcs[at(node)] = arc;
            }
        }
        return finish(root, wanted, cost, arcs);
    }

    /// The tree of shortest paths at the current prices.
    double shortest(std::int32_t root, std::span<const std::uint8_t> wanted, std::span<const double> cost,
                    std::span<std::int32_t> arcs) {
        tree_.search(root, cost);
        std::ranges::copy(tree_.arc_into(), arcs.begin());
        return finish(root, wanted, cost, arcs);
    }

    static double price(std::span<const std::int32_t> arcs, std::span<const double> cost) {
        double sum = 0.0;
        for (const std::int32_t arc : arcs) {
            if (arc >= 0) sum += cost[at(arc)];
        }
        return sum;
    }

private:
    double finish(std::int32_t root, std::span<const std::uint8_t> wanted, std::span<const double> cost,
                  std::span<std::int32_t> arcs) {
        for (std::int32_t node = 0; node < num_nodes_; ++node) {
            const bool is_wanted = wanted.empty() || wanted[at(node)] != 0;
            if (is_wanted && node != root && arcs[at(node)] < 0) return std::numeric_limits<double>::infinity();
        }
        prune(wanted, arcs);
        return price(arcs, cost);
    }

    // Cuts off branches that lead to nobody who is wanted.
    void prune(std::span<const std::uint8_t> wanted, std::span<std::int32_t> arcs) {
        if (wanted.empty()) return;
        std::fill(is_needed_.begin(), is_needed_.end(), 0);
        for (std::int32_t node = 0; node < num_nodes_; ++node) {
            if (wanted[at(node)] == 0) continue;
            for (std::int32_t up = node; is_needed_[at(up)] == 0;) {
                is_needed_[at(up)] = 1;
                if (arcs[at(up)] < 0) break;
                up = tail_[at(arcs[at(up)])];
            }
        }
        for (std::int32_t node = 0; node < num_nodes_; ++node) {
            if (is_needed_[at(node)] == 0) arcs[at(node)] = -1;
        }
    }

    std::int32_t num_nodes_;
    std::span<const std::int32_t> tail_, head_;
    Adjacency entering_;
    Arborescence cheapest_;
    ShortestTree tree_;
    std::vector<double> least_;
    std::vector<std::uint8_t> is_needed_;
    std::vector<std::int32_t> spanning_;
};

}  // namespace interlock
