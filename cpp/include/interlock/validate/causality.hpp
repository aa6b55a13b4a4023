#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/csr.hpp"
#include "interlock/schedule/schedule_table.hpp"

namespace interlock {

/// Answers whether one message surely comes before another, from an acyclic schedule.
class Causality {
public:
    /// @param sequence topological order of the messages
    /// @param link_predecessors per message, the messages before it on its links (-1: none); no rows if there are none
    /// @param steps how many comparisons and edges may be looked at in all
    Causality(const MessageTable& messages, std::span<const std::int32_t> sequence, Csr<std::int32_t> link_predecessors,
              std::int64_t steps);

    /// `later` itself waits until `earlier` has arrived: it lists it, or a row without bytes that lists it, or stands
    /// behind a barrier after it.
    [[nodiscard]] bool waits_directly(std::int32_t later, std::int32_t earlier) const {
        return lists(later, earlier) || is_behind_barrier(later, stage(earlier)) || waits_at_meeting(later, earlier);
    }
    [[nodiscard]] bool is_behind_barrier(std::int32_t later, std::int32_t earlier_stage) const {
        return !floor_.empty() && earlier_stage < floor_[static_cast<std::size_t>(later)];
    }
    [[nodiscard]] std::int32_t stage(std::int32_t message) const {
        return messages_.stage[static_cast<std::size_t>(message)];
    }

    /// `later` starts only after `earlier` has arrived, through any chain of waiting.
    bool starts_after_arrival(std::int32_t later, std::int32_t earlier) { return search(later, earlier, true); }
    /// `later` starts only after `earlier` has been sent (a place in a link's order is enough).
    bool starts_after_sending(std::int32_t later, std::int32_t earlier) { return search(later, earlier, false); }

    /// What a message lists, ascending.
    [[nodiscard]] std::span<const std::int32_t> deps(std::int32_t message) const {
        return messages_.deps[static_cast<std::size_t>(message)];
    }

    /// Charges one step; false once they are used up.
    bool may_step() { return --steps_left_ >= 0; }
    /// All steps are used up: answers of "no" may then mean "not known".
    [[nodiscard]] bool is_exhausted() const { return steps_left_ < 0; }

private:
    [[nodiscard]] bool lists(std::int32_t later, std::int32_t earlier) const;
    [[nodiscard]] bool waits_at_meeting(std::int32_t later, std::int32_t earlier) const;
    bool search(std::int32_t later, std::int32_t earlier, bool by_arrival);
    void prepare_search();

    const MessageTable& messages_;
    std::span<const std::int32_t> sequence_;
    Csr<std::int32_t> link_predecessors_;
    std::vector<std::int32_t> floor_;     // per message: all earlier stages are waited for; empty without barriers
    std::vector<std::int32_t> position_;  // in the sequence; filled at the first search
    std::vector<std::int64_t> seen_in_;   // the last search that saw each message
    std::vector<std::int32_t> stack_;
    std::int64_t num_searches_ = 0;
    std::int64_t steps_left_;
    bool has_waits_;  // rows without bytes
};

}  // namespace interlock
