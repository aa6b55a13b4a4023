#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "interlock/synthesis/arc_graph.hpp"

/// An arc from every node to every other, each a resource of its own, all alike.
struct CompleteGraph {
    explicit CompleteGraph(std::int32_t nodes) : num_nodes(nodes) {
        for (std::int32_t a = 0; a < nodes; ++a) {
            for (std::int32_t b = 0; b < nodes; ++b) {
                if (a == b) continue;
                src.push_back(a);
                dst.push_back(b);
            }
        }
        offsets.resize(src.size() + 1);
        std::iota(offsets.begin(), offsets.end(), 0);
        held.resize(src.size());
        std::iota(held.begin(), held.end(), 0);
        overhead.assign(src.size(), 0);
        per_byte.assign(src.size(), 1.0);
        shares.assign(src.size(), 1.0);
    }
    [[nodiscard]] interlock::ArcGraph view() const {
        return {num_nodes,         static_cast<std::int32_t>(src.size()), src, dst, {offsets, held}, overhead, per_byte,
                {offsets, shares}};
    }
    std::int32_t num_nodes;
    std::vector<std::int32_t> src, dst, held;
    std::vector<std::int64_t> offsets, overhead;
    std::vector<double> per_byte, shares;
};
