#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "check.hpp"
#include "complete_graph.hpp"
#include "interlock/synthesis/tree_sweeps.hpp"

using namespace interlock;

namespace {

/// Arcs into the last node are slow.
struct Complete : CompleteGraph {
    explicit Complete(std::int32_t nodes) : CompleteGraph(nodes) {
        for (std::size_t arc = 0; arc < dst.size(); ++arc) per_byte[arc] = dst[arc] == nodes - 1 ? 4.0 : 1.0;
        hop.assign(per_byte.begin(), per_byte.end());
    }
    [[nodiscard]] SweepOptions options() const { return {hop, 6, 0.1, 0}; }
    std::vector<double> hop;
};

/// Whether following arcs from every node leads to the root.
bool meets(const std::vector<std::int32_t>& arcs, const std::vector<std::int32_t>& next, std::size_t tree,
           std::int32_t nodes, std::int32_t root) {
    for (std::int32_t node = 0; node < nodes; ++node) {
        std::int32_t at = node;
        for (std::int32_t steps = 0; at != root; ++steps) {
            const std::int32_t arc = arcs[tree * static_cast<std::size_t>(nodes) + static_cast<std::size_t>(at)];
            if (arc < 0 || steps > nodes) return false;
            at = next[static_cast<std::size_t>(arc)];
        }
    }
    return true;
}

void trees_span_and_balance() {
    const Complete graph(6);
    std::vector<std::int32_t> roots;
    for (std::int32_t i = 0; i < 60; ++i) roots.push_back(i % 6);
    const std::vector<std::int64_t> bytes(roots.size(), 10);
    const Packing packing = sweep_trees(graph.view(), {roots, bytes, {}, {}, {}}, graph.options());
    for (std::size_t tree = 0; tree < roots.size(); ++tree)
        CHECK(meets(packing.arc_into, graph.src, tree, 6, roots[tree]));
    // The last node takes 50 trees over 5 slow arcs: 10 each, 40 ticks long.
    CHECK(std::ranges::max(packing.load_ticks) <= 440);
}

void pairs_keep_off_the_weak_node() {
    const Complete graph(6);
    const std::vector<std::int32_t> roots(60, 5), free{0, 1, 2, 3, 4, 5};
    const std::vector<std::int64_t> bytes(roots.size(), 10);
    const Packing packing = sweep_trees(graph.view(), {roots, bytes, {}, {}, free}, graph.options());
    for (std::size_t tree = 0; tree < roots.size(); ++tree) {
        CHECK(meets(packing.arc_into, graph.src, tree, 6, packing.root[tree]));
        CHECK(meets(packing.arc_outof, graph.dst, tree, 6, packing.root[tree]));
    }
    // Copies alone load the arcs into the last node with 480; nothing is to be summed there.
    CHECK(std::ranges::max(packing.load_ticks) <= 560);
}

void what_cannot_be_laid_is_refused() {
    const std::vector<std::int32_t> roots{0}, src{0}, dst{1}, held{0};
    const std::vector<std::int64_t> bytes{1}, offsets{0, 1}, overhead{0};
    const std::vector<double> per_byte{1.0}, hop{1.0}, none{0.0};
    const ArcGraph line{2, 1, src, dst, {offsets, held}, overhead, per_byte, {offsets, per_byte}};
    CHECK_THROWS(sweep_trees(line, {roots, bytes, {}, {}, {}}, {hop, 1, 0.0, 0}), InvalidInput);
    const Complete graph(3);
    CHECK_THROWS(sweep_trees(graph.view(), {roots, bytes, {}, {}, {}}, {none, 1, 0.0, 0}), InvalidInput);
    CHECK_THROWS(sweep_trees(graph.view(), {roots, bytes, {}, {}, {}}, {graph.hop, 0, 0.0, 0}), InvalidInput);
}

}  // namespace

int main() {
    trees_span_and_balance();
    pairs_keep_off_the_weak_node();
    what_cannot_be_laid_is_refused();
    return 0;
}
