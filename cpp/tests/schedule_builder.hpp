#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "interlock/schedule/schedule_table.hpp"
#include "interlock/validate/path_check.hpp"

namespace interlock::testing {

struct ListedRows {
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int32_t> values;

    void add(const std::vector<std::int32_t>& row) {
        values.insert(values.end(), row.begin(), row.end());
        offsets.push_back(static_cast<std::int64_t>(values.size()));
    }
    [[nodiscard]] Csr<std::int32_t> view() const { return {offsets, values}; }
};

struct Piece {
    std::int32_t item;
    std::int64_t offset;
    std::int64_t length;
};

/// Columns of a schedule and its problem, grown message by message.
struct ScheduleBuilder {
    ListedRows src, dst, deps, path;
    std::vector<std::uint8_t> kind, phase, exclusive_bytes;
    std::vector<std::int32_t> stage, slice;
    std::vector<std::int64_t> size_bytes, order;
    std::vector<std::int32_t> barriers;
    std::vector<std::int64_t> piece_offsets{0};
    std::vector<std::int32_t> piece_item;
    std::vector<std::int64_t> piece_offset, piece_length;
    std::vector<std::int64_t> item_bytes;
    ListedRows contributors, destinations;
    std::int32_t num_ranks = 4;

    ScheduleBuilder& item(std::int64_t bytes, const std::vector<std::int32_t>& from,
                          const std::vector<std::int32_t>& to) {
        item_bytes.push_back(bytes);
        contributors.add(from);
        destinations.add(to);
        return *this;
    }
    ScheduleBuilder& send(const std::vector<std::int32_t>& from, const std::vector<std::int32_t>& to,
                          const std::vector<Piece>& pieces, const std::vector<std::int32_t>& after = {},
                          std::uint8_t how = kCopy, std::int32_t in_stage = 0) {
        src.add(from);
        dst.add(to);
        deps.add(after);
        path.add({});
        kind.push_back(how);
        phase.push_back(0);
        stage.push_back(in_stage);
        slice.push_back(0);
        exclusive_bytes.push_back(0);
        order.push_back(0);
        std::int64_t bytes = 0;
        for (const Piece& piece : pieces) {
            piece_item.push_back(piece.item);
            piece_offset.push_back(piece.offset);
            piece_length.push_back(piece.length);
            bytes += piece.length;
        }
        piece_offsets.push_back(static_cast<std::int64_t>(piece_item.size()));
        size_bytes.push_back(bytes);
        return *this;
    }

    [[nodiscard]] std::size_t size() const { return kind.size(); }
    [[nodiscard]] MessageTable messages() const {
        return {src.view(), dst.view(), kind, phase, stage, slice, size_bytes, deps.view(), barriers};
    }
    [[nodiscard]] PieceTable pieces() const { return {piece_offsets, piece_item, piece_offset, piece_length}; }
    [[nodiscard]] ItemTable items() const { return {item_bytes, contributors.view(), destinations.view(), num_ranks}; }
    [[nodiscard]] std::span<const bool> exclusive() const {
        return {reinterpret_cast<const bool*>(exclusive_bytes.data()), exclusive_bytes.size()};
    }
};

inline std::vector<std::int32_t> counting(std::size_t count) {
    std::vector<std::int32_t> ids(count);
    for (std::size_t k = 0; k < count; ++k) ids[k] = static_cast<std::int32_t>(k);
    return ids;
}

/// Whether a rule is among those found broken.
inline bool broke(const Findings& found, Rule rule) { return found.total > 0 && found.has(rule); }

}  // namespace interlock::testing
