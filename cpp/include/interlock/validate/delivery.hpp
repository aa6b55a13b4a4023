#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/schedule/schedule_table.hpp"
#include "interlock/validate/findings.hpp"

namespace interlock {

struct Delivery {
    Findings found;
    std::vector<std::int64_t> scratch_bytes;  ///< [num_ranks] high-water marks
    bool used_fingerprints = false;           ///< some sum had more contributors than exact sets are kept for
};

/// Contributions are kept as exact sets up to this many per item, as two random 64-bit fingerprints above.
constexpr std::size_t kExactContributors = 1024;

/// Executes a schedule symbolically and checks that every destination ends with every byte, complete, exactly once.
///
/// Item by item, the bytes are cut where any piece begins or ends; on each such segment the messages act in turn on
/// what each rank holds. What is proven holds for every order the schedule allows, not for the one order executed: a
/// message must itself wait for whatever brought or changed the bytes it sends, and may change only bytes whose earlier
/// readers are surely done.
///
/// Needs messages without findings of check_form, and their order.
/// @param sequence topological order of the messages
/// @param link_predecessors per message, the messages before it on its links (-1: none); no rows if there are none
/// @param seed of the fingerprints
Delivery check_delivery(const MessageTable& messages, const PieceTable& pieces, const ItemTable& items,
                        std::span<const std::int32_t> sequence, Csr<std::int32_t> link_predecessors,
                        std::uint64_t seed);

}  // namespace interlock
