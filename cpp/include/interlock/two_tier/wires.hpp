#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "interlock/two_tier/two_tier_expand.hpp"

namespace interlock {

inline constexpr std::int32_t kNoWire = -1;

/// One message between servers: a slice of a lane.
struct Wire {
    std::int32_t src, dst;  ///< ranks
    std::int32_t stage, slice;
    std::int32_t balance_wave, restore_wave;  ///< moves inside a server that go together
    std::array<std::int32_t, 2> after;  ///< wires whose arrival lets this one start, or kNoWire
};

/// Bytes of one pair of ranks on one wire.
struct WirePiece {
    std::int32_t sender, receiver;  ///< ranks
    std::int32_t wire;
    std::int64_t offset, length;
};

/// All wires of a plan, in the order in which they start.
struct WireTable {
    std::vector<Wire> wires;
    std::vector<WirePiece> pieces;  ///< in wire order
    std::int32_t num_waves = 1;
};

/// Cuts every lane of every segment into slices and says which bytes each slice carries.
WireTable cut_wires(std::span<const std::int64_t> demand_bytes, const TwoTierPlan& plan);

}  // namespace interlock
