#pragma once

#include <cstdint>
#include <span>

#include "interlock/schedule/schedule_rows.hpp"

namespace interlock {

/// FAST as published: balance inside servers, one-to-one stages between them, redistribution behind the next stage.
///
/// @param demand_bytes row-major [ranks, ranks]; items are its non-zero entries off the diagonal, row by row
/// @param out_gpu, in_gpu [servers, servers, width] whose NICs carry what GPU g of one server sends to another, where
/// that is
///     not GPU g at both ends; or empty
/// @param is_exclusive whether a NIC carries one stage at a time, in order
ScheduleRows fast_rows(std::span<const std::int64_t> demand_bytes, std::size_t servers, std::size_t width,
                       std::span<const std::int32_t> out_gpu, std::span<const std::int32_t> in_gpu, bool is_exclusive);

}  // namespace interlock
