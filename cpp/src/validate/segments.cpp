#include "interlock/validate/segments.hpp"

#include <algorithm>
#include <numeric>

#include "interlock/arithmetic.hpp"

namespace interlock {
CarriedByItem::CarriedByItem(const MessageTable& messages, const PieceTable& pieces, std::size_t num_items,
                             std::span<const std::int32_t> sequence)
    : first_(num_items + 1, 0), carried_(pieces.size()) {
    for (const std::int32_t item : pieces.item) ++first_[at(item) + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    std::vector<std::int64_t> next = first_;
    const auto only = [](std::span<const std::int32_t> ends) {
        return ends.size() == 1 ? ends.front() : Carrier::kSeveral;
    };
    for (const std::int32_t message : sequence) {
        const std::size_t m = at(message);
        const auto deps = messages.deps.num_rows() > 0 ? messages.deps[m] : std::span<const std::int32_t>{};
        const Carrier carrier{message, only(messages.src[m]), only(messages.dst[m]), deps.empty() ? -1 : deps.back(),
                              !messages.kind.empty() && messages.kind[m] == kReduce};
        const auto end = static_cast<std::size_t>(pieces.offsets[m + 1]);
        for (auto p = static_cast<std::size_t>(pieces.offsets[m]); p < end; ++p) {
            const auto slot = static_cast<std::size_t>(next[at(pieces.item[p])]++);
            carried_[slot] = {pieces.offset[p], pieces.offset[p] + pieces.length[p], carrier};
        }
    }
}

bool Cutter::cut(std::span<const Carried> carried, std::int64_t size) {
    cuts_.assign({0, size});
    for (const Carried& part : carried) {
        if (part.first != 0) cuts_.push_back(part.first);
        if (part.end != size) cuts_.push_back(part.end);
    }
    first_carrier_.assign(cuts_.size(), 0);
    if (cuts_.size() == 2) {  // every piece is the whole item, as in most collectives
        visits_left_ -= static_cast<std::int64_t>(carried.size());
        if (visits_left_ < 0) return false;
        first_carrier_[1] = carried.size();
        carriers_.resize(carried.size());
        for (std::size_t k = 0; k < carried.size(); ++k) carriers_[k] = carried[k].carrier;
        return true;
    }
    std::sort(cuts_.begin(), cuts_.end());
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
    first_carrier_.resize(cuts_.size());
    for (const Carried& part : carried) {
        const auto [first, end] = segments_of(part);
        visits_left_ -= static_cast<std::int64_t>(end - first);
        if (visits_left_ < 0) return false;
        for (std::size_t s = first; s < end; ++s) ++first_carrier_[s + 1];
    }
    std::partial_sum(first_carrier_.begin(), first_carrier_.end(), first_carrier_.begin());
    carriers_.resize(first_carrier_.back());
    next_.assign(first_carrier_.begin(), first_carrier_.end());
    for (const Carried& part : carried) {
        const auto [first, end] = segments_of(part);
        for (std::size_t s = first; s < end; ++s) carriers_[next_[s]++] = part.carrier;
    }
    return true;
}

Cutter::Range Cutter::segments_of(const Carried& part) const {
    const auto first = std::lower_bound(cuts_.begin(), cuts_.end(), part.first);
    const auto end = std::lower_bound(first, cuts_.end(), part.end);
    return {static_cast<std::size_t>(first - cuts_.begin()), static_cast<std::size_t>(end - cuts_.begin())};
}

}  // namespace interlock
