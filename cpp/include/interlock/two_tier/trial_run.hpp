#pragma once

#include <cstdint>
#include <span>

#include "interlock/two_tier/ports.hpp"
#include "interlock/two_tier/two_tier_plan.hpp"

namespace interlock {

/// Runs the messages of a decided plan that share ports, as they will be written, in the simulator.
///
/// @param ports without uplinks
/// @returns seconds until everything has arrived
double trial_seconds(std::span<const std::int64_t> demand_bytes, const TwoTierDecision& decision, const Ports& ports,
                     const TwoTierCosts& costs);

}  // namespace interlock
