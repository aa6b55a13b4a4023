#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace interlock {

/// Leaves new values unset: memory is touched once, when they are written.
template <typename T>
struct UnsetAllocator : std::allocator<T> {
    template <typename U>
    struct rebind {
        using other = UnsetAllocator<U>;
    };
    template <typename U>
    void construct(U* place) {
        ::new (static_cast<void*>(place)) U;
    }
    template <typename U, typename Value>
    void construct(U* place, Value&& value) {
        ::new (static_cast<void*>(place)) U(std::forward<Value>(value));
    }
};
template <typename T>
using RowColumn = std::vector<T, UnsetAllocator<T>>;

/// The rows of a schedule: messages in columns, pieces beside them.
struct ScheduleRows {
    RowColumn<std::int32_t> src, dst, stage, slice;
    RowColumn<std::uint8_t> phase;
    RowColumn<std::int64_t> size_bytes, order, dep_offsets, piece_offsets;
    RowColumn<std::int32_t> deps;
    RowColumn<std::int32_t> item;
    RowColumn<std::int64_t> offset, length;
};

/// Phases as the schedule numbers them.
enum class MessagePhase : std::uint8_t { kLocal = 0, kBalance = 1, kScaleOut = 2, kRedistribute = 3 };

/// Writes rows one after the other: a message ends over the pieces and dependencies added since the last one.
class RowWriter {
public:
    /// Room for so many in all; there may be more.
    void reserve(std::size_t messages, std::size_t pieces, std::size_t deps) {
        if (messages > rows_.src.size()) resize_messages(messages);
        if (pieces > rows_.item.size()) resize_pieces(pieces);
        if (deps > rows_.deps.size()) rows_.deps.resize(deps);
    }
    void add_piece(std::int32_t item, std::int64_t offset, std::int64_t length) {
        if (pieces_ == rows_.item.size()) resize_pieces(2 * pieces_ + 1);
        rows_.item[pieces_] = item;
        rows_.offset[pieces_] = offset;
        rows_.length[pieces_++] = length;
        message_bytes_ += length;
    }
    /// In any order, also more than once.
    void add_dep(std::int32_t message) {
        if (deps_ == rows_.deps.size()) rows_.deps.resize(2 * deps_ + 1);
        if (deps_ > first_dep_ && message <= rows_.deps[deps_ - 1]) {
            if (message == rows_.deps[deps_ - 1]) return;
            are_sorted_ = false;
        }
        rows_.deps[deps_++] = message;
    }
    void end(std::int32_t src, std::int32_t dst, MessagePhase phase, std::int32_t stage = 0, std::int32_t slice = 0,
             std::int64_t order = 0) {
        if (messages_ == rows_.src.size()) resize_messages(2 * messages_ + 1);
        if (!are_sorted_) sort_deps();
        first_dep_ = deps_;
        rows_.src[messages_] = src;
        rows_.dst[messages_] = dst;
        rows_.stage[messages_] = stage;
        rows_.slice[messages_] = slice;
        rows_.size_bytes[messages_] = std::exchange(message_bytes_, 0);
        rows_.order[messages_] = order;
        rows_.dep_offsets[messages_ + 1] = static_cast<std::int64_t>(deps_);
        rows_.piece_offsets[messages_ + 1] = static_cast<std::int64_t>(pieces_);
        rows_.phase[messages_++] = static_cast<std::uint8_t>(phase);
    }
    /// Messages from `first` on in the order of their stages, those of one stage as they stand.
    void order_by_stage(std::size_t first) {
        const auto count = static_cast<std::int64_t>(messages_ - first);
        for (std::int64_t n = 0; n < count; ++n) {
            const std::size_t message = first + static_cast<std::size_t>(n);
            rows_.order[message] = rows_.stage[message] * count + n;
        }
    }
    [[nodiscard]] std::size_t num_messages() const { return messages_; }

    ScheduleRows take() {
        resize_messages(messages_);
        resize_pieces(pieces_);
        rows_.deps.resize(deps_);
        rows_.dep_offsets[0] = rows_.piece_offsets[0] = 0;
        return std::move(rows_);
    }

private:
    void resize_messages(std::size_t size) {
        for (auto* column : {&rows_.src, &rows_.dst, &rows_.stage, &rows_.slice}) column->resize(size);
        for (auto* column : {&rows_.size_bytes, &rows_.order}) column->resize(size);
        for (auto* column : {&rows_.dep_offsets, &rows_.piece_offsets}) column->resize(size + 1);
        rows_.phase.resize(size);
    }
    void resize_pieces(std::size_t size) {
        rows_.item.resize(size);
        for (auto* column : {&rows_.offset, &rows_.length}) column->resize(size);
    }

    void sort_deps() {
        const auto first = rows_.deps.begin() + static_cast<std::ptrdiff_t>(first_dep_);
        const auto last = rows_.deps.begin() + static_cast<std::ptrdiff_t>(deps_);
        std::sort(first, last);
        deps_ -= static_cast<std::size_t>(last - std::unique(first, last));
        are_sorted_ = true;
    }

    ScheduleRows rows_;  // longer than what is written
    std::size_t messages_ = 0, pieces_ = 0, deps_ = 0;
    std::size_t first_dep_ = 0;  // of the message at hand
    bool are_sorted_ = true;     // its dependencies
    std::int64_t message_bytes_ = 0;
};

}  // namespace interlock
