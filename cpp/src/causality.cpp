#include "interlock/causality.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace interlock {
namespace {

std::size_t at(std::int32_t id) { return static_cast<std::size_t>(id); }

}  // namespace

Causality::Causality(const MessageTable& messages, std::span<const std::int32_t> sequence,
                     Csr<std::int32_t> link_predecessors)
    : deps_(messages.deps.values), sequence_(sequence), link_predecessors_(link_predecessors) {
    rows_.resize(messages.size());
    std::int32_t floor = std::numeric_limits<std::int32_t>::min();
    for (std::size_t m = 0; m < rows_.size(); ++m) {
        const std::int32_t stage = messages.stage[m];
        if (!messages.barriers.empty() && (m == 0 || stage != messages.stage[m - 1])) {
            const auto above = std::upper_bound(messages.barriers.begin(), messages.barriers.end(), stage);
            floor = above == messages.barriers.begin() ? std::numeric_limits<std::int32_t>::min() : *(above - 1);
        }
        const auto num_deps = static_cast<std::int32_t>(messages.deps.offsets[m + 1] - messages.deps.offsets[m]);
        rows_[m] = {messages.deps.offsets[m], num_deps, stage, floor};
    }
    // Searches are rare: a few steps per edge of the whole schedule is far more than honest schedules need.
    steps_left_ = (std::int64_t{1} << 24) +
                  16 * static_cast<std::int64_t>(messages.size() + deps_.size() + link_predecessors.values.size());
}

bool Causality::lists(std::int32_t later, std::int32_t earlier) const {
    const Row& row = rows_[at(later)];
    const auto deps = deps_.subspan(static_cast<std::size_t>(row.first_dep), at(row.num_deps));
    if (deps.size() <= 8) return std::find(deps.begin(), deps.end(), earlier) != deps.end();
    return std::binary_search(deps.begin(), deps.end(), earlier);
}

void Causality::prepare_search() {
    if (!position_.empty()) return;
    position_.resize(rows_.size());
    seen_in_.assign(rows_.size(), 0);
    for (std::size_t k = 0; k < sequence_.size(); ++k) position_[at(sequence_[k])] = static_cast<std::int32_t>(k);
}

bool Causality::search(std::int32_t later, std::int32_t earlier, bool by_arrival) {
    if (waits_directly(later, earlier)) return true;
    prepare_search();
    ++num_searches_;
    stack_.assign(1, later);
    // Every kind of edge ends the sending of one message before the next starts. Only the first edge, out of `earlier`,
    // must also wait for its arrival where that is asked: it has to be a dependency or a barrier.
    while (!stack_.empty() && steps_left_ >= 0) {
        const std::int32_t m = stack_.back();
        stack_.pop_back();
        if (waits_directly(m, earlier)) return true;
        const auto visit = [&](std::int32_t before) {
            --steps_left_;
            if (position_[at(before)] <= position_[at(earlier)] || seen_in_[at(before)] == num_searches_) return;
            seen_in_[at(before)] = num_searches_;
            stack_.push_back(before);
        };
        const Row& row = rows_[at(m)];
        for (const std::int32_t before : deps_.subspan(static_cast<std::size_t>(row.first_dep), at(row.num_deps))) visit(before);
        if (link_predecessors_.num_rows() == 0) continue;
        for (const std::int32_t before : link_predecessors_[at(m)]) {
            if (before < 0) continue;
            if (before == earlier && !by_arrival) return true;
            visit(before);
        }
    }
    return false;
}

}  // namespace interlock
