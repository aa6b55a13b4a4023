#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "interlock/tiles.hpp"

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

/// Seconds that no plan can beat: the NICs of a server, and both ports of a rank.
double cut_seconds(const Tiles& tiles, const RankLoads& loads, const Rates& rates);

/// What each rank's NIC should carry, [ranks] each; empty vectors stand for equal shares.
struct NicTargets {
    std::vector<std::int64_t> out_bytes, in_bytes;
    std::vector<std::uint8_t> is_hot;  ///< receivers whose lanes should carry their own bytes
    [[nodiscard]] bool are_equal() const { return out_bytes.empty(); }
};

/// Loads in proportion to rates, but for GPUs whose scale-up port would need longer than `seconds`: their own NIC takes
/// more of their own bytes, and they do not relay for others.
NicTargets nic_targets(const Tiles& tiles, const RankLoads& loads, const Rates& rates, double seconds);

/// Loads in proportion to rates, whatever the traffic; equal shares where all rates are.
NicTargets rate_targets(const Rates& rates);

}  // namespace interlock
