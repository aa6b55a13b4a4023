#include "interlock/synthesis/tree_sweeps.hpp"

#include <algorithm>
#include <limits>

#include "interlock/arithmetic.hpp"
#include "interlock/limits.hpp"
#include "interlock/synthesis/laid_trees.hpp"
#include "interlock/synthesis/shortest_tree.hpp"

namespace interlock {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Finds trees in one direction: out of their roots along arcs, or (with ends swapped) into them.
class QuickTreeFinder {
public:
    QuickTreeFinder(std::int32_t num_nodes, std::span<const std::int32_t> tail, std::span<const std::int32_t> head,
                    std::span<const double> hop_ticks)
        : nodes_(at(num_nodes)),
          tail_(tail),
          hop_ticks_(hop_ticks),
          entering_(arcs_by_end(num_nodes, head)),
          ways_(num_nodes, tail, head),
          by_time_(nodes_ * nodes_),
          length_(tail.size()),
          reached_(nodes_) {
        for (std::int32_t root = 0; root < num_nodes; ++root) {
            std::ranges::copy(rank(root, hop_ticks), by_time_.begin() + static_cast<std::ptrdiff_t>(at(root) * nodes_));
        }
    }

    /// Nodes ranked by how soon they can be reached: quick, as that never changes. Returns the price.
    double find(std::int32_t root, std::span<const double> cost, double price_per_tick, std::span<std::int32_t> arcs) {
        return find_in(std::span(by_time_).subspan(at(root) * nodes_, nodes_), root, cost, price_per_tick, arcs);
    }

    /// Nodes ranked by price and time together: now one, now another is the first that scarce arcs lead to.
    double find_by_price(std::int32_t root, std::span<const double> cost, double price_per_tick,
                         std::span<std::int32_t> arcs) {
        for (std::size_t arc = 0; arc < length_.size(); ++arc)
            length_[arc] = cost[arc] + price_per_tick * hop_ticks_[arc];
        return find_in(rank(root, length_), root, cost, price_per_tick, arcs);
    }

private:
    std::span<const std::int32_t> rank(std::int32_t root, std::span<const double> length) {
        ways_.search(root, length);
        require(ways_.order().size() == nodes_, "every node must be reachable from every other");
        return ways_.order();
    }

    // Every node takes the best arc from one before it.
    double find_in(std::span<const std::int32_t> order, std::int32_t root, std::span<const double> cost,
                   double price_per_tick, std::span<std::int32_t> arcs) {
        std::ranges::fill(reached_, kNever);
        reached_[at(root)] = 0.0;
        arcs[at(root)] = -1;
        double price = 0.0;
        for (const std::int32_t node : order) {
            if (node == root) continue;
            double least = kNever;
            std::int32_t best = -1;
            for (const std::int32_t arc : entering_[node]) {
                const double reached = reached_[at(tail_[at(arc)])] + hop_ticks_[at(arc)];
                const double value = cost[at(arc)] + price_per_tick * reached;
                if (reached < kNever && (best < 0 || value < least)) {
                    least = value;
                    best = arc;
                }
            }
            require(best >= 0, "a node must come after one that leads to it");
            arcs[at(node)] = best;
            reached_[at(node)] = reached_[at(tail_[at(best)])] + hop_ticks_[at(best)];
            price += cost[at(best)];
        }
        return price;
    }

    std::size_t nodes_;
    std::span<const std::int32_t> tail_;
    std::span<const double> hop_ticks_;
    Adjacency entering_;
    ShortestTree ways_;
    std::vector<std::int32_t> by_time_;  // [num_nodes, num_nodes] nodes by their distance from each root
    std::vector<double> length_;
    std::vector<double> reached_;  // when, in the tree at hand
};

class Sweeper {
public:
    Sweeper(const ArcGraph& graph, const TreeDemand& demand, const SweepOptions& options)
        : graph_(graph),
          demand_(demand),
          options_(options),
          nodes_(at(graph.num_nodes)),
          laid_(graph, demand),
          away_(graph.num_nodes, graph.arc_src, graph.arc_dst, options.hop_ticks),
          towards_(graph.num_nodes, graph.arc_dst, graph.arc_src, options.hop_ticks),
          trial_(nodes_) {}

    Packing pack() {
        return laid_.pack(options_.passes, options_.seed, least_peak(),
                          [&](std::size_t tree, std::int32_t pass) { lay(tree, pass); });
    }

private:
    static constexpr std::size_t kRootsTried = 3;

    // The busiest node if every tree entered it over all its arcs at once: a scale for the first prices.
    double least_peak() const {
        std::vector<double> rate(nodes_);
        const std::int64_t bytes = demand_.bytes.front();
        for (std::size_t arc = 0; arc < graph_.num_arcs(); ++arc) {
            rate[at(graph_.arc_dst[arc])] +=
                1.0 / static_cast<double>(std::max<std::int64_t>(1, laid_.prices().ticks(arc, bytes)));
        }
        return static_cast<double>(demand_.bytes.size()) / std::ranges::min(rate) * (laid_.is_paired() ? 2.0 : 1.0);
    }

    void lay(std::size_t tree, std::int32_t pass) {
        const std::span<const double> cost = laid_.prices().costs(demand_.bytes[tree]);
        const double price_per_tick = options_.haste * laid_.prices().mean();
        std::int32_t& root = laid_.root(tree);
        if (laid_.is_paired()) root = choose_root(tree, pass, cost, price_per_tick);
        away_.find_by_price(root, cost, price_per_tick, laid_.into(tree));
        if (laid_.is_paired()) towards_.find_by_price(root, cost, price_per_tick, laid_.outof(tree));
    }

    std::int32_t choose_root(std::size_t tree, std::int32_t pass, std::span<const double> cost, double price_per_tick) {
        return laid_.cheapest_root(tree, pass, options_.seed, kRootsTried, [&](std::int32_t root) {
            return away_.find(root, cost, price_per_tick, trial_) + towards_.find(root, cost, price_per_tick, trial_);
        });
    }

    const ArcGraph& graph_;
    const TreeDemand& demand_;
    const SweepOptions& options_;
    std::size_t nodes_;
    LaidTrees laid_;
    QuickTreeFinder away_, towards_;
    std::vector<std::int32_t> trial_;
};

}  // namespace

Packing sweep_trees(const ArcGraph& graph, const TreeDemand& demand, const SweepOptions& options) {
    check_demand(graph, demand);
    require(options.passes <= kMostRounds, "passes must be at most 100000");
    require(options.passes >= 1 && options.haste >= 0.0, "at least one pass, and haste that is not negative");
    require(options.hop_ticks.size() == graph.num_arcs(), "every arc needs the time of a hop");
    for (const double ticks : options.hop_ticks) require(ticks > 0.0 && ticks < kNever, "every hop must take time");
    require(options.haste < 1e9, "haste must be below 1e9");
    require(demand.wanted.empty() && demand.mask.empty(), "trees must span all nodes");
    if (demand.root.empty()) return {{}, {}, {}, std::vector<std::int64_t>(at(graph.num_resources))};
    return Sweeper(graph, demand, options).pack();
}

}  // namespace interlock
