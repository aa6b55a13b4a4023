#include <cstdint>
#include <limits>
#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"
#include "interlock/synthesis/arborescence.hpp"
#include "interlock/synthesis/arc_graph.hpp"

using interlock::Arborescence;
using interlock::scramble;

namespace {

struct Graph {
    std::int32_t num_nodes;
    std::vector<std::int32_t> src, dst;
    std::vector<double> cost;
};

Graph random_graph(std::uint64_t seed, std::int32_t num_nodes, std::size_t num_arcs) {
    Graph graph{num_nodes, {}, {}, {}};
    for (std::size_t arc = 0; arc < num_arcs; ++arc) {
        graph.src.push_back(
            static_cast<std::int32_t>(scramble(seed * 7919 + 3 * arc) % static_cast<std::uint64_t>(num_nodes)));
        graph.dst.push_back(
            static_cast<std::int32_t>(scramble(seed * 7919 + 3 * arc + 1) % static_cast<std::uint64_t>(num_nodes)));
        graph.cost.push_back(static_cast<double>(scramble(seed * 7919 + 3 * arc + 2) % 20));
    }
    return graph;
}

// Tries every choice of one arc into each node; infinite if none spans.
double cheapest_by_hand(const Graph& graph, std::int32_t root, std::int32_t node, std::vector<std::int32_t>& into) {
    if (node == graph.num_nodes) {
        double sum = 0.0;
        for (std::int32_t start = 0; start < graph.num_nodes; ++start) {
            std::int32_t at = start, steps = 0;
            while (at != root && steps++ <= graph.num_nodes)
                at = graph.src[static_cast<std::size_t>(into[static_cast<std::size_t>(at)])];
            if (at != root) return std::numeric_limits<double>::infinity();
            if (start != root) sum += graph.cost[static_cast<std::size_t>(into[static_cast<std::size_t>(start)])];
        }
        return sum;
    }
    if (node == root) return cheapest_by_hand(graph, root, node + 1, into);
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t arc = 0; arc < graph.src.size(); ++arc) {
        if (graph.dst[arc] != node || graph.src[arc] == node) continue;
        into[static_cast<std::size_t>(node)] = static_cast<std::int32_t>(arc);
        best = std::min(best, cheapest_by_hand(graph, root, node + 1, into));
    }
    return best;
}

void agrees_with_trying_everything() {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        const auto num_nodes = static_cast<std::int32_t>(2 + scramble(seed) % 4);
        const Graph graph = random_graph(seed, num_nodes, 2 + scramble(seed + 1000) % 12);
        Arborescence trees(num_nodes, graph.src, graph.dst);
        for (std::int32_t root = 0; root < num_nodes; ++root) {
            std::vector<std::int32_t> into(static_cast<std::size_t>(num_nodes), -1), scratch = into;
            const double by_hand = cheapest_by_hand(graph, root, 0, scratch);
            const bool spans = trees.cheapest(root, graph.cost, into);
            CHECK(spans == (by_hand < std::numeric_limits<double>::infinity()));
            if (!spans) continue;
            double sum = 0.0;
            for (std::int32_t node = 0; node < num_nodes; ++node) {
                const std::int32_t arc = into[static_cast<std::size_t>(node)];
                CHECK((arc < 0) == (node == root));
                if (arc < 0) continue;
                CHECK(graph.dst[static_cast<std::size_t>(arc)] == node);
                sum += graph.cost[static_cast<std::size_t>(arc)];
            }
            CHECK(sum == by_hand);
        }
    }
}

}  // namespace

int main() {
    agrees_with_trying_everything();
    const std::vector<std::int32_t> src{0}, dst{2};
    CHECK_THROWS(Arborescence(2, src, dst), interlock::InvalidInput);
    return 0;
}
