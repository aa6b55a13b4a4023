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

/// A message of one rank with one peer.
struct RankRow {
    std::int64_t size_bytes;
    std::int64_t place;  ///< what comes first among messages that share an end
    std::int32_t peer, stage;
    std::int32_t round;       ///< above that of every message it depends on, where that is known
    std::uint8_t phase;
    std::uint8_t adds;        ///< whether the receiver adds
    std::uint8_t exclusive;   ///< whether links keep an order
    std::size_t pieces_end, deps_end;  ///< its pieces and dependencies begin where those of the row before end
};

/// What one rank sends or receives, in the order of the schedule.
struct RankRows {
    std::vector<RankRow> rows;
    std::vector<ItemPiece> pieces;
    std::vector<std::int32_t> deps;  ///< rows of the same rank, `as_send` or `as_receive`; what others do only paces
    bool has_rounds = false;

    [[nodiscard]] std::size_t size() const { return rows.size(); }
    [[nodiscard]] const RankRow& operator[](std::size_t row) const { return rows[row]; }
    [[nodiscard]] std::span<const ItemPiece> pieces_of(std::size_t row) const {
        const std::size_t first = row == 0 ? 0 : rows[row - 1].pieces_end;
        return std::span(pieces).subspan(first, rows[row].pieces_end - first);
    }
    [[nodiscard]] std::span<const std::int32_t> deps_of(std::size_t row) const {
        const std::size_t first = row == 0 ? 0 : rows[row - 1].deps_end;
        return std::span(deps).subspan(first, rows[row].deps_end - first);
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
