#pragma once

#include <cstdint>

#include "interlock/schedule/schedule_table.hpp"
#include "interlock/validate/delivery.hpp"
#include "interlock/validate/ordering.hpp"
#include "interlock/validate/path_check.hpp"

namespace interlock {

/// All checks of a schedule, each only where those before it leave it something to stand on: form, then paths and
/// order, then delivery. Without findings every destination surely ends with every byte, exactly once.
/// @param path links of each message; where any message is exclusive, routed ones too
Delivery check_schedule(const MessageTable& messages, const Csr<std::int32_t>& path, std::span<const bool> exclusive,
                        std::span<const std::int64_t> order, const PieceTable& pieces, const ItemTable& items,
                        const LinkTable& links, std::uint64_t seed);

}  // namespace interlock
