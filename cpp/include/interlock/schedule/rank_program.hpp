#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/schedule/rank_rows.hpp"

namespace interlock {

/// Where a rank's bytes lie.
enum class Buffer : std::uint8_t { kInput = 0, kOutput = 1, kScratch = 2 };

/// An item in a buffer.
struct PlacedItem {
    std::int64_t item, start, length;
};

/// One rank's buffers: items ascending, and bytes that stay without being an item.
struct RankLayout {
    std::vector<PlacedItem> input, output;
    std::int64_t own_from = 0, own_to = 0, own_bytes = 0;
    /// Whether items go from one rank to one other: the output's are passed on to nobody, and what is passed on,
    /// numbered after them, leaves in the pieces in which it came.
    bool is_pairs = false;
};

/// Columns of one type end to end, and where each ends.
template <typename T>
struct JoinedColumns {
    std::vector<T> values;
    std::vector<std::int64_t> ends;
};

/// What one rank runs, in columns, which `interlock.schedule.program` names in this order. Sends are steps 0 to S - 1,
/// receives S to S + R - 1, barriers follow.
struct RankProgram {
    JoinedColumns<std::int64_t> wide;
    JoinedColumns<std::int32_t> narrow;
    JoinedColumns<std::uint8_t> bytes;
    std::int64_t input_bytes = 0, output_bytes = 0;  ///< of items, and of bytes that stay
    std::int64_t scratch_bytes = 0;
};

/// Gives every byte its place and every step what it waits for.
///
/// Bytes that are copied go in place where they lie in one run, else by scratch. Items that are summed have one
/// accumulator each, which sends are packed from. Of the schedule's order a rank enforces what it can see; dependencies
/// on messages between other ranks only pace, and show in `receive_queued` and `receive_place`.
///
/// @param item_bytes size of each item by number, where they are summed; empty where they are copied
/// @param barriers stages that wait for all earlier ones, ascending
RankProgram lower(RankPart part, const RankLayout& layout, std::span<const std::int64_t> item_bytes,
                  std::span<const std::int32_t> barriers);

}  // namespace interlock
