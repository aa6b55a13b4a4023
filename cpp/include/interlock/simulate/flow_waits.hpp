#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/simulate/flow_sim.hpp"

namespace interlock {

/// Rows of int32 that own their memory.
struct Rows {
    std::vector<std::int64_t> offsets;
    std::vector<std::int32_t> values;

    [[nodiscard]] Csr<std::int32_t> view() const { return {offsets, values}; }
    [[nodiscard]] std::span<const std::int32_t> operator[](std::int32_t row) const {
        return view()[static_cast<std::size_t>(row)];
    }
};

/// What must happen before each message, turned round: who is let go when a message leaves its path or arrives.
struct Waits {
    explicit Waits(const FlowProblem& problem);

    std::vector<std::int32_t> num_open;  // [messages]: conditions not yet met
    Rows after_arrival;                  // messages that depend on each message
    Rows after_sending;                  // messages next on a link it holds alone
    std::vector<std::int32_t> epoch;     // [messages]: barriers it stands behind
    Rows in_epoch;                       // [epochs]: messages
};

/// The channels of each message's path. Throws where a path crosses a channel twice or a channel has no capacity.
Rows channel_paths(const FlowProblem& problem);

/// Checks that every array has its length and every id its range.
void check_flow_problem(const FlowProblem& problem);

}  // namespace interlock
