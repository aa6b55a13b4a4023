#include "interlock/synthesis/tree_packing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "interlock/arithmetic.hpp"
#include "interlock/limits.hpp"
#include "interlock/synthesis/laid_trees.hpp"
#include "interlock/synthesis/tree_finder.hpp"
#include "interlock/synthesis/shortest_tree.hpp"

namespace interlock {
namespace {

class Packer {
public:
    Packer(const ArcGraph& graph, const TreeDemand& demand, const PackingOptions& options)
        : graph_(graph),
          demand_(demand),
          options_(options),
          nodes_(at(graph.num_nodes)),
          laid_(graph, demand),
          away_(graph.num_nodes, graph.arc_src, graph.arc_dst),
          towards_(graph.num_nodes, graph.arc_dst, graph.arc_src),
          length_(graph.num_arcs()),
          trial_(nodes_),
          best_(nodes_) {}

    Packing pack() {
        return laid_.pack(options_.passes, options_.seed, least_peak(),
                          [&](std::size_t tree, std::int32_t pass) { lay(tree, pass, pass > 0); });
    }

private:
    static constexpr std::size_t kRootsTried = 8;

    // The busiest node if every tree entered it over all its arcs at once: a scale for the first prices.
    double least_peak() const {
        std::vector<double> rate(nodes_);
        double bytes = 0.0, slowest = std::numeric_limits<double>::infinity();
        for (const std::int64_t b : demand_.bytes) bytes += static_cast<double>(b);
        const double trees = static_cast<double>(demand_.bytes.size()), mean = bytes / trees;
        for (std::size_t arc = 0; arc < graph_.num_arcs(); ++arc) {
            const double ticks = static_cast<double>(graph_.overhead_ticks[arc]) + mean * graph_.ticks_per_byte[arc];
            rate[at(graph_.arc_dst[arc])] += 1.0 / ticks;
        }
        for (const double r : rate) {
            if (r > 0.0) slowest = std::min(slowest, r);
        }
        return trees / slowest * (laid_.is_paired() ? 2.0 : 1.0);
    }

    void lay(std::size_t tree, std::int32_t pass, bool has_old) {
        const std::span<const double> cost = laid_.prices().costs(demand_.bytes[tree]);
        const double haste = options_.haste * laid_.prices().mean();
        for (std::size_t arc = 0; arc < length_.size(); ++arc) {
            length_[arc] = cost[arc] + haste * static_cast<double>(laid_.prices().ticks(arc, demand_.bytes[tree]));
        }
        std::int32_t& root = laid_.root(tree);
        const std::int32_t old_root = root;
        if (laid_.is_paired()) root = choose_root(tree, pass, cost);
        const bool may_keep = has_old && root == old_root;
        settle(away_, root, tree, cost, may_keep, laid_.into(tree));
        if (laid_.is_paired()) settle(towards_, root, tree, cost, may_keep, laid_.outof(tree));
    }

    // The shallowest kind of tree that is not much dearer than the cheapest; the old one where it is no dearer.
    void settle(TreeFinder& finder, std::int32_t root, std::size_t tree, std::span<const double> cost, bool may_keep,
                std::span<std::int32_t> arcs) {
        const double least = finder.cheapest(root, demand_.wanted_by(tree, nodes_), cost, best_);
        require(std::isfinite(least), "every wanted node must be reachable from every root");
        const double most = (1.0 + options_.slack) * least;
        double price = finder.shallow(root, demand_.wanted_by(tree, nodes_), cost, length_, trial_);
        if (price > most) {
            price = least;
            std::copy(best_.begin(), best_.end(), trial_.begin());
        }
        if (may_keep && TreeFinder::price(arcs, cost) <= price) return;
        std::copy(trial_.begin(), trial_.end(), arcs.begin());
    }

    std::int32_t choose_root(std::size_t tree, std::int32_t pass, std::span<const double> cost) {
        return laid_.cheapest_root(tree, pass, options_.seed, kRootsTried, [&](std::int32_t root) {
            return away_.shallow(root, demand_.wanted_by(tree, nodes_), cost, length_, trial_) +
                   towards_.shallow(root, demand_.wanted_by(tree, nodes_), cost, length_, trial_);
        });
    }

    const ArcGraph& graph_;
    const TreeDemand& demand_;
    const PackingOptions& options_;
    std::size_t nodes_;
    LaidTrees laid_;
    TreeFinder away_, towards_;
    std::vector<double> length_;
    std::vector<std::int32_t> trial_, best_;
};

}  // namespace

void check_demand(const ArcGraph& graph, const TreeDemand& demand) {
    graph.check();
    const std::size_t nodes = at(graph.num_nodes), trees = demand.root.size();
    double graph_bytes = 0.0;
    require(demand.bytes.size() == trees, "every tree needs a size");
    for (const std::int64_t bytes : demand.bytes) {
        require(bytes >= 0, "sizes must not be negative");
        graph_bytes = std::max(graph_bytes, static_cast<double>(bytes));
    }
    graph.check_load(graph_bytes);
    require(demand.wanted.size() % nodes == 0, "wanted must have one entry per node");
    require(demand.mask.empty() || demand.mask.size() == trees, "every tree needs a mask, or none");
    for (const std::int32_t mask : demand.mask) {
        require(mask >= 0 && (at(mask) + 1) * nodes <= demand.wanted.size(), "masks must be rows of wanted");
    }
    require_ids(demand.root, graph.num_nodes, "roots must be nodes");
    require_ids(demand.free_roots, graph.num_nodes, "roots must be nodes");
}

Packing pack_trees(const ArcGraph& graph, const TreeDemand& demand, const PackingOptions& options) {
    check_demand(graph, demand);
    require(options.passes >= 1 && options.passes <= 100'000, "passes must be between 1 and 100000");
    require(options.slack >= 0.0 && options.haste >= 0.0, "slack and haste must not be negative");
    require(std::isfinite(options.slack) && std::isfinite(options.haste), "slack and haste must be finite");
    if (demand.root.empty()) return {{}, {}, {}, std::vector<std::int64_t>(at(graph.num_resources))};
    return Packer(graph, demand, options).pack();
}

namespace {

std::vector<double> arc_ticks(const ArcGraph& graph, std::int64_t bytes) {
    const Prices prices(graph);
    std::vector<double> ticks(graph.num_arcs());
    for (std::size_t arc = 0; arc < ticks.size(); ++arc) ticks[arc] = static_cast<double>(prices.ticks(arc, bytes));
    return ticks;
}

}  // namespace

std::vector<std::int32_t> alike_trees(const ArcGraph& graph, std::span<const std::int32_t> roots, std::int64_t bytes,
                                      bool descending) {
    graph.check();
    graph.check_load(static_cast<double>(bytes));
    const std::size_t nodes = at(graph.num_nodes), arcs = graph.num_arcs();
    const std::vector<double> ticks = arc_ticks(graph, bytes);
    ShortestTree tree(graph.num_nodes, graph.arc_src, graph.arc_dst);
    std::vector<std::int32_t> into(roots.size() * nodes, -1);
    for (std::size_t i = 0; i < roots.size(); ++i) {
        require(roots[i] >= 0 && roots[i] < graph.num_nodes, "roots must be nodes");
        tree.search(roots[i], ticks);
        const std::span<const double> distance = tree.distance();
        for (std::size_t k = 0; k < arcs; ++k) {
            const std::size_t arc = descending ? arcs - 1 - k : k;
            const std::size_t from = at(graph.arc_src[arc]), to = at(graph.arc_dst[arc]);
            std::int32_t& taken = into[i * nodes + to];
            // Whole numbers of ticks below 2^53: sums are exact.
            if (taken < 0 && to != at(roots[i]) && distance[from] + ticks[arc] == distance[to]) {
                taken = static_cast<std::int32_t>(arc);
            }
        }
    }
    return into;
}

std::vector<std::int64_t> eccentricities(const ArcGraph& graph, std::int64_t bytes) {
    graph.check();
    graph.check_load(static_cast<double>(bytes));
    require(graph.num_nodes <= kMostCompared, "distances between all nodes are for at most 16,384 nodes");
    const std::vector<double> ticks = arc_ticks(graph, bytes);
    ShortestTree tree(graph.num_nodes, graph.arc_src, graph.arc_dst);
    std::vector<std::int64_t> farthest;
    for (std::int32_t node = 0; node < graph.num_nodes; ++node) {
        tree.search(node, ticks);
        const double distance = std::ranges::max(tree.distance());
        farthest.push_back(std::isfinite(distance) ? std::llround(distance) : -1);
    }
    return farthest;
}

}  // namespace interlock
