#include "interlock/synthesis/cuts.hpp"

#include <cstdint>
#include <limits>
#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"
#include "interlock/synthesis/lengths.hpp"
#include "interlock/synthesis/shortest_tree.hpp"

using namespace interlock;

namespace {

struct Graph {
    std::int32_t num_nodes;
    std::vector<std::int32_t> src, dst;
    std::vector<std::int64_t> capacity;
    [[nodiscard]] Arcs arcs() const { return {num_nodes, src, dst, capacity}; }
};

/// A small generator of its own: the tests must not depend on the standard library's distributions.
Graph random_graph(std::uint64_t seed, std::int32_t num_nodes, std::size_t num_arcs) {
    auto draw = [&seed](std::uint64_t below) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        return static_cast<std::int64_t>((seed >> 33) % below);
    };
    Graph graph{num_nodes, {}, {}, {}};
    const auto nodes = static_cast<std::uint64_t>(num_nodes);
    for (std::size_t a = 0; a < num_arcs; ++a) {
        const auto from = draw(nodes);
        graph.src.push_back(static_cast<std::int32_t>(from));
        graph.dst.push_back(static_cast<std::int32_t>((from + 1 + draw(nodes - 1)) % num_nodes));
        graph.capacity.push_back(draw(20));
    }
    return graph;
}

std::int64_t leaving(const Graph& graph, std::uint32_t set) {
    std::int64_t total = 0;
    for (std::size_t a = 0; a < graph.src.size(); ++a) {
        if ((set >> graph.src[a] & 1U) != 0 && (set >> graph.dst[a] & 1U) == 0) total += graph.capacity[a];
    }
    return total;
}

void cuts_match_exhaustive_search() {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const auto num_nodes = static_cast<std::int32_t>(2 + seed % 7);
        const Graph graph = random_graph(seed, num_nodes, 1 + seed % 25);
        const std::int32_t sink = num_nodes - 1;
        std::int64_t to_sink = std::numeric_limits<std::int64_t>::max(), to_any = to_sink;
        for (std::uint32_t set = 1; set + 1 < 1U << num_nodes; set += 2) {  // node 0 is in the set
            to_any = std::min(to_any, leaving(graph, set));
            if ((set >> sink & 1U) == 0) to_sink = std::min(to_sink, leaving(graph, set));
        }
        CHECK(narrowest_cut_between(graph.arcs(), 0, sink).value == to_sink);
        CHECK(narrowest_cut_from(graph.arcs(), 0).value == to_any);
    }
}

}  // namespace

int main() {
    cuts_match_exhaustive_search();
    // Two triangles joined by one thin arc fall apart there first, and into single nodes when blocks are dear.
    const Graph pair{6, {0, 1, 2, 3, 4, 5, 2}, {1, 2, 0, 4, 5, 3, 3}, {10, 10, 10, 10, 10, 10, 1}};
    CHECK((cheapest_partition(pair.arcs(), 5) == std::vector<std::int32_t>{0, 0, 0, 1, 1, 1}));
    CHECK((cheapest_partition(pair.arcs(), 0) == std::vector<std::int32_t>{0, 0, 0, 0, 0, 0}));
    CHECK((cheapest_partition(pair.arcs(), 100) == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
    CHECK_THROWS(narrowest_cut_between(pair.arcs(), 0, 0), InvalidInput);
    CHECK_THROWS(narrowest_cut_from(pair.arcs(), 6), InvalidInput);

    const std::vector<std::int32_t> src{0, 1, 0}, dst{1, 2, 2}, sources{0, 2};
    const std::vector<double> cost{1.0, 1.0, 5.0};
    const auto distance = shortest_distances(3, src, dst, cost, sources);
    const double never = std::numeric_limits<double>::infinity();
    CHECK((distance == std::vector<double>{0.0, 1.0, 2.0, never, never, 0.0}));

    // One byte each way round a ring of three with one slow link: the bound is that of the slow link alone.
    const std::vector<std::int32_t> from{0, 1, 2}, to{1, 2, 0};
    const std::vector<double> rate{1.0, 0.25, 1.0}, bytes{0, 0, 1, 1, 0, 0, 0, 1, 0};
    const std::vector<double> length = crowded_lengths({3, from, to, rate, bytes}, 200);
    const double volume = (length[0] + length[1]) + (length[1] + length[2]) + (length[2] + length[0]);
    const double room = length[0] + 0.25 * length[1] + length[2];
    CHECK(volume / room > 7.9 && volume / room <= 8.0 + 1e-9);
    CHECK_THROWS(crowded_lengths({3, from, to, rate, rate}, 1), InvalidInput);
    return 0;
}
