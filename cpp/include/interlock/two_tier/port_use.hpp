#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/two_tier/assignment.hpp"
#include "interlock/two_tier_plan.hpp"

namespace interlock {

/// What every port of the cluster passes on under a decision.
///
/// Bytes that hop do so on their way to a NIC, from a NIC or around a link: one leg of theirs waits for another one, and each
/// slice of them is a message of its own.
struct PortUse {
    std::vector<double> bytes;            ///< [ports]
    std::vector<double> hops;             ///< [ports] of these, bytes that hop
    std::vector<std::int32_t> given_to, passed_to;  ///< [ranks] neighbours to which a rank's bytes hop before and after the wire
    std::vector<double> restored;         ///< [ranks] bytes that come to a rank by other NICs, over the busiest of its links
    std::vector<double> passed;           ///< [ranks] bytes that a rank passes on from its NIC to neighbours
    double largest_hop = 0;               ///< bytes that hop between two neighbours, at most
    std::vector<std::uint8_t> is_helper;  ///< [ranks] whether its NIC sends bytes that hopped there
};

/// What the lanes of a burst or a staged plan will carry, near bytes beside it: exactly what will be written.
PortUse count_lanes(std::span<const std::int64_t> demand_bytes, const Ports& ports, const TwoTierDecision& decision);

/// The same of an assignment.
PortUse count_routes(std::span<const std::int64_t> demand_bytes, const Ports& ports, const Assignment& assignment);

}  // namespace interlock
