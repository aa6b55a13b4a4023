#pragma once

#include <cstdint>
#include <span>

namespace interlock {

/// Messages and their pieces, to be changed in place: message m has the pieces from piece_offsets[m] on.
struct MessagePieces {
    std::span<const std::int64_t> piece_offsets;  ///< [messages + 1]
    std::span<std::int64_t> size_bytes;           ///< [messages]
    std::span<const std::int32_t> item;           ///< [pieces]
    std::span<std::int64_t> offset, length;
};

/// Moves every place at which an item is cut to the nearest multiple of `align` bytes, or else of 16.
///
/// A cut moves alike in all messages, so that what is whole stays whole and what a rank holds it still holds. It stays
/// where it is if a part between two cuts would become empty, and an item's first and last byte never move. All pieces
/// of an item must be given: another set of cuts moves otherwise.
void align_cuts(const MessagePieces& messages, std::int64_t align);

}  // namespace interlock
