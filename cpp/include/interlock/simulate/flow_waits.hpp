#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/simulate/flow_sim.hpp"

namespace interlock {

/// What must happen before each message, turned round: who is let go when a message leaves its path or arrives.
struct Waits {
    explicit Waits(const FlowProblem& problem);

    std::vector<std::int32_t> num_open;  // [messages]: conditions not yet met
    Rows<std::int32_t> after_arrival;    // messages that depend on each message
    Rows<std::int32_t> after_sending;    // messages next on a link it holds alone
    std::vector<std::int32_t> epoch;     // [messages]: barriers it stands behind
    Rows<std::int32_t> in_epoch;         // [epochs]: messages
};

/// The channels of each message's path. Throws where a path crosses a channel twice or a channel has no capacity.
Rows<std::int32_t> channel_paths(const FlowProblem& problem);

/// Checks that every array has its length and every id its range.
void check_flow_problem(const FlowProblem& problem);

}  // namespace interlock
