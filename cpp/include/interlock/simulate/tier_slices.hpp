#pragma once

#include <cstdint>
#include <span>

namespace interlock {

/// What slices pass one after the other, tier by tier.
struct TierColumns {
    std::span<const double> busy_s;           // [tiers], of all bytes; as are the next
    std::span<const double> paid_s;           // of each slice beside its bytes
    std::span<const double> latency_s;
    std::span<const std::int32_t> ports;      // tiers of one number share them
    std::span<const std::int32_t> under_way;  // slices that follow each other by waiting; 0: nothing holds them back
};

/// Arrival of the last slice. Slice k enters a tier when it has left the one before and the ports are free; ports that
/// several tiers share serve later slices of the earlier tier beside earlier slices of the later one.
double tier_slices_s(const TierColumns& tiers, std::span<const double> weights);

}  // namespace interlock
