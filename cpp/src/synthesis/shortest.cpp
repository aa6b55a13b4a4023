#include "interlock/synthesis/shortest.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "interlock/errors.hpp"
#include "interlock/limits.hpp"

namespace interlock {
namespace {

constexpr double unreached = std::numeric_limits<double>::infinity();

/// Arcs grouped by tail.
struct Adjacency {
    std::vector<std::int32_t> first, head;
    std::vector<double> cost;
};

Adjacency by_tail(std::int32_t num_nodes, std::span<const std::int32_t> src, std::span<const std::int32_t> dst,
                  std::span<const double> cost) {
    Adjacency out;
    out.first.assign(static_cast<std::size_t>(num_nodes) + 1, 0);
    for (const std::int32_t node : src) ++out.first[static_cast<std::size_t>(node) + 1];
    std::partial_sum(out.first.begin(), out.first.end(), out.first.begin());
    out.head.resize(src.size());
    out.cost.resize(src.size());
    std::vector<std::int32_t> next(out.first.begin(), out.first.end() - 1);
    for (std::size_t a = 0; a < src.size(); ++a) {
        const auto place = static_cast<std::size_t>(next[static_cast<std::size_t>(src[a])]++);
        out.head[place] = dst[a];
        out.cost[place] = cost[a];
    }
    return out;
}

/// All arcs cost the same: breadth first.
void spread_evenly(const Adjacency& out, std::int32_t source, double step, std::span<double> distance) {
    std::vector<std::int32_t> queue{source};
    queue.reserve(distance.size());
    distance[static_cast<std::size_t>(source)] = 0.0;
    for (std::size_t i = 0; i < queue.size(); ++i) {
        const auto v = static_cast<std::size_t>(queue[i]);
        for (auto a = static_cast<std::size_t>(out.first[v]); a < static_cast<std::size_t>(out.first[v + 1]); ++a) {
            const auto next = static_cast<std::size_t>(out.head[a]);
            if (distance[next] != unreached) continue;
            distance[next] = distance[v] + step;
            queue.push_back(out.head[a]);
        }
    }
}

void spread_by_cost(const Adjacency& out, std::int32_t source, std::span<double> distance) {
    using Entry = std::pair<double, std::int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    distance[static_cast<std::size_t>(source)] = 0.0;
    queue.emplace(0.0, source);
    while (!queue.empty()) {
        const auto [reached, node] = queue.top();
        queue.pop();
        const auto v = static_cast<std::size_t>(node);
        if (reached > distance[v]) continue;
        for (auto a = static_cast<std::size_t>(out.first[v]); a < static_cast<std::size_t>(out.first[v + 1]); ++a) {
            const double through = reached + out.cost[a];
            auto& best = distance[static_cast<std::size_t>(out.head[a])];
            if (through < best) {
                best = through;
                queue.emplace(through, out.head[a]);
            }
        }
    }
}

}  // namespace

std::vector<double> shortest_distances(std::int32_t num_nodes, std::span<const std::int32_t> src,
                                       std::span<const std::int32_t> dst, std::span<const double> cost,
                                       std::span<const std::int32_t> sources) {
    require(num_nodes >= 1 && num_nodes <= kMostNodes, "a network has between 1 and 1,000,000 nodes");
    require(src.size() == dst.size() && src.size() == cost.size(), "src, dst and cost must have one entry per arc");
    for (std::size_t a = 0; a < src.size(); ++a) {
        require(src[a] >= 0 && src[a] < num_nodes && dst[a] >= 0 && dst[a] < num_nodes,
                "an arc names a node that does not exist");
        require(cost[a] >= 0.0, "costs must not be negative");
    }
    for (const std::int32_t source : sources) require(source >= 0 && source < num_nodes, "a source does not exist");
    const Adjacency out = by_tail(num_nodes, src, dst, cost);
    const bool even = std::adjacent_find(cost.begin(), cost.end(), std::not_equal_to<>()) == cost.end();
    const auto width = static_cast<std::size_t>(num_nodes);
    std::vector<double> distance(sources.size() * width, unreached);
    for (std::size_t row = 0; row < sources.size(); ++row) {
        const std::span<double> mine(distance.data() + row * width, width);
        if (even && !cost.empty()) {
            spread_evenly(out, sources[row], cost.front(), mine);
        } else {
            spread_by_cost(out, sources[row], mine);
        }
    }
    return distance;
}

}  // namespace interlock
