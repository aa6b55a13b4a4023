#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/two_tier/nic_targets.hpp"

namespace interlock {

/// Bytes between two GPUs of a server that take a third one, because the link between them is too narrow.
struct NearRelay {
    std::int32_t src, dst, relay;  ///< ranks
    std::int64_t bytes;
};

/// Where each two GPUs of a server have a link of their own: what goes around, so that no link is busy for longer than
/// `seconds`, or as little longer as can be. Counted beside it is what balancing over NICs will ask of the links.
/// @param least_bytes less is not worth the messages
/// @param pairs whose bytes take NICs in part
/// @param present [ranks] whether a GPU is there to pass bytes on
std::vector<NearRelay> near_relays(std::span<const std::int64_t> demand_bytes, const RankLoads& loads, const Rates& rates,
                                   double seconds, std::int64_t least_bytes, std::span<const HeavyPair> pairs,
                                   std::span<const std::uint8_t> present);

}  // namespace interlock
