#pragma once

#include <cstdint>
#include <span>

#include "interlock/schedule/rank_program.hpp"
#include "interlock/two_tier/two_tier_plan.hpp"

namespace interlock {

/// Where the bytes for and from each rank begin in a rank's buffers; empty: end to end, in the order of ranks.
struct PairStarts {
    std::span<const std::int64_t> input, output;  ///< [ranks]
    std::int64_t own_from = 0, own_to = 0, own_bytes = 0;
};

/// What one rank runs of an All-to-Allv in which every pair of ranks is a message of its own.
RankProgram direct_program(std::span<const std::int64_t> demand_bytes, std::size_t servers, std::int32_t rank,
                           const PairStarts& starts);

/// What one rank runs of a two-tier plan; touches only the tiles of its server.
RankProgram two_tier_program(std::span<const std::int64_t> demand_bytes, const TwoTierDecision& decision,
                             std::int32_t rank, const PairStarts& starts);

}  // namespace interlock
