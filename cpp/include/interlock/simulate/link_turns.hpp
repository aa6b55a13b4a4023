#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "interlock/simulate/flow_sim.hpp"

namespace interlock {

/// Who holds each link alone where turns are taken: of those that are ready the first in order, so that nobody waits
/// for one that stands back.
class LinkTurns {
public:
    explicit LinkTurns(const FlowProblem& problem) : problem_(problem) {
        if (!problem.takes_turns) return;
        turn_.assign(problem.size_bytes.size(), 0);
        is_held_.assign(to_size(problem.num_ordered_links), 0);
        waiting_.resize(is_held_.size());
    }

    /// Whether all its links are free; if not, it waits until `leave` gives it back.
    bool may_enter(std::int32_t message) {
        if (!takes_turns(message)) return true;
        for (const std::int32_t link : problem_.path[to_size(message)]) {
            if (!is_ordered(link) || is_held_[to_size(link)] == 0) continue;
            waiting_[to_size(link)].push_back(message);
            return false;
        }
        return true;
    }

    void enter(std::int32_t message) {
        if (!takes_turns(message)) return;
        turn_[to_size(message)] = num_turns_++;
        for (const std::int32_t link : problem_.path[to_size(message)]) {
            if (is_ordered(link)) is_held_[to_size(link)] = 1;
        }
    }

    /// A message has left its links: calls `retry` with all that waited for them, in order.
    template <typename Retry>
    void leave(std::int32_t message, Retry retry) {
        if (!takes_turns(message)) return;
        freed_.clear();
        for (const std::int32_t link : problem_.path[to_size(message)]) {
            if (!is_ordered(link)) continue;
            is_held_[to_size(link)] = 0;
            auto& waiting = waiting_[to_size(link)];
            freed_.insert(freed_.end(), waiting.begin(), waiting.end());
            waiting.clear();
        }
        std::sort(freed_.begin(), freed_.end(), [&](std::int32_t a, std::int32_t b) {
            const std::int64_t first = problem_.order[to_size(a)], second = problem_.order[to_size(b)];
            return first != second ? first < second : a < b;
        });
        for (const std::int32_t each : freed_) retry(each);
    }

    /// The place of each message among all that hold links alone; nothing where they are given.
    std::vector<std::int64_t> take() { return std::move(turn_); }

private:
    [[nodiscard]] bool is_ordered(std::int32_t link) const { return link < problem_.num_ordered_links; }
    [[nodiscard]] bool takes_turns(std::int32_t message) const {
        return problem_.takes_turns && problem_.is_exclusive[to_size(message)] != 0;
    }

    const FlowProblem& problem_;
    std::vector<std::int64_t> turn_;
    std::vector<std::uint8_t> is_held_;               // [ordered links]
    std::vector<std::vector<std::int32_t>> waiting_;  // [ordered links]: messages
    std::vector<std::int32_t> freed_;
    std::int64_t num_turns_ = 0;
};

}  // namespace interlock
