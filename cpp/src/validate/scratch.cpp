#include "interlock/validate/scratch.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "interlock/arithmetic.hpp"

namespace interlock {
namespace {

struct Change {
    std::int64_t stage;
    std::int64_t bytes;
};

}  // namespace

std::vector<std::int64_t> ScratchSpans::high_water(std::int32_t num_ranks) const {
    Rows<Change> changes = grouped<Change>(at(num_ranks), [&](auto put) {
        for (std::size_t k = 0; k < size(); ++k) {
            const std::int64_t bytes = end_byte[k] - first_byte[k];
            put(rank[k], {first_stage[k], bytes});
            put(rank[k], {std::int64_t{last_stage[k]} + 1, -bytes});
        }
    });
    std::vector<std::int64_t> highest(at(num_ranks), 0);
    for (std::size_t r = 0; r < highest.size(); ++r) {
        const auto begin = changes.values.begin() + changes.offsets[r];
        const auto end = changes.values.begin() + changes.offsets[r + 1];
        // What leaves before a stage has left when others enter in it: at equal stages, first the decreases.
        std::sort(begin, end, [](const Change& a, const Change& b) {
            return a.stage != b.stage ? a.stage < b.stage : a.bytes < b.bytes;
        });
        std::int64_t held = 0;
        for (auto change = begin; change != end; ++change) {
            held += change->bytes;
            highest[r] = std::max(highest[r], held);
        }
    }
    return highest;
}

ScratchRule::ScratchRule(const CarrierTable& carriers, const ItemTable& items)
    : carriers_(carriers),
      items_(items),
      contributes_to_(at(items.num_ranks), -1),
      needs_(at(items.num_ranks), -1),
      waiting_(at(items.num_ranks)) {}

void ScratchRule::start_item(std::int32_t item) {
    const bool is_first = item_ < 0;
    item_ = item;
    // A set shared by all items is marked once, as item 0.
    if (is_first || items_.contributors.num_rows() != 1)
        for (const std::int32_t rank : items_.contributors_of(at(item)))
            contributes_to_[at(rank)] = items_.contributors.num_rows() == 1 ? 0 : item;
    if (is_first || items_.destinations.num_rows() != 1)
        for (const std::int32_t rank : items_.destinations_of(at(item)))
            needs_[at(rank)] = items_.destinations.num_rows() == 1 ? 0 : item;
}

bool ScratchRule::is_relay(std::int32_t rank) const {
    return contributes_to_[at(rank)] != (items_.contributors.num_rows() == 1 ? 0 : item_) &&
           needs_[at(rank)] != (items_.destinations.num_rows() == 1 ? 0 : item_);
}

void ScratchRule::follow(const ItemSegment& segment) {
    ++num_segments_;
    bool any = false;
    for (const Carrier& carrier : segment.carriers) {
        for (const std::int32_t rank : carrier.targets(carriers_.dst)) {
            if (!is_relay(rank)) continue;
            any = true;
            wait(rank, carriers_.stage[at(carrier.message)], segment);
        }
    }
    if (!any) return;
    for (const Carrier& carrier : segment.carriers)
        for (const std::int32_t rank : carrier.sources(carriers_.src))
            if (waiting_[at(rank)].segment == num_segments_) extend(rank, carriers_.stage[at(carrier.message)]);
}

void ScratchRule::wait(std::int32_t rank, std::int32_t stage, const ItemSegment& segment) {
    if (waiting_[at(rank)].segment == num_segments_) return extend(rank, stage);
    waiting_[at(rank)] = {num_segments_, spans_.size()};
    spans_.rank.push_back(rank);
    spans_.item.push_back(segment.item);
    spans_.first_byte.push_back(segment.first);
    spans_.end_byte.push_back(segment.end);
    spans_.first_stage.push_back(stage);
    spans_.last_stage.push_back(stage);
}

void ScratchRule::extend(std::int32_t rank, std::int32_t stage) {
    const std::size_t span = waiting_[at(rank)].span;
    spans_.first_stage[span] = std::min(spans_.first_stage[span], stage);
    spans_.last_stage[span] = std::max(spans_.last_stage[span], stage);
}

ScratchSpans scratch_spans(const CarrierTable& carriers, const PieceTable& pieces, const ItemTable& items) {
    const std::size_t num_messages = carriers.stage.size();
    carriers.src.check(num_messages, "src");
    carriers.dst.check(num_messages, "dst");
    pieces.check(num_messages);
    items.check();
    check_ends(carriers.src, carriers.dst, items.num_ranks);
    check_pieces(pieces, items);
    std::vector<std::int32_t> sequence(num_messages);
    std::iota(sequence.begin(), sequence.end(), 0);
    MessageTable ends_only;
    ends_only.src = carriers.src;
    ends_only.dst = carriers.dst;
    const CarriedByItem carried(ends_only, pieces, items.size(), sequence);
    Cutter cutter(Cutter::visits_for(num_messages + pieces.size()));
    ScratchRule rule(carriers, items);
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (carried.of(i).empty()) continue;
        const auto item = static_cast<std::int32_t>(i);
        rule.start_item(item);
        require(cutter.cut(carried.of(i), items.size_bytes[i]),
                "pieces overlap in too many ways to list where they wait");
        for (std::size_t s = 0; s < cutter.num_segments(); ++s) rule.follow(cutter.segment(item, s));
    }
    return std::move(rule.spans());
}

}  // namespace interlock
