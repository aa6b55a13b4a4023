#pragma once

#include <cstdint>
#include <span>

#include "interlock/lane_table.hpp"
#include "interlock/nic_targets.hpp"

namespace interlock {

/// Lanes straight from every sender's NIC to every receiver's, but for what is above a NIC's target: that takes the NICs
/// of other GPUs of the server, in proportion to the room they have, from the largest pairs.
///
/// @param targets what each NIC may carry; a server's add up to at least what it sends and receives
LaneTable detour_lanes(std::span<const std::int64_t> demand_bytes, const Tiles& tiles, const NicTargets& targets);

}  // namespace interlock
