#include "interlock/validate/holdings.hpp"

namespace interlock {
namespace {

std::size_t at(std::int32_t id) { return static_cast<std::size_t>(id); }

}  // namespace

CopyHoldings::CopyHoldings(const MessageTable& messages, const ItemTable& items, const Causality& causality,
                           Findings& found)
    : messages_(messages), items_(items), causality_(causality), found_(found), held_(at(items.num_ranks)) {}

void CopyHoldings::follow(const ItemSegment& segment) {
    ++num_segments_;
    const std::int32_t origin = items_.contributors_of(at(segment.item)).front();
    for (const Carrier& carrier : segment.carriers) send(carrier, origin, segment);
    std::size_t num_missing = 0;
    for (const std::int32_t rank : items_.destinations_of(at(segment.item))) {
        if (rank == origin || held_[at(rank)].segment == num_segments_) continue;
        found_.add(Rule::destination_holds, -1, rank, segment.item, segment.first, segment.end);
        if (++num_missing == Findings::kKept) return;  // destinations nobody serves must not cost time
    }
}

void CopyHoldings::send(const Carrier& carrier, std::int32_t origin, const ItemSegment& segment) {
    const auto report = [&](Rule rule, std::int32_t rank) {
        found_.add(rule, carrier.message, rank, segment.item, segment.first, segment.end);
    };
    const auto sources = carrier.sources(messages_.src);
    for (const std::int32_t rank : sources) {
        if (rank == origin) continue;
        const Held& held = held_[at(rank)];
        if (held.segment != num_segments_) {
            report(Rule::held_before_sent, rank);
        } else if (carrier.last_dep != held.writer && !causality_.waits_directly(carrier.message, held.writer)) {
            report(Rule::ordered_after_arrival, rank);
        }
    }
    for (const std::int32_t rank : carrier.targets(messages_.dst)) {
        // With one contributor, any sum of two holders has its contribution twice.
        if (sources.size() > 1) report(Rule::contributes_once, rank);
        Held& held = held_[at(rank)];
        if (rank == origin || held.segment == num_segments_) {
            report(carrier.reduces ? Rule::contributes_once : Rule::arrives_once, rank);
        } else {
            held = {num_segments_, carrier.message};
        }
    }
}

}  // namespace interlock
