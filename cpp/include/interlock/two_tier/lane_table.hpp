#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "interlock/two_tier/lanes.hpp"
#include "interlock/two_tier/nic_targets.hpp"
#include "interlock/two_tier/tiles.hpp"

namespace interlock {

/// The lanes of every tile. Where none are listed, every GPU index is a lane with an equal share.
struct LaneTable {
    std::size_t servers = 0, width = 0;
    std::vector<std::int64_t> offsets;  ///< [servers * servers + 1], or empty: equal shares
    std::vector<Lane> lanes;
    std::vector<std::uint8_t> is_hot;  ///< [ranks], or empty: with a port inside that has hardly any time left

    [[nodiscard]] bool is_hot_receiver(std::size_t rank) const {
        return !is_hot.empty() && is_hot[rank] != 0;
    }

    /// Those of the two servers of a tile.
    [[nodiscard]] HotEnds hot(std::size_t src_server, std::size_t dst_server) const;

    /// The lanes of a tile of `tile_bytes`; `scratch` holds them where they are not listed.
    [[nodiscard]] std::span<const Lane> of(std::size_t src_server, std::size_t dst_server, std::int64_t tile_bytes,
                                           std::vector<Lane>& scratch) const;
};

/// What unequal shares should even out.
enum class ShareRule {
    kServer,  ///< each NIC's total, over all tiles: for lanes that run side by side
    kTile,    ///< the time of every tile's lanes: for tiles that follow each other
};

/// Lanes along rails, GPU k to GPU k, with NIC loads in proportion to their targets.
LaneTable rail_lanes(const Tiles& tiles, const NicTargets& targets, ShareRule rule);

/// Lanes along rails as far as the targets of both ends agree, and across them for the rest: every NIC meets its
/// target.
LaneTable cross_lanes(const Tiles& tiles, const NicTargets& targets);

}  // namespace interlock
