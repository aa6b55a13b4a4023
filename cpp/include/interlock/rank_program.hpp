#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/rank_rows.hpp"

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
    bool is_pairs = false;  ///< whether items go from one rank to one other: the output's are passed on to nobody
};

/// What one rank runs, in columns. Sends are steps 0 to S - 1, receives S to S + R - 1, barriers follow.
struct RankProgram {
    std::vector<std::int64_t> send_bytes, send_start, receive_bytes, receive_start;
    std::vector<std::int32_t> send_peer, send_tag, send_stage, send_round, receive_peer, receive_tag, receive_stage, receive_round,
        receive_place;
    std::vector<std::uint8_t> send_buffer, send_phase, receive_buffer, receive_phase, receive_adds, receive_queued;
    std::vector<std::int64_t> pack_start, pack_to, pack_bytes, unpack_start, unpack_to, unpack_bytes;
    std::vector<std::int32_t> pack_offsets, unpack_offsets;
    std::vector<std::uint8_t> pack_buffer, unpack_buffer;
    std::vector<std::int32_t> wait_offsets, wait_on, release_offsets, release_to;
    std::vector<std::int64_t> start_from, start_to, start_bytes, zero_start, zero_bytes, own_from, own_to, own_bytes;
    std::vector<std::uint8_t> start_buffer, zero_buffer;
    std::int64_t input_bytes = 0, output_bytes = 0;  ///< of items, and of bytes that stay
    std::int64_t scratch_bytes = 0;
};

/// Gives every byte its place and every step what it waits for.
///
/// Bytes that are copied go in place where they lie in one run, else by scratch. Items that are summed have one accumulator
/// each, which sends are packed from. Of the schedule's order a rank enforces what it can see; dependencies on messages
/// between other ranks only pace, and show in `receive_queued` and `receive_place`.
///
/// @param item_bytes size of each item by number, where they are summed; empty where they are copied
/// @param barriers stages that wait for all earlier ones, ascending
RankProgram lower(RankPart part, const RankLayout& layout, std::span<const std::int64_t> item_bytes,
                  std::span<const std::int32_t> barriers);

}  // namespace interlock
