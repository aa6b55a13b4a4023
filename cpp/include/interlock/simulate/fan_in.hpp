#pragma once

#include <cstdint>
#include <vector>

#include "interlock/simulate/flow_waits.hpp"
#include "interlock/simulate/max_min.hpp"

namespace interlock {

/// Counts the senders that target each receiving port, and lowers the port's capacity where they are too many.
class FanIn {
public:
    FanIn(const FlowProblem& problem, const Rows<std::int32_t>& channels);

    void begin(std::int32_t message, MaxMinShare& shares) { change(message, +1, shares); }
    void end(std::int32_t message, MaxMinShare& shares) { change(message, -1, shares); }
    std::vector<std::int32_t> take_peaks() { return std::move(peak_); }

private:
    void change(std::int32_t message, std::int32_t by, MaxMinShare& shares);

    const FlowProblem& problem_;
    const Rows<std::int32_t>& channels_;
    std::vector<std::int32_t> pair_by_hop_;       // (port, sender) of each hop, -1 where the channel is no port
    std::vector<std::int32_t> messages_of_pair_;  // in flight
    std::vector<std::int32_t> senders_;           // [channels], in flight
    std::vector<double> bytes_;                   // [channels], whole sizes of the messages in flight
    std::vector<std::int32_t> peak_;              // [channels]
};

}  // namespace interlock
