#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "interlock/schedule/schedule_rows.hpp"

namespace interlock {

/// Each server alone spreads what it owes each other server over its rails, and sends it in slices.
///
/// @param demand_bytes row-major [ranks, ranks]; items are its non-zero entries off the diagonal, row by row
/// @param rates row-major [servers, rails] rate of each NIC; 0 is a dead one
/// @param slices per rail and destination server; 0: every server chooses
ScheduleRows rails_split(std::span<const std::int64_t> demand_bytes, std::span<const double> rates, std::size_t servers,
                         std::int32_t slices);

}  // namespace interlock
