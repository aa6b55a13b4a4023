#pragma once

#include <cstdint>
#include <span>

#include "interlock/two_tier/ports.hpp"
#include "interlock/two_tier/two_tier_plan.hpp"

namespace interlock {

/// Follows the bytes of a decided plan through the queues of its ports: hop, wire, hop, as they will be written.
///
/// A port serves what waits for it without a pause, so it ends when the last work that reaches it is done, whatever the
/// order: at the latest, over all moments, of that moment plus all work that comes from it on. What hops to a NIC
/// reaches it when the port before has passed it on; what a wire brings reaches the port behind when its lane has come
/// so far. Lanes advance in proportion to their bytes, a group of slices at a time: slices on the wire together arrive
/// together.
///
/// @returns seconds until everything has arrived
double queue_seconds(std::span<const std::int64_t> demand_bytes, const TwoTierDecision& decision, const Ports& ports,
                     const TwoTierCosts& costs);

}  // namespace interlock
