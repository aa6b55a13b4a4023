#include "interlock/synthesis/arc_graph.hpp"

#include <algorithm>
#include <numeric>

namespace interlock {
namespace {
constexpr double kMostTicks = 0x1p62;  // counts of ticks are 64-bit numbers with a sign
}  // namespace

void ArcGraph::check_load(double most_bytes) const {
    double overhead = 0.0, per_byte = 0.0;
    for (std::size_t arc = 0; arc < num_arcs(); ++arc) {
        overhead = std::max(overhead, static_cast<double>(overhead_ticks[arc]));
        per_byte = std::max(per_byte, ticks_per_byte[arc]);
    }
    const double ticks = overhead * static_cast<double>(num_arcs() + 1) + most_bytes * per_byte;
    require(most_bytes >= 0.0 && ticks < kMostTicks, "all bytes one after the other must take less than 2^62 ticks");
}

void ArcGraph::check() const {
    const std::size_t arcs = num_arcs();
    require(num_nodes >= 1 && num_nodes <= 1'000'000 && num_resources >= 0 && num_resources <= 50'000'000,
            "a graph has at most 1,000,000 nodes and 50,000,000 resources");
    require(arc_dst.size() == arcs, "every arc needs both ends");
    require(overhead_ticks.size() == arcs && ticks_per_byte.size() == arcs, "every arc needs its times");
    arc_resources.check(arcs, "arc_resources");
    require_ends(arc_src, arc_dst, num_nodes, "arcs must join nodes of the graph");
    for (std::size_t arc = 0; arc < arcs; ++arc) {
        require(overhead_ticks[arc] >= 0 && ticks_per_byte[arc] > 0.0, "every arc must take time");
        require(static_cast<double>(overhead_ticks[arc]) < kMostTicks && ticks_per_byte[arc] < kMostTicks,
                "no arc may take forever");
        require(!arc_resources[arc].empty(), "every arc must hold at least one resource");
    }
    arc_shares.check(arcs, "arc_shares");
    require(std::ranges::equal(arc_shares.offsets, arc_resources.offsets), "every resource of an arc needs a share");
    require_ids(arc_resources.values, num_resources, "arcs must hold resources of the graph");
    for (const double share : arc_shares.values)
        require(share > 0.0 && share <= 1.0, "shares must be above 0 and at most 1");
}

Shuffle::Shuffle(std::size_t count, std::uint64_t seed)
    : count_(count), offset_(scramble(seed) % count), stride_(1 + scramble(seed + 1) % count) {
    while (std::gcd(stride_, count_) != 1) ++stride_;
}

}  // namespace interlock
