#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "interlock/two_tier/lanes.hpp"
#include "interlock/two_tier/nic_targets.hpp"
#include "interlock/two_tier/tiles.hpp"

namespace interlock {

/// The lanes of every tile, along rails: GPU k to GPU k. Where none are listed, every GPU index is a lane with an equal
/// share.
struct LaneTable {
    std::size_t servers = 0, width = 0;
    std::vector<std::int64_t> offsets;  ///< [servers * servers + 1], or empty: equal shares
    std::vector<Lane> lanes;

    /// The lanes of a tile of `tile_bytes`; `scratch` holds them where they are not listed.
    [[nodiscard]] std::span<const Lane> of(std::size_t src_server, std::size_t dst_server, std::int64_t tile_bytes,
                                           std::vector<Lane>& scratch) const;
};

/// What unequal shares should even out.
enum class ShareRule {
    kServer,  ///< each NIC's total, over all tiles: for lanes that run side by side
    kTile,    ///< the time of every tile's lanes: for tiles that follow each other
};

/// Lanes with NIC loads in proportion to their targets.
LaneTable rail_lanes(const Tiles& tiles, const NicTargets& targets, ShareRule rule);

}  // namespace interlock
