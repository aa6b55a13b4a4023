#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/schedule/schedule_table.hpp"
#include "interlock/validate/segments.hpp"

namespace interlock {

/// Where bytes wait at ranks that neither contribute nor need them, as columns: bytes [first_byte, end_byte) of `item`
/// occupy `rank` from first_stage through last_stage.
struct ScratchSpans {
    std::vector<std::int32_t> rank;
    std::vector<std::int32_t> item;
    std::vector<std::int64_t> first_byte;
    std::vector<std::int64_t> end_byte;
    std::vector<std::int32_t> first_stage;
    std::vector<std::int32_t> last_stage;

    [[nodiscard]] std::size_t size() const { return rank.size(); }
    /// The most bytes that wait at each rank in any one stage: [num_ranks].
    [[nodiscard]] std::vector<std::int64_t> high_water(std::int32_t num_ranks) const;
};

/// Who brings and takes bytes, and in which stage: the columns of messages that scratch depends on.
struct CarrierTable {
    Csr<std::int32_t> src;
    Csr<std::int32_t> dst;
    std::span<const std::int32_t> stage;
};

/// Collects the spans, segment after segment.
class ScratchRule {
public:
    ScratchRule(const CarrierTable& carriers, const ItemTable& items);
    /// Must be called before the segments of another item are followed.
    void start_item(std::int32_t item);
    void follow(const ItemSegment& segment);
    ScratchSpans& spans() { return spans_; }

private:
    struct Waiting {
        std::int64_t segment = 0;
        std::size_t span = 0;
    };
    [[nodiscard]] bool is_relay(std::int32_t rank) const;
    void wait(std::int32_t rank, std::int32_t stage, const ItemSegment& segment);
    void extend(std::int32_t rank, std::int32_t stage);

    CarrierTable carriers_;
    const ItemTable& items_;
    std::int32_t item_ = -1;
    std::vector<std::int32_t> contributes_to_;  // by rank: the last item it is known to contribute to; -1 none
    std::vector<std::int32_t> needs_;           // by rank: the last item it is known to need; -1 none
    std::vector<Waiting> waiting_;              // by rank; current if its segment is num_segments_
    std::int64_t num_segments_ = 0;
    ScratchSpans spans_;
};

/// The rule for scratch by itself: bytes brought to a rank that is neither contributor nor destination of their item
/// wait there from the stage of the message that brings them to the stage of the last message that takes them away.
/// Bytes that nobody takes away count in the stage that brings them.
ScratchSpans scratch_spans(const CarrierTable& carriers, const PieceTable& pieces, const ItemTable& items);

}  // namespace interlock
