#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/csr.hpp"

namespace interlock {

/// How a row says which other row of its rank it waits for.
inline constexpr std::int32_t as_send(std::size_t row) { return static_cast<std::int32_t>(row); }
inline constexpr std::int32_t as_receive(std::size_t row) { return ~static_cast<std::int32_t>(row); }
inline constexpr bool is_receive(std::int32_t dep) { return dep < 0; }
inline constexpr std::size_t row_of(std::int32_t dep) { return static_cast<std::size_t>(dep < 0 ? ~dep : dep); }

/// Bytes of an item; items are any numbers that both ends know them by.
struct ItemPiece {
    std::int64_t item, offset, length;
};

/// What one rank sends or receives, one row per message and peer, in the order of the schedule.
struct RankRows {
    std::vector<std::int32_t> peer;
    std::vector<std::int64_t> size_bytes;
    std::vector<std::uint8_t> phase;
    std::vector<std::int32_t> stage;
    std::vector<std::uint8_t> adds;       ///< whether the receiver adds
    std::vector<std::uint8_t> exclusive;  ///< whether links keep an order
    std::vector<std::int64_t> place;      ///< what comes first among messages that share an end
    std::vector<std::int32_t> round;      ///< above that of every message it depends on; empty: unknown
    std::vector<std::int64_t> piece_offsets{0};
    std::vector<ItemPiece> pieces;
    std::vector<std::int64_t> dep_offsets{0};
    std::vector<std::int32_t> deps;  ///< rows of the same rank, `as_send` or `as_receive`; what others do only paces

    [[nodiscard]] std::size_t size() const { return peer.size(); }
    void reserve(std::size_t num_rows, std::size_t num_pieces) {
        for (auto* column : {&size_bytes, &place, &piece_offsets, &dep_offsets}) column->reserve(num_rows + 1);
        for (auto* column : {&peer, &stage}) column->reserve(num_rows);
        for (auto* column : {&phase, &adds, &exclusive}) column->reserve(num_rows);
        pieces.reserve(num_pieces);
        deps.reserve(2 * num_rows);
    }
    [[nodiscard]] std::span<const ItemPiece> pieces_of(std::size_t row) const {
        const auto first = static_cast<std::size_t>(piece_offsets[row]), last = static_cast<std::size_t>(piece_offsets[row + 1]);
        return std::span(pieces).subspan(first, last - first);
    }
    [[nodiscard]] std::span<const std::int32_t> deps_of(std::size_t row) const {
        const auto first = static_cast<std::size_t>(dep_offsets[row]), last = static_cast<std::size_t>(dep_offsets[row + 1]);
        return std::span(deps).subspan(first, last - first);
    }
};

/// What one rank sends and receives.
struct RankPart {
    RankRows sends, receives;
};

/// Columns of a schedule, as `interlock.schedule` defines them.
struct ScheduleTableRows {
    Csr<std::int32_t> src, dst;
    std::span<const std::uint8_t> kind, phase;
    std::span<const std::int32_t> stage;
    std::span<const std::int64_t> size_bytes;
    std::span<const std::uint8_t> exclusive;
    std::span<const std::int64_t> order;
    std::span<const std::int64_t> round;  ///< above that of every message it depends on; empty: above earlier numbers
    Csr<std::int32_t> deps;
    std::span<const std::int64_t> piece_offsets;
    std::span<const std::int32_t> item;
    std::span<const std::int64_t> offset, length;

    /// Throws unless every column has one value per message, or per piece.
    void check() const;
};

/// What one rank sends and receives: multicasts and sums inside a switch become one row per peer on the other side.
RankPart part_of_rank(const ScheduleTableRows& table, std::int32_t rank);

}  // namespace interlock
