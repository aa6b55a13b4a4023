#include "interlock/delivery.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "interlock/causality.hpp"
#include "interlock/holdings.hpp"
#include "interlock/scratch.hpp"
#include "interlock/segments.hpp"

namespace interlock {
namespace {

std::size_t at(std::int32_t id) { return static_cast<std::size_t>(id); }

/// What later steps index with; the meaning of these is check_form's matter.
void check_memory(const MessageTable& messages, const PieceTable& pieces, const ItemTable& items,
                  std::span<const std::int32_t> sequence, const Csr<std::int32_t>& link_predecessors) {
    messages.check();
    pieces.check(messages.size());
    items.check();
    check_ends(messages.src, messages.dst, items.num_ranks);
    check_pieces(pieces, items);
    if (link_predecessors.num_rows() > 0) link_predecessors.check(messages.size(), "link_predecessors");
    const auto num_messages = static_cast<std::int64_t>(messages.size());
    for (const std::int32_t m : messages.deps.values)
        require(m >= 0 && m < num_messages, "every dependency must be a message");
    for (const std::int32_t m : link_predecessors.values)
        require(m >= -1 && m < num_messages, "every link predecessor must be a message or -1");
    require(sequence.size() == messages.size(), "the sequence must list every message once");
    std::vector<bool> is_listed(messages.size(), false);
    for (const std::int32_t m : sequence) {
        require(m >= 0 && m < num_messages && !is_listed[at(m)], "the sequence must list every message once");
        is_listed[at(m)] = true;
    }
}

}  // namespace

Delivery check_delivery(const MessageTable& messages, const PieceTable& pieces, const ItemTable& items,
                        std::span<const std::int32_t> sequence, Csr<std::int32_t> link_predecessors, std::uint64_t seed) {
    check_memory(messages, pieces, items, sequence, link_predecessors);
    Delivery result;
    Causality causality(messages, sequence, link_predecessors);
    CopyHoldings copies(messages, items, causality, result.found);
    SumHoldings sums(messages, items, causality, result.found, seed);
    const CarriedByItem carried(pieces, items.size(), sequence);
    ScratchRule scratch({messages.src, messages.dst, messages.stage}, items);
    Cutter cutter(Cutter::visits_for(messages.size() + pieces.size()));
    for (std::size_t i = 0; i < items.size(); ++i) {
        const auto item = static_cast<std::int32_t>(i);
        if (items.size_bytes[i] == 0) continue;
        if (!cutter.cut(carried.of(i), items.size_bytes[i])) {
            result.found.add(Rule::within_budget, -1, -1, item);
            break;
        }
        const bool is_sum = items.contributors_of(i).size() > 1;
        scratch.start_item(item);
        if (is_sum) sums.start_item(item);
        for (std::size_t s = 0; s < cutter.num_segments(); ++s) {
            const Segment segment = cutter.segment(item, s);
            scratch.follow(segment);
            if (is_sum) {
                sums.follow(segment);
            } else {
                copies.follow(segment);
            }
        }
    }
    if (causality.is_exhausted()) result.found.add(Rule::within_budget, -1);
    result.scratch_bytes = scratch.spans().high_water(items.num_ranks);
    result.used_fingerprints = sums.used_fingerprints();
    return result;
}

}  // namespace interlock
