#include "interlock/validate/message_form.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace interlock {
namespace {

class FormCheck {
public:
    FormCheck(const MessageTable& messages, const PieceTable& pieces, const ItemTable& items)
        : messages_(messages), pieces_(pieces), items_(items), seen_by_(at(items.num_ranks), -1) {}

    Findings run() {
        for (std::size_t k = 1; k < messages_.barriers.size(); ++k)
            if (messages_.barriers[k] <= messages_.barriers[k - 1]) found_.add(Rule::barriers_ascend, -1);
        for (std::size_t m = 0; m < messages_.size(); ++m) {
            check_ends(m);
            check_dependencies(m);
            check_pieces(m);
        }
        return std::move(found_);
    }

private:
    void check_ends(std::size_t m) {
        const auto id = static_cast<std::int64_t>(m);
        const auto src = messages_.src[m];
        const auto dst = messages_.dst[m];
        const std::uint8_t kind = messages_.kind[m];
        if (kind > kWait || messages_.phase[m] > kLastPhase) found_.add(Rule::known_kind, id);
        if (messages_.stage[m] < 0 || messages_.slice[m] < 0) found_.add(Rule::stage_not_negative, id);
        if (kind == kWait) return check_wait(m);
        if (src.empty() || dst.empty() || (src.size() > 1 && kind != kReduce) || (dst.size() > 1 && kind != kCopy))
            found_.add(Rule::ends, id);
        for (const auto ends : {src, dst}) {
            for (const std::int32_t rank : ends) {
                if (rank < 0 || rank >= items_.num_ranks) {
                    found_.add(Rule::rank_exists, id, rank);
                } else if (seen_by_[at(rank)] == id) {
                    found_.add(Rule::distinct_ends, id, rank);
                } else {
                    seen_by_[at(rank)] = id;
                }
            }
        }
    }

    /// A row that carries nothing is at one rank.
    void check_wait(std::size_t m) {
        const auto id = static_cast<std::int64_t>(m);
        const auto src = messages_.src[m];
        const auto dst = messages_.dst[m];
        if (src.size() != 1 || dst.size() != 1 || src.front() != dst.front()) return found_.add(Rule::ends, id);
        if (src.front() < 0 || src.front() >= items_.num_ranks) found_.add(Rule::rank_exists, id, src.front());
        if (messages_.size_bytes[m] != 0) found_.add(Rule::size_covers_pieces, id);
    }

    void check_dependencies(std::size_t m) {
        std::int64_t previous = -1;
        for (const std::int64_t dependency : messages_.deps[m]) {
            if (dependency <= previous || dependency >= static_cast<std::int64_t>(messages_.size()) ||
                dependency == static_cast<std::int64_t>(m)) {
                found_.add(Rule::dependency_exists, static_cast<std::int64_t>(m));
                return;
            }
            previous = dependency;
        }
    }

    void check_pieces(std::size_t m) {
        const auto id = static_cast<std::int64_t>(m);
        const auto first = at(pieces_.offsets[m]);
        const auto end = at(pieces_.offsets[m + 1]);
        std::uint64_t carried = 0;  // saturates: sums beyond 2^63 are larger than any message
        for (std::size_t p = first; p < end; ++p) {
            const std::int32_t item = pieces_.item[p];
            const std::int64_t offset = pieces_.offset[p];
            const std::int64_t length = pieces_.length[p];
            if (item < 0 || at(item) >= items_.size()) {
                found_.add(Rule::item_exists, id, -1, item);
                continue;
            }
            const std::int64_t size = items_.size_bytes[at(item)];
            if (offset < 0 || length <= 0 || offset > size || length > size - offset) {
                const bool fits = length <= 0 || offset <= std::numeric_limits<std::int64_t>::max() - length;
                found_.add(Rule::piece_in_item, id, -1, item, offset, fits ? offset + length : offset);
                continue;
            }
            carried = std::min(carried + static_cast<std::uint64_t>(length), kTooLarge);
        }
        if (messages_.size_bytes[m] < 0 || carried > static_cast<std::uint64_t>(messages_.size_bytes[m]))
            found_.add(Rule::size_covers_pieces, id);
    }

    static constexpr std::uint64_t kTooLarge = std::uint64_t{1} << 63;

    const MessageTable& messages_;
    const PieceTable& pieces_;
    const ItemTable& items_;
    std::vector<std::int64_t> seen_by_;  // the last message that named each rank
    Findings found_;
};

}  // namespace

Findings check_form(const MessageTable& messages, const PieceTable& pieces, const ItemTable& items) {
    messages.check();
    pieces.check(messages.size());
    items.check();
    return FormCheck(messages, pieces, items).run();
}

}  // namespace interlock
