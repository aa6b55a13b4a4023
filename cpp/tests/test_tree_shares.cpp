#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "check.hpp"
#include "complete_graph.hpp"
#include "interlock/synthesis/tree_shares.hpp"

using namespace interlock;

namespace {

struct Complete : CompleteGraph {
    using CompleteGraph::CompleteGraph;
    [[nodiscard]] TreeShares share(const TreeDemand& demand) const {
        return share_trees(view(), demand, {per_byte, 1.0, 0.001, 10000});
    }
};

bool near(double a, double b) { return std::abs(a - b) < 0.002 * b; }

// Whoever sends to three others over arcs of their own needs three trees: a third of the bytes over each arc.
void one_root_splits_over_its_arcs() {
    const Complete graph(4);
    const std::vector<std::int32_t> root{0};
    const std::vector<std::int64_t> bytes{3000};
    const TreeShares made = graph.share({root, bytes, {}, {}, {}});
    CHECK(near(made.peak_ticks, 1000.0));
    CHECK(made.root.size() >= 3 && made.arc_outof.empty());
    CHECK(near(std::accumulate(made.share.begin(), made.share.end(), 0.0), 1.0));
    for (std::size_t tree = 0; tree < made.root.size(); ++tree) CHECK(made.arc_into[tree * 4] == -1);
}

// Node 3 is reached at a tenth of the speed: of all that goes there each of its three arcs carries a third.
void slow_arcs_carry_their_part() {
    Complete graph(4);
    for (std::size_t arc = 0; arc < graph.dst.size(); ++arc) {
        if (graph.dst[arc] == 3) graph.per_byte[arc] = 10.0;
    }
    const std::vector<std::int32_t> roots{0, 1, 2, 3};
    const std::vector<std::int64_t> bytes{100, 200, 300, 300};
    const TreeShares made = graph.share({roots, bytes, {}, {}, {}});
    CHECK(near(made.peak_ticks, 10.0 * 600.0 / 3.0));
    std::vector<double> together(4);
    for (std::size_t tree = 0; tree < made.root.size(); ++tree) {
        CHECK(made.root[tree] == made.demand[tree]);
        together[static_cast<std::size_t>(made.demand[tree])] += made.share[tree];
    }
    for (const double sum : together) CHECK(near(sum, 1.0));
}

// What next to nothing is sent of has its trees as well.
void small_demands_are_not_forgotten() {
    const Complete graph(4);
    const std::vector<std::int32_t> roots{0, 1, 2, 3};
    const std::vector<std::int64_t> bytes{1, 3'000'000'000'000, 7, 1};
    const TreeShares made = graph.share({roots, bytes, {}, {}, {}});
    CHECK(near(made.peak_ticks, 1e12));
    for (std::int32_t demand = 0; demand < 4; ++demand) CHECK(std::ranges::count(made.demand, demand) > 0);
}

// Sums and copies on a complete graph: every node sends 2 * 3 / 4 of the bytes over three arcs.
void pairs_share_the_roots() {
    const Complete graph(4);
    const std::vector<std::int32_t> roots{0, 1, 2, 3};
    const std::vector<std::int64_t> bytes(4, 300);
    const TreeShares made = graph.share({roots, bytes, {}, {}, roots});
    CHECK(near(made.peak_ticks, 2.0 * 3.0 / 4.0 * 1200.0 / 3.0));
    CHECK(made.arc_outof.size() == made.arc_into.size());
}

}  // namespace

int main() {
    one_root_splits_over_its_arcs();
    slow_arcs_carry_their_part();
    small_demands_are_not_forgotten();
    pairs_share_the_roots();
    return 0;
}
