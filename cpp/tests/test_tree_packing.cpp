#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "check.hpp"
#include "interlock/synthesis/path_routing.hpp"
#include "interlock/synthesis/tree_packing.hpp"

using namespace interlock;

namespace {

/// Arcs that are each their own resource, one tick per byte.
struct Plain {
    Plain(std::int32_t nodes, std::vector<std::int32_t> from, std::vector<std::int32_t> to)
        : num_nodes(nodes), src(std::move(from)), dst(std::move(to)), offsets(src.size() + 1), held(src.size()),
          overhead(src.size(), 0), per_byte(src.size(), 1.0) {
        std::iota(offsets.begin(), offsets.end(), 0);
        std::iota(held.begin(), held.end(), 0);
    }
    [[nodiscard]] ArcGraph view() const {
        return {num_nodes,         static_cast<std::int32_t>(src.size()), src, dst, {offsets, held}, overhead, per_byte,
                {offsets, shares}};
    }
    std::int32_t num_nodes;
    std::vector<std::int32_t> src, dst;
    std::vector<std::int64_t> offsets;
    std::vector<std::int32_t> held;
    std::vector<std::int64_t> overhead;
    std::vector<double> per_byte, shares = std::vector<double>(src.size(), 1.0);
};

Plain ring(std::int32_t nodes) {
    std::vector<std::int32_t> src, dst;
    for (std::int32_t node = 0; node < nodes; ++node) {
        src.insert(src.end(), {node, (node + 1) % nodes});
        dst.insert(dst.end(), {(node + 1) % nodes, node});
    }
    return {nodes, src, dst};
}

const PackingOptions kOptions{8, 0.2, 1.0, 0};

void trees_span_and_share_the_links() {
    const Plain graph = ring(4);
    std::vector<std::int32_t> roots;
    for (std::int32_t i = 0; i < 32; ++i) roots.push_back(i % 4);
    const std::vector<std::int64_t> bytes(roots.size(), 10);
    const Packing packing = pack_trees(graph.view(), {roots, bytes, {}, {}, {}}, kOptions);
    for (std::size_t tree = 0; tree < roots.size(); ++tree) {
        for (std::int32_t node = 0; node < 4; ++node) {
            std::int32_t at = node, steps = 0;
            while (at != roots[tree]) {
                CHECK(steps++ < 4);
                at = graph.src[static_cast<std::size_t>(packing.arc_into[tree * 4 + static_cast<std::size_t>(at)])];
            }
        }
    }
    // 32 trees of 3 arcs over 8 arcs: 12 each, 10 ticks long, if perfectly shared.
    CHECK(std::accumulate(packing.load_ticks.begin(), packing.load_ticks.end(), std::int64_t{0}) == 960);
    CHECK(*std::max_element(packing.load_ticks.begin(), packing.load_ticks.end()) <= 130);
}

void branches_to_nobody_are_cut() {
    const Plain graph = ring(6);
    const std::vector<std::int32_t> roots{0};
    const std::vector<std::int64_t> bytes{10};
    const std::vector<std::uint8_t> wanted{1, 0, 1, 0, 0, 0};
    const Packing packing = pack_trees(graph.view(), {roots, bytes, wanted, {}, {}}, kOptions);
    CHECK(packing.arc_into[1] >= 0 && packing.arc_into[2] >= 0);
    CHECK(packing.arc_into[3] < 0 && packing.arc_into[4] < 0 && packing.arc_into[5] < 0);
}

void paired_trees_lead_both_ways() {
    const Plain graph = ring(5);
    const std::vector<std::int32_t> roots(10, 0), free{0, 1, 2, 3, 4};
    const std::vector<std::int64_t> bytes(10, 7);
    const Packing packing = pack_trees(graph.view(), {roots, bytes, {}, {}, free}, kOptions);
    for (std::size_t tree = 0; tree < roots.size(); ++tree) {
        for (std::size_t node = 0; node < 5; ++node) {
            const bool is_root = static_cast<std::int32_t>(node) == packing.root[tree];
            CHECK((packing.arc_into[tree * 5 + node] < 0) == is_root);
            CHECK((packing.arc_outof[tree * 5 + node] < 0) == is_root);
            if (!is_root)
                CHECK(graph.src[static_cast<std::size_t>(packing.arc_outof[tree * 5 + node])] ==
                      static_cast<std::int32_t>(node));
        }
    }
    // Roots that are free move apart: one root alone would load its two links in with every tree.
    CHECK(*std::max_element(packing.load_ticks.begin(), packing.load_ticks.end()) <= 10 * 7 * 8 / 10 + 14);
}

void what_cannot_be_reached_is_refused() {
    const Plain line(3, {0, 1}, {1, 2});
    const std::vector<std::int32_t> roots{1};
    const std::vector<std::int64_t> bytes{1};
    CHECK_THROWS(pack_trees(line.view(), {roots, bytes, {}, {}, {}}, kOptions), InvalidInput);
    const std::vector<std::uint8_t> reachable{0, 1, 1};
    CHECK(pack_trees(line.view(), {roots, bytes, reachable, {}, {}}, kOptions).arc_into[2] == 1);
}

void alike_trees_take_the_same_turns() {
    // A 2 x 2 square: from corner 0 to corner 3 there are two ways; the first and the last arc decide.
    const Plain square(4, {0, 0, 1, 2}, {1, 2, 3, 3});
    const std::vector<std::int32_t> roots{0};
    CHECK(alike_trees(square.view(), roots, 5, false)[3] == 2);
    CHECK(alike_trees(square.view(), roots, 5, true)[3] == 3);
    CHECK(eccentricities(square.view(), 5) == (std::vector<std::int64_t>{10, -1, -1, -1}));
}

void paths_spread_over_equal_ways() {
    const Plain square(4, {0, 0, 1, 2}, {1, 2, 3, 3});
    const std::vector<std::int32_t> src(10, 0), dst(10, 3);
    const std::vector<std::int64_t> bytes(10, 3), none(4);
    const Paths paths = route_paths(square.view(), {src, dst, bytes}, {4, 1, 1.0, 0, none});
    CHECK(paths.offsets.back() == 20);
    for (const std::int64_t load : paths.load_ticks) CHECK(load == 15);
    const std::vector<std::int32_t> back(10, 3), to(10, 0);
    CHECK_THROWS(route_paths(square.view(), {back, to, bytes}, {4, 1, 1.0, 0, none}), InvalidInput);
}

}  // namespace

int main() {
    trees_span_and_share_the_links();
    branches_to_nobody_are_cut();
    paired_trees_lead_both_ways();
    what_cannot_be_reached_is_refused();
    alike_trees_take_the_same_turns();
    paths_spread_over_equal_ways();
    return 0;
}
