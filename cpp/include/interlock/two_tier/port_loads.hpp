#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/two_tier/ports.hpp"
#include "interlock/two_tier/two_tier_plan.hpp"

namespace interlock {

/// Bytes between servers that each rank's NIC sends and receives.
struct NicLoads {
    std::vector<std::int64_t> out_bytes, in_bytes;  ///< [ranks]
    bool take_turns = false;  ///< whether partners of a NIC go one after the other
};

/// What a decided plan asks of every NIC, without writing it out.
NicLoads port_loads(std::span<const std::int64_t> demand_bytes, const TwoTierDecision& decision);

/// Seconds that the busiest ports are busy, with bytes and the messages that they begin, whatever waits for what.
struct PortLevels {
    double nic_s = 0, up_s = 0;  ///< of NICs and uplinks, and of ports or links inside servers
    double passed_s = 0;         ///< of the latter, with bytes that wires brought for neighbours
    double last_part = 0;        ///< of its lane, that a slice of what hops is on average; 0: nothing hops
};

/// Of a plan as it will be written.
PortLevels port_levels(std::span<const std::int64_t> demand_bytes, const TwoTierDecision& decision, const Ports& ports,
                       double message_overhead_s);

}  // namespace interlock
