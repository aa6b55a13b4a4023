#include "interlock/synthesis/arborescence.hpp"

#include <algorithm>
#include <utility>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"

namespace interlock {
Arborescence::Arborescence(std::int32_t num_nodes, std::span<const std::int32_t> arc_src,
                           std::span<const std::int32_t> arc_dst)
    : num_nodes_(num_nodes), src_(arc_src.begin(), arc_src.end()), dst_(arc_dst.begin(), arc_dst.end()) {
    require(arc_src.size() == arc_dst.size(), "every arc needs a source and a destination");
    require_ends(src_, dst_, num_nodes, "arcs must join nodes of the graph");
    const std::size_t arcs = src_.size(), groups = 2 * at(num_nodes);
    key_.resize(arcs);
    owed_.resize(arcs);
    left_.resize(arcs);
    right_.resize(arcs);
    heap_.resize(groups);
    group_.resize(groups);
    parent_.resize(groups);
    chosen_.resize(groups);
    visited_.resize(groups);
}

// Pays what is owed to the top of a heap, passing the debt on to its children.
void Arborescence::settle(std::int32_t heap) {
    const std::size_t h = at(heap);
    if (owed_[h] == 0.0) return;
    key_[h] -= owed_[h];
    if (left_[h] >= 0) owed_[at(left_[h])] += owed_[h];
    if (right_[h] >= 0) owed_[at(right_[h])] += owed_[h];
    owed_[h] = 0.0;
}

std::int32_t Arborescence::merge(std::int32_t a, std::int32_t b) {
    // Iterative top-down skew merge: walk the right spines, swapping children on the way.
    if (a < 0) return b;
    if (b < 0) return a;
    settle(a);
    settle(b);
    const auto before = [&](std::int32_t x, std::int32_t y) {
        return key_[at(x)] < key_[at(y)] || (key_[at(x)] == key_[at(y)] && x < y);
    };
    if (before(b, a)) std::swap(a, b);
    const std::int32_t top = a;
    while (true) {
        const std::int32_t rest = right_[at(a)];
        right_[at(a)] = left_[at(a)];
        if (rest < 0) {
            left_[at(a)] = b;
            return top;
        }
        settle(rest);
        std::int32_t next = rest;
        if (before(b, next)) std::swap(b, next);
        left_[at(a)] = next;
        a = next;
    }
}

std::int32_t Arborescence::pop(std::int32_t heap) {
    settle(heap);
    const std::int32_t left = left_[at(heap)], right = right_[at(heap)];
    left_[at(heap)] = right_[at(heap)] = -1;
    return merge(left, right);
}

std::int32_t Arborescence::group_of(std::int32_t node) {
    while (group_[at(node)] != node) {
        group_[at(node)] = group_[at(group_[at(node)])];
        node = group_[at(node)];
    }
    return node;
}

bool Arborescence::contract(std::int32_t root) {
    for (std::int32_t start = 0; start < num_nodes_; ++start) {
        std::int32_t node = group_of(start);
        stack_.clear();
        while (group_of(root) != node && visited_[at(node)] != 2) {
            if (visited_[at(node)] == 1) {
                // A cycle on the path: contract it into one new group.
                const std::int32_t whole = num_groups_++;
                heap_[at(whole)] = -1;
                group_[at(whole)] = whole;
                visited_[at(whole)] = 0;
                std::int32_t member = node;
                do {
                    member = stack_.back();
                    stack_.pop_back();
                    heap_[at(whole)] = merge(heap_[at(whole)], heap_[at(member)]);
                    group_[at(member)] = whole;
                    parent_[at(member)] = whole;
                } while (member != node);
                parent_[at(whole)] = -1;
                node = whole;
                continue;
            }
            visited_[at(node)] = 1;
            stack_.push_back(node);
            std::int32_t& heap = heap_[at(node)];
            while (heap >= 0 && group_of(src_[at(heap)]) == node) heap = pop(heap);
            if (heap < 0) return false;
            settle(heap);
            chosen_[at(node)] = heap;
            const double cost = key_[at(heap)];
            owed_[at(heap)] += cost;
            node = group_of(src_[at(heap)]);
        }
        for (const std::int32_t done : stack_) visited_[at(done)] = 2;
    }
    return true;
}

void Arborescence::expand(std::int32_t root, std::span<std::int32_t> arc_into) {
    // From the last contraction to the first: the arc into a group enters one member; the others keep their own.
    std::fill(arc_into.begin(), arc_into.end(), -1);
    std::fill(visited_.begin(), visited_.end(), 0);
    const auto enter = [&](std::int32_t arc, std::int32_t top) {
        // Every group between the arc's head and `top` is entered through this arc.
        std::int32_t node = dst_[at(arc)];
        while (true) {
            chosen_[at(node)] = arc;
            if (node == top) break;
            node = parent_[at(node)];
        }
    };
    for (std::int32_t group = num_groups_ - 1; group >= 0; --group) {
        if (group == root || chosen_[at(group)] < 0) continue;
        // Settled by an outer group already, or the outermost of its chain: push its arc down.
        enter(chosen_[at(group)], group);
    }
    for (std::int32_t node = 0; node < num_nodes_; ++node) {
        if (node != root) arc_into[at(node)] = chosen_[at(node)];
    }
}

bool Arborescence::cheapest(std::int32_t root, std::span<const double> arc_cost, std::span<std::int32_t> arc_into) {
    require(root >= 0 && root < num_nodes_, "the root must be a node");
    require(arc_cost.size() == src_.size() && arc_into.size() == at(num_nodes_), "one cost per arc, one arc per node");
    num_groups_ = num_nodes_;
    for (std::size_t node = 0; node < heap_.size(); ++node) {
        heap_[node] = parent_[node] = chosen_[node] = -1;
        group_[node] = static_cast<std::int32_t>(node);
        visited_[node] = 0;
    }
    for (std::size_t arc = 0; arc < src_.size(); ++arc) {
        key_[arc] = arc_cost[arc];
        owed_[arc] = 0.0;
        left_[arc] = right_[arc] = -1;
        if (dst_[arc] != root && src_[arc] != dst_[arc]) {
            heap_[at(dst_[arc])] = merge(heap_[at(dst_[arc])], static_cast<std::int32_t>(arc));
        }
    }
    visited_[at(root)] = 2;
    if (!contract(root)) return false;
    expand(root, arc_into);
    return true;
}

}  // namespace interlock
