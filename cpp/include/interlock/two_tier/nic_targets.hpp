#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "interlock/two_tier/tiles.hpp"

namespace interlock {

/// Rates of a two-tier cluster, bytes per second.
struct Rates {
    std::size_t servers = 0, width = 0;
    std::span<const double> nic;  ///< [ranks], 0 where a NIC is dead or missing
    double scale_up = 0;          ///< of one GPU's port, each direction
};

/// What each rank sends and receives, far (to other servers) and near (inside its own), [ranks] each.
struct RankLoads {
    std::vector<std::int64_t> out_far, in_far, out_near, in_near;
};
RankLoads rank_loads(const Tiles& tiles);

/// What each rank's NIC should carry, [ranks] each; empty vectors stand for equal shares everywhere. The NICs of a
/// server without targets, all 0, may share as they like up to what they can carry.
struct NicTargets {
    std::vector<std::int64_t> out_bytes, in_bytes, most_bytes;
    std::vector<std::uint8_t> is_hot;  ///< whether a rank's scale-up port has hardly any time to receive
    [[nodiscard]] bool are_equal() const { return out_bytes.empty(); }
};

/// Loads in proportion to rates, but for GPUs whose scale-up ports have much to do in `seconds`: their own NIC takes
/// more of their own bytes, and they help others less.
NicTargets nic_targets(const RankLoads& loads, const Rates& rates, double seconds);

/// Loads in proportion to rates, whatever the traffic; equal shares where all rates are.
NicTargets rate_targets(const Rates& rates);

}  // namespace interlock
