#include "interlock/validate/causality.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "interlock/arithmetic.hpp"

namespace interlock {
Causality::Causality(const MessageTable& messages, std::span<const std::int32_t> sequence,
                     Csr<std::int32_t> link_predecessors, std::int64_t steps)
    : messages_(messages),
      sequence_(sequence),
      link_predecessors_(link_predecessors),
      steps_left_(steps),
      has_waits_(std::find(messages.kind.begin(), messages.kind.end(), kWait) != messages.kind.end()) {
    if (messages.barriers.empty()) return;
    floor_.assign(messages.size(), std::numeric_limits<std::int32_t>::min());
    for (std::size_t m = 0; m < floor_.size(); ++m) {
        if (m > 0 && messages.stage[m] == messages.stage[m - 1]) {
            floor_[m] = floor_[m - 1];
            continue;
        }
        const auto above = std::upper_bound(messages.barriers.begin(), messages.barriers.end(), messages.stage[m]);
        if (above != messages.barriers.begin()) floor_[m] = *(above - 1);
    }
}

bool Causality::lists(std::int32_t later, std::int32_t earlier) const {
    const auto deps = messages_.deps[at(later)];
    if (deps.size() <= 8) return std::find(deps.begin(), deps.end(), earlier) != deps.end();
    return std::binary_search(deps.begin(), deps.end(), earlier);
}

bool Causality::waits_at_meeting(std::int32_t later, std::int32_t earlier) const {
    if (!has_waits_) return false;
    const auto deps = messages_.deps[at(later)];
    return std::any_of(deps.begin(), deps.end(), [&](std::int32_t dep) {
        return messages_.kind[at(dep)] == kWait && lists(dep, earlier);
    });
}

void Causality::prepare_search() {
    if (!position_.empty()) return;
    position_.resize(messages_.size());
    seen_in_.assign(messages_.size(), 0);
    for (std::size_t k = 0; k < sequence_.size(); ++k) position_[at(sequence_[k])] = static_cast<std::int32_t>(k);
}

bool Causality::search(std::int32_t later, std::int32_t earlier, bool by_arrival) {
    if (!may_step()) return false;
    if (waits_directly(later, earlier)) return true;
    prepare_search();
    ++num_searches_;
    stack_.assign(1, later);
    // Every kind of edge ends the sending of one message before the next starts. Only the first edge, out of `earlier`,
    // must also wait for its arrival where that is asked: it has to be a dependency or a barrier. Barriers need no
    // walking through: what is behind one that `earlier` is not before comes after it, as `earlier` stands behind it as
    // well.
    while (!stack_.empty() && !is_exhausted()) {
        const std::int32_t m = stack_.back();
        stack_.pop_back();
        if (waits_directly(m, earlier)) return true;
        const auto visit = [&](std::int32_t before) {
            --steps_left_;
            if (position_[at(before)] <= position_[at(earlier)] || seen_in_[at(before)] == num_searches_) return;
            seen_in_[at(before)] = num_searches_;
            stack_.push_back(before);
        };
        for (const std::int32_t before : messages_.deps[at(m)]) visit(before);
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
