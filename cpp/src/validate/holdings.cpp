#include "interlock/validate/holdings.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "interlock/arithmetic.hpp"
#include "interlock/validate/delivery.hpp"

namespace interlock {
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

SumHoldings::SumHoldings(const MessageTable& messages, const ItemTable& items, Causality& causality, Findings& found,
                         std::uint64_t seed)
    : messages_(messages),
      items_(items),
      causality_(causality),
      found_(found),
      seed_(scramble(seed)),
      members_(at(items.num_ranks)),
      holdings_(at(items.num_ranks)) {}

void SumHoldings::start_item(std::int32_t item) {
    if (item_serial_ >= 0 && items_.contributors.num_rows() == 1) return;  // shared by all items
    item_serial_ = item;
    const auto contributors = items_.contributors_of(at(item));
    is_exact_ = contributors.size() <= kExactContributors;
    used_fingerprints_ |= !is_exact_;
    num_words_ = is_exact_ ? (contributors.size() + 63) / 64 : 3;
    num_words_ = std::max<std::size_t>(num_words_, 1);
    sums_.resize(std::max(sums_.size(), holdings_.size() * num_words_));
    switch_sum_.assign(num_words_, 0);
    complete_.assign(num_words_, 0);
    std::int32_t index = 0;
    for (const std::int32_t rank : contributors) {
        members_[at(rank)] = {item_serial_, index++};
        add_own(rank, complete_);
    }
}

void SumHoldings::follow(const ItemSegment& segment) {
    ++num_segments_;
    notes_.clear();
    for (const Carrier& carrier : segment.carriers) send(carrier, segment);
    check_destinations(segment);
}

void SumHoldings::send(const Carrier& carrier, const ItemSegment& segment) {
    const std::int32_t message = carrier.message;
    const auto sources = carrier.sources(messages_.src);
    const auto targets = carrier.targets(messages_.dst);
    for (const std::int32_t rank : sources) {
        if (holding(rank).is_held) {
            read(rank, message, segment);
        } else {
            found_.add(Rule::held_before_sent, message, rank, segment.item, segment.first, segment.end);
        }
    }
    // What nobody holds is an empty sum, so a source that holds nothing adds nothing.
    Sum arriving = sum_of(sources.front());
    if (sources.size() > 1) {
        std::copy(arriving.begin(), arriving.end(), switch_sum_.begin());
        for (const std::int32_t rank : sources.subspan(1)) {
            if (overlap(switch_sum_, sum_of(rank)))
                found_.add(Rule::contributes_once, message, targets.front(), segment.item, segment.first, segment.end);
            add(switch_sum_, sum_of(rank));
        }
        arriving = switch_sum_;
    }
    for (const std::int32_t rank : targets) {
        check_readers(rank, carrier, arriving, segment);
        if (carrier.reduces) {
            reduce_into(rank, message, arriving, segment);
        } else {
            copy_into(rank, message, arriving, segment);
        }
    }
}

void SumHoldings::read(std::int32_t rank, std::int32_t message, const ItemSegment& segment) {
    Holding& held = holding(rank);
    if (held.writers >= 0 && !causality_.is_behind_barrier(message, held.last_writer_stage)) {
        // Writers come latest first, which is mostly descending, so one walk down the dependencies meets most of them.
        const auto deps = causality_.deps(message);
        std::size_t left = deps.size();
        for (std::int32_t k = held.writers; k >= 0 && causality_.may_step(); k = notes_[at(k)].next) {
            const std::int32_t writer = notes_[at(k)].message;
            while (left > 0 && deps[left - 1] > writer) --left;
            if ((left > 0 && deps[left - 1] == writer) || causality_.waits_directly(message, writer)) continue;
            found_.add(Rule::ordered_after_arrival, message, rank, segment.item, segment.first, segment.end);
            break;
        }
    }
    held.num_unread_writers = 0;
    held.readers = note(message, held.readers);
    ++held.num_readers;
}

void SumHoldings::check_readers(std::int32_t rank, const Carrier& carrier, Sum arriving, const ItemSegment& segment) {
    const std::int32_t message = carrier.message;
    const Holding& held = holding(rank);
    if (held.num_readers == 0) return;
    // A rank's own contribution leaves it only through its readers, and every step of its way waits for the one before.
    // So where it comes back in a copy and there was one reader, that reader has arrived long since.
    const bool comes_back = !carrier.reduces && held.num_readers == 1 && held.copied_by < 0 && is_contributor(rank) &&
                            surely_contains(arriving, rank);
    if (comes_back) return;
    for (std::int32_t k = held.readers; k >= 0; k = notes_[at(k)].next) {
        if (causality_.starts_after_sending(message, notes_[at(k)].message)) continue;
        if (causality_.is_exhausted()) return;
        found_.add(Rule::read_before_overwritten, message, rank, segment.item, segment.first, segment.end);
        return;
    }
}

void SumHoldings::copy_into(std::int32_t rank, std::int32_t message, Sum arriving, const ItemSegment& segment) {
    Holding& held = holding(rank);
    if (held.copied_by >= 0) found_.add(Rule::arrives_once, message, rank, segment.item, segment.first, segment.end);
    // Writers that a reader waited for are done before that reader; the others must not land on top of the copy.
    std::int32_t k = held.writers;
    for (std::int32_t unread = held.num_unread_writers; unread > 0; --unread, k = notes_[at(k)].next) {
        if (causality_.starts_after_arrival(message, notes_[at(k)].message)) continue;
        if (causality_.is_exhausted()) break;
        found_.add(Rule::writes_ordered, message, rank, segment.item, segment.first, segment.end);
        break;
    }
    std::copy(arriving.begin(), arriving.end(), sum_of(rank).begin());
    held.is_held = true;
    held.copied_by = message;
    held.writers = note(message, -1);
    held.num_unread_writers = 1;
    held.last_writer_stage = causality_.stage(message);
    held.readers = -1;
    held.num_readers = 0;
}

void SumHoldings::reduce_into(std::int32_t rank, std::int32_t message, Sum arriving, const ItemSegment& segment) {
    Holding& held = holding(rank);
    if (overlap(arriving, sum_of(rank)))
        found_.add(Rule::contributes_once, message, rank, segment.item, segment.first, segment.end);
    if (held.copied_by >= 0 && !causality_.starts_after_arrival(message, held.copied_by) && !causality_.is_exhausted())
        found_.add(Rule::writes_ordered, message, rank, segment.item, segment.first, segment.end);
    add(sum_of(rank), arriving);
    // The messages act in an order that honours barriers: who is behind one after this writer is behind it after all.
    held.last_writer_stage = causality_.stage(message);
    held.is_held = true;
    held.writers = note(message, held.writers);
    ++held.num_unread_writers;
}

void SumHoldings::check_destinations(const ItemSegment& segment) {
    std::size_t num_missing = 0;
    for (const std::int32_t rank : items_.destinations_of(at(segment.item))) {
        const bool is_held = holding(rank).is_held;
        if (is_held && std::equal(complete_.begin(), complete_.end(), sum_of(rank).begin())) continue;
        found_.add(is_held ? Rule::reduction_complete : Rule::destination_holds, -1, rank, segment.item, segment.first,
                   segment.end);
        if (++num_missing == Findings::kKept) return;  // destinations nobody serves must not cost time
    }
}

SumHoldings::Holding& SumHoldings::holding(std::int32_t rank) {
    Holding& held = holdings_[at(rank)];
    if (held.segment == num_segments_) return held;
    held = {};
    held.segment = num_segments_;
    held.is_held = is_contributor(rank);
    const auto sum = sum_of(rank);
    std::fill(sum.begin(), sum.end(), 0);
    if (held.is_held) add_own(rank, sum);
    return held;
}

std::span<std::uint64_t> SumHoldings::sum_of(std::int32_t rank) {
    return std::span(sums_).subspan(at(rank) * num_words_, num_words_);
}

bool SumHoldings::is_contributor(std::int32_t rank) const { return members_[at(rank)].item_serial == item_serial_; }

void SumHoldings::add_own(std::int32_t rank, std::span<std::uint64_t> sum) const {
    const auto index = static_cast<std::uint64_t>(members_[at(rank)].index);
    if (is_exact_) {
        sum[index / 64] |= std::uint64_t{1} << (index % 64);
    } else {
        sum[0] += scramble(seed_ ^ (2 * index));
        sum[1] += scramble(seed_ ^ (2 * index + 1));
        ++sum[2];
    }
}

bool SumHoldings::overlap(Sum a, Sum b) const {
    // Below that number a doubled contribution shows in the fingerprint of the end result.
    if (!is_exact_) return a[2] > complete_[2] || b[2] > complete_[2] - a[2];
    std::uint64_t shared = 0;
    for (std::size_t w = 0; w < a.size(); ++w) shared |= a[w] & b[w];
    return shared != 0;
}

void SumHoldings::add(std::span<std::uint64_t> into, Sum sum) const {
    if (is_exact_) {
        for (std::size_t w = 0; w < into.size(); ++w) into[w] |= sum[w];
    } else {
        for (std::size_t w = 0; w < 2; ++w) into[w] += sum[w];
        // Fingerprints wrap around, so that 2^64 times a contribution looks like none of it. The count stays at its
        // end.
        into[2] = into[2] + sum[2] < into[2] ? std::numeric_limits<std::uint64_t>::max() : into[2] + sum[2];
    }
}

bool SumHoldings::surely_contains(Sum sum, std::int32_t rank) const {
    if (!is_exact_) return std::equal(sum.begin(), sum.end(), complete_.begin());
    const auto index = at(members_[at(rank)].index);
    return (sum[index / 64] >> (index % 64)) & 1;
}

std::int32_t SumHoldings::note(std::int32_t message, std::int32_t next) {
    notes_.push_back({message, next});
    return static_cast<std::int32_t>(notes_.size()) - 1;
}

}  // namespace interlock
