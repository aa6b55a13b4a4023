#pragma once

#include <cstdint>
#include <span>

#include "interlock/schedule/schedule_rows.hpp"
#include "interlock/two_tier/two_tier_plan.hpp"

namespace interlock {

/// Rows of a detour of which every route goes in pieces of its own: no two share a message, so that none waits for
/// others to be complete.
ScheduleRows expand_paths(std::span<const std::int64_t> demand_bytes, const TwoTierDecision& decision,
                          const PieceBytes& pieces);

}  // namespace interlock
