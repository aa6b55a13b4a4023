#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/schedule/schedule_table.hpp"
#include "interlock/validate/causality.hpp"
#include "interlock/validate/findings.hpp"
#include "interlock/validate/segments.hpp"

namespace interlock {

/// Follows one segment at a time of items with a single contributor: a rank holds the bytes or does not.
class CopyHoldings {
public:
    CopyHoldings(const MessageTable& messages, const ItemTable& items, const Causality& causality, Findings& found);
    void follow(const ItemSegment& segment);

private:
    struct Held {
        std::int64_t segment = 0;
        std::int32_t writer = 0;
    };
    void send(const Carrier& carrier, std::int32_t origin, const ItemSegment& segment);

    const MessageTable& messages_;
    const ItemTable& items_;
    const Causality& causality_;
    Findings& found_;
    std::vector<Held> held_;  // by rank; current if its segment is num_segments_
    std::int64_t num_segments_ = 0;
};

/// Follows one segment at a time of items that are sums: a rank holds a set of contributions.
class SumHoldings {
public:
    SumHoldings(const MessageTable& messages, const ItemTable& items, Causality& causality, Findings& found,
                std::uint64_t seed);
    /// Must be called before the segments of another item are followed.
    void start_item(std::int32_t item);
    void follow(const ItemSegment& segment);
    [[nodiscard]] bool used_fingerprints() const { return used_fingerprints_; }

private:
    /// A set of contributions: one bit each, or the sums of two fingerprints and how many there are.
    using Sum = std::span<const std::uint64_t>;

    /// What a rank holds of the segment; its contributions are the rank's row of sums_.
    struct Holding {
        std::int64_t segment = 0;
        bool is_held = false;
        std::int32_t copied_by = -1;
        std::int32_t writers = -1;  // list in notes_: what a reader must wait for
        std::int32_t num_unread_writers = 0;
        std::int32_t last_writer_stage = 0;
        std::int32_t readers = -1;  // list in notes_: what a writer must wait for
        std::int32_t num_readers = 0;
    };
    struct Note {
        std::int32_t message;
        std::int32_t next;
    };
    struct Member {
        std::int64_t item_serial = -1;
        std::int32_t index = 0;
    };

    Holding& holding(std::int32_t rank);
    std::span<std::uint64_t> sum_of(std::int32_t rank);
    [[nodiscard]] bool is_contributor(std::int32_t rank) const;
    void add_own(std::int32_t rank, std::span<std::uint64_t> sum) const;
    [[nodiscard]] bool overlap(Sum a, Sum b) const;
    void add(std::span<std::uint64_t> into, Sum sum) const;
    [[nodiscard]] bool surely_contains(Sum sum, std::int32_t rank) const;

    void send(const Carrier& carrier, const ItemSegment& segment);
    void read(std::int32_t rank, std::int32_t message, const ItemSegment& segment);
    void check_readers(std::int32_t rank, const Carrier& carrier, Sum arriving, const ItemSegment& segment);
    void copy_into(std::int32_t rank, std::int32_t message, Sum arriving, const ItemSegment& segment);
    void reduce_into(std::int32_t rank, std::int32_t message, Sum arriving, const ItemSegment& segment);
    void check_destinations(const ItemSegment& segment);
    std::int32_t note(std::int32_t message, std::int32_t next);

    const MessageTable& messages_;
    const ItemTable& items_;
    Causality& causality_;
    Findings& found_;
    std::uint64_t seed_;
    bool used_fingerprints_ = false;

    bool is_exact_ = true;
    std::size_t num_words_ = 1;    // of one sum
    std::vector<Member> members_;  // by rank: its place among the item's contributors
    std::int64_t item_serial_ = -1;
    std::vector<std::uint64_t> complete_;    // the sum of all contributors
    std::vector<Holding> holdings_;          // by rank; current if its segment is num_segments_
    std::vector<std::uint64_t> sums_;        // [num_ranks, num_words_]
    std::vector<std::uint64_t> switch_sum_;  // of several sources
    std::vector<Note> notes_;
    std::int64_t num_segments_ = 0;
};

}  // namespace interlock
