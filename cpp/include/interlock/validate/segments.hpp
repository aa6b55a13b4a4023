#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "interlock/schedule/schedule_table.hpp"

namespace interlock {

/// A message as its bytes see it. Kept beside each piece, so that following an item reads memory in order.
struct Carrier {
    std::int32_t message;
    std::int32_t src;       ///< the one source, or kSeveral
    std::int32_t dst;       ///< the one destination, or kSeveral
    std::int32_t last_dep;  ///< the last message it lists, most often the one that matters; -1 if there is none
    bool reduces;

    static constexpr std::int32_t kSeveral = -1;

    [[nodiscard]] std::span<const std::int32_t> sources(const Csr<std::int32_t>& all) const { return ends(src, all); }
    [[nodiscard]] std::span<const std::int32_t> targets(const Csr<std::int32_t>& all) const { return ends(dst, all); }

private:
    [[nodiscard]] std::span<const std::int32_t> ends(const std::int32_t& one, const Csr<std::int32_t>& all) const {
        return one == kSeveral ? all[static_cast<std::size_t>(message)] : std::span(&one, 1);
    }
};

/// A message's part of one item.
struct Carried {
    std::int64_t first;
    std::int64_t end;
    Carrier carrier;
};

/// All pieces, item by item, within an item in the order of the messages.
class CarriedByItem {
public:
    /// Needs tables without faults, and messages in the order in which they act. Of the messages, kind and deps may be
    /// left empty where nobody asks for them.
    CarriedByItem(const MessageTable& messages, const PieceTable& pieces, std::size_t num_items,
                  std::span<const std::int32_t> sequence);
    [[nodiscard]] std::span<const Carried> of(std::size_t item) const {
        const auto first = static_cast<std::size_t>(first_[item]);
        return std::span(carried_).subspan(first, static_cast<std::size_t>(first_[item + 1]) - first);
    }

private:
    std::vector<std::int64_t> first_;
    std::vector<Carried> carried_;
};

/// Bytes [first, end) of one item, moved alike by every message that touches them, and those messages in turn.
struct ItemSegment {
    std::int32_t item;
    std::int64_t first;
    std::int64_t end;
    std::span<const Carrier> carriers;
};

/// Cuts one item's bytes wherever a piece begins or ends, and lists who carries each segment.
class Cutter {
public:
    /// @param visits how many (piece, segment) pairs may be listed in all
    explicit Cutter(std::int64_t visits) : visits_left_(visits) {}

    /// Visits that no schedule of sense needs, yet linear in its size.
    static std::int64_t visits_for(std::size_t num_rows) {
        return (std::int64_t{1} << 26) + 32 * static_cast<std::int64_t>(num_rows);
    }

    /// False if the pieces overlap in so many ways that the visits are used up.
    bool cut(std::span<const Carried> carried, std::int64_t size);
    [[nodiscard]] std::size_t num_segments() const { return cuts_.size() - 1; }
    /// Valid until the next cut.
    [[nodiscard]] ItemSegment segment(std::int32_t item, std::size_t s) const {
        const std::size_t num_carriers = first_carrier_[s + 1] - first_carrier_[s];
        return {item, cuts_[s], cuts_[s + 1], std::span(carriers_).subspan(first_carrier_[s], num_carriers)};
    }

private:
    struct Range {
        std::size_t first;
        std::size_t end;
    };
    [[nodiscard]] Range segments_of(const Carried& part) const;

    std::int64_t visits_left_;
    std::vector<std::int64_t> cuts_;          // segment s is [cuts_[s], cuts_[s + 1])
    std::vector<std::size_t> first_carrier_;  // of each segment, in carriers_
    std::vector<std::size_t> next_;
    std::vector<Carrier> carriers_;
};

}  // namespace interlock
