#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/two_tier/two_tier_plan.hpp"

namespace interlock {

/// Bytes between servers that each rank's NIC sends and receives.
struct NicLoads {
    std::vector<std::int64_t> out_bytes, in_bytes;  ///< [ranks]
    bool take_turns = false;  ///< whether partners of a NIC go one after the other
};

/// What a decided plan asks of every NIC, without writing it out.
NicLoads port_loads(std::span<const std::int64_t> demand_bytes, const TwoTierDecision& decision);

/// Seconds that the busiest port of a switch inside a server needs for what stays there and for all hops to NICs and
/// from them, whatever waits for what.
double switch_port_seconds(std::span<const std::int64_t> demand_bytes, const TwoTierDecision& decision,
                           double port_bytes_per_s);

}  // namespace interlock
