#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "interlock/csr.hpp"

namespace interlock {

constexpr std::uint8_t kCopy = 0;
constexpr std::uint8_t kReduce = 1;
constexpr std::uint8_t kWait = 2;  // carries nothing: computation, or a point where others meet
constexpr std::uint8_t kLastPhase = 5;

/// Views of a schedule's message columns; row m is message m.
struct MessageTable {
    Csr<std::int32_t> src;
    Csr<std::int32_t> dst;
    std::span<const std::uint8_t> kind;
    std::span<const std::uint8_t> phase;
    std::span<const std::int32_t> stage;
    std::span<const std::int32_t> slice;
    std::span<const std::int64_t> size_bytes;
    Csr<std::int32_t> deps;                  ///< message ids, ascending in each row
    std::span<const std::int32_t> barriers;  ///< stages >= b wait for all stages < b; ascending

    [[nodiscard]] std::size_t size() const { return kind.size(); }
    /// Memory safety only: columns of equal length, offsets that stay inside.
    void check() const;
};

/// Pieces of the messages: message m carries bytes [offset, offset + length) of item for its rows.
struct PieceTable {
    std::span<const std::int64_t> offsets;  ///< [num_messages + 1]
    std::span<const std::int32_t> item;
    std::span<const std::int64_t> offset;
    std::span<const std::int64_t> length;

    [[nodiscard]] std::size_t size() const { return item.size(); }
    void check(std::size_t num_messages) const;
};

/// The items to be moved. A set table of one row serves every item.
struct ItemTable {
    std::span<const std::int64_t> size_bytes;
    Csr<std::int32_t> contributors;
    Csr<std::int32_t> destinations;
    std::int32_t num_ranks;

    [[nodiscard]] std::size_t size() const { return size_bytes.size(); }
    [[nodiscard]] std::span<const std::int32_t> contributors_of(std::size_t item) const {
        return contributors[contributors.num_rows() == 1 ? 0 : item];
    }
    [[nodiscard]] std::span<const std::int32_t> destinations_of(std::size_t item) const {
        return destinations[destinations.num_rows() == 1 ? 0 : item];
    }
    /// Memory safety; also that every rank named exists, no size is negative and every item has a contributor.
    void check() const;
};

/// Memory safety across tables: throws InvalidInput where check_form would find ends that are no ranks, or pieces
/// outside their items.
void check_ends(const Csr<std::int32_t>& src, const Csr<std::int32_t>& dst, std::int32_t num_ranks);
void check_pieces(const PieceTable& pieces, const ItemTable& items);

}  // namespace interlock
