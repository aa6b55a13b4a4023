#include "interlock/synthesis/shortest_routes.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <string>
#include <utility>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/limits.hpp"
#include "interlock/synthesis/arc_graph.hpp"

namespace interlock {

namespace {

constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();

/// Distances from one source at a time; only what a search touched is cleared for the next.
class Search {
public:
    explicit Search(const RoutedGraph& graph)
        : graph_(graph),
          out_(arcs_by_end(graph.num_nodes, graph.link_src)),
          in_(arcs_by_end(graph.num_nodes, graph.link_dst)),
          distance_(at(graph.num_nodes), kFar),
          parent_(at(graph.num_nodes)),
          ways_(at(graph.num_nodes)) {}

    void run_from(std::int32_t source) {
        for (const auto node : touched_) distance_[at(node)] = kFar;
        touched_.assign(1, source);
        source_ = source;
        distance_[at(source)] = 0;
        queue_.emplace(0, source);
        while (!queue_.empty()) {
            const auto [distance, node] = queue_.top();
            queue_.pop();
            if (distance == distance_[at(node)] && passes(node)) relax(node);
        }
    }

    /// Appends the route to `target`, found backwards.
    void append_route(std::int32_t target, std::vector<std::int32_t>& links) const {
        if (distance_[at(target)] == kFar) {
            throw InvalidInput("rank " + std::to_string(target) + " cannot be reached from rank " +
                               std::to_string(source_) + " without relaying at another rank");
        }
        const auto begin = static_cast<std::ptrdiff_t>(links.size());
        for (auto node = target; node != source_; node = graph_.link_src[at(links.back())]) {
            links.push_back(ways_[at(node)] == 1 ? parent_[at(node)] : tied_link(node, target));
        }
        std::reverse(links.begin() + begin, links.end());
    }

private:
    [[nodiscard]] bool passes(std::int32_t node) const { return node == source_ || node >= graph_.num_ranks; }

    void relax(std::int32_t node) {
        for (const auto link : out_[node]) {
            const auto cost = graph_.cost[at(link)];
            if (cost < 0) continue;
            const auto next = graph_.link_dst[at(link)];
            const auto reached = distance_[at(node)] + cost;
            auto& best = distance_[at(next)];
            if (reached == best && next != source_) ++ways_[at(next)];
            if (reached >= best) continue;
            if (best == kFar) touched_.push_back(next);
            best = reached;
            parent_[at(next)] = link;
            ways_[at(next)] = 1;
            if (passes(next)) queue_.emplace(reached, next);
        }
    }

    [[nodiscard]] std::int32_t tied_link(std::int32_t node, std::int32_t target) const {
        auto skip = target % ways_[at(node)];
        for (const auto link : in_[node]) {
            const auto from = graph_.link_src[at(link)];
            const auto cost = graph_.cost[at(link)];
            if (cost < 0 || !passes(from) || distance_[at(from)] == kFar) continue;
            if (distance_[at(from)] + cost == distance_[at(node)] && skip-- == 0) return link;
        }
        throw InvalidInput("the number of equally short ways into a node does not add up");
    }

    using Entry = std::pair<std::int64_t, std::int32_t>;
    const RoutedGraph& graph_;
    Adjacency out_, in_;
    std::vector<std::int64_t> distance_;
    std::vector<std::int32_t> parent_, ways_;
    std::vector<std::int32_t> touched_;
    std::int32_t source_ = 0;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

void check(const RoutedGraph& graph, std::span<const std::int32_t> src, std::span<const std::int32_t> dst) {
    require(graph.num_ranks >= 0 && graph.num_ranks <= graph.num_nodes && graph.num_nodes <= kMostNodes,
            "num_ranks must not exceed num_nodes, nor that 1,000,000");
    require(graph.link_src.size() == graph.link_dst.size() && graph.link_src.size() == graph.cost.size(),
            "link columns must have equal lengths");
    require_ends(graph.link_src, graph.link_dst, graph.num_nodes, "links must join nodes of the graph");
    // Zero costs would let equally short ways run in a circle.
    require(std::all_of(graph.cost.begin(), graph.cost.end(), [](auto c) { return c != 0 && c <= (1LL << 42); }),
            "a link must cost between 1 and 2^42");
    require(src.size() == dst.size(), "src and dst must have equal lengths");
    require_ends(src, dst, graph.num_ranks, "routes must join ranks of the graph");
}

}  // namespace

Routes shortest_routes(const RoutedGraph& graph, std::span<const std::int32_t> src, std::span<const std::int32_t> dst) {
    check(graph, src, dst);
    // One search per source, so pairs are taken source by source and put back in order at the end.
    std::vector<std::size_t> order(src.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (!std::is_sorted(src.begin(), src.end())) {
        std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return src[a] < src[b]; });
    }
    Search search(graph);
    std::vector<std::int32_t> links;
    std::vector<std::size_t> begin(src.size() + 1);
    for (std::size_t k = 0; k < order.size(); ++k) {
        const auto pair = order[k];
        begin[k] = links.size();
        if (src[pair] == dst[pair]) continue;
        if (k == 0 || src[order[k - 1]] != src[pair] || src[order[k - 1]] == dst[order[k - 1]]) {
            search.run_from(src[pair]);
        }
        search.append_route(dst[pair], links);
    }
    begin[order.size()] = links.size();

    Routes routes{std::vector<std::int64_t>(src.size() + 1), std::vector<std::int32_t>(links.size())};
    for (std::size_t k = 0; k < order.size(); ++k) {
        routes.offsets[order[k] + 1] = static_cast<std::int64_t>(begin[k + 1] - begin[k]);
    }
    std::partial_sum(routes.offsets.begin(), routes.offsets.end(), routes.offsets.begin());
    for (std::size_t k = 0; k < order.size(); ++k) {
        std::copy(links.begin() + static_cast<std::ptrdiff_t>(begin[k]),
                  links.begin() + static_cast<std::ptrdiff_t>(begin[k + 1]),
                  routes.links.begin() + static_cast<std::ptrdiff_t>(routes.offsets[order[k]]));
    }
    return routes;
}

}  // namespace interlock
