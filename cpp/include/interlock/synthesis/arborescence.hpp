#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// Finds the cheapest spanning arborescence of a directed graph again and again, as arc costs change.
///
/// Chu-Liu/Edmonds after Tarjan: cheapest arcs into contracted nodes from skew heaps, O(arcs log nodes) per call and
/// no allocation after the first.
class Arborescence {
public:
    /// @param arc_src, arc_dst nodes of each arc; a node may have several arcs from another.
    Arborescence(std::int32_t num_nodes, std::span<const std::int32_t> arc_src, std::span<const std::int32_t> arc_dst);

    /// Writes the arc into each node (-1 at the root) and returns whether every node is reached.
    bool cheapest(std::int32_t root, std::span<const double> arc_cost, std::span<std::int32_t> arc_into);

private:
    std::int32_t merge(std::int32_t a, std::int32_t b);
    std::int32_t pop(std::int32_t heap);
    void settle(std::int32_t heap);
    std::int32_t group_of(std::int32_t node);
    bool contract(std::int32_t root);
    void expand(std::int32_t root, std::span<std::int32_t> arc_into);

    std::int32_t num_nodes_;
    std::vector<std::int32_t> src_, dst_;
    // Skew heap over arcs, with costs lowered lazily by `owed_`.
    std::vector<double> key_, owed_;
    std::vector<std::int32_t> left_, right_;
    // Contracted nodes: originals are 0 .. num_nodes - 1, cycles get the numbers after them.
    std::vector<std::int32_t> heap_, group_, parent_, chosen_, visited_;
    std::vector<std::int32_t> stack_;
    std::int32_t num_groups_ = 0;
};

}  // namespace interlock
