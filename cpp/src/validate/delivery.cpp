#include "interlock/validate/delivery.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "interlock/arithmetic.hpp"
#include "interlock/validate/causality.hpp"
#include "interlock/validate/holdings.hpp"
#include "interlock/validate/scratch.hpp"
#include "interlock/validate/segments.hpp"

namespace interlock {
namespace {

// Comparisons of messages that no schedule of sense needs, yet linear in its size.
constexpr std::int64_t kFreeSteps = std::int64_t{1} << 27;
constexpr std::int64_t kStepsPerEdge = 64;

/// Remembers what was last followed without fault: bytes of the same goal carried by the same messages fare the same.
/// Chunks that always travel together then cost little more than one of them.
class LastFollowed {
public:
    explicit LastFollowed(const ItemTable& items) : items_(items) {}

    [[nodiscard]] bool is_like(const ItemSegment& segment) const {
        const auto is_same_message = [](const Carrier& carrier, std::int32_t message) {
            return carrier.message == message;
        };
        const std::size_t item = at(segment.item);
        return is_faultless_ && equal(segment.carriers, messages_, is_same_message) &&
               equal(items_.contributors_of(item), items_.contributors_of(item_), std::equal_to<>()) &&
               equal(items_.destinations_of(item), items_.destinations_of(item_), std::equal_to<>());
    }
    void set(const ItemSegment& segment, bool is_faultless) {
        is_faultless_ = is_faultless;
        item_ = at(segment.item);
        messages_.clear();
        for (const Carrier& carrier : segment.carriers) messages_.push_back(carrier.message);
    }

private:
    template <typename A, typename B, typename Same>
    static bool equal(const A& a, const B& b, Same same) {
        return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same);
    }

    const ItemTable& items_;
    bool is_faultless_ = false;
    std::size_t item_ = 0;
    std::vector<std::int32_t> messages_;
};

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
                        std::span<const std::int32_t> sequence, Csr<std::int32_t> link_predecessors,
                        std::uint64_t seed) {
    check_memory(messages, pieces, items, sequence, link_predecessors);
    Delivery result;
    const std::size_t num_rows = messages.size() + pieces.size();
    const std::size_t num_waits = messages.deps.values.size() + link_predecessors.values.size();
    const auto num_edges = static_cast<std::int64_t>(num_rows + num_waits);
    Causality causality(messages, sequence, link_predecessors, kFreeSteps + kStepsPerEdge * num_edges);
    CopyHoldings copies(messages, items, causality, result.found);
    SumHoldings sums(messages, items, causality, result.found, seed);
    const CarriedByItem carried(messages, pieces, items.size(), sequence);
    LastFollowed last(items);
    ScratchRule scratch({messages.src, messages.dst, messages.stage}, items);
    Cutter cutter(Cutter::visits_for(num_rows));
    for (std::size_t i = 0; i < items.size() && !causality.is_exhausted(); ++i) {
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
            const ItemSegment segment = cutter.segment(item, s);
            scratch.follow(segment);
            if (last.is_like(segment)) continue;
            const std::int64_t num_found = result.found.total;
            if (is_sum) {
                sums.follow(segment);
            } else {
                copies.follow(segment);
            }
            last.set(segment, result.found.total == num_found);
        }
    }
    if (causality.is_exhausted()) result.found.add(Rule::within_budget, -1);
    result.scratch_bytes = scratch.spans().high_water(items.num_ranks);
    result.used_fingerprints = sums.used_fingerprints();
    return result;
}

}  // namespace interlock
