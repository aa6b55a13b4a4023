#include "interlock/schedule/aligned_cuts.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "interlock/errors.hpp"

namespace interlock {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 62U;
constexpr std::int64_t kVectorBytes = 16;  // the most that one load or store of a GPU's thread moves

struct Cut {
    std::int32_t item;
    std::int64_t at;
    auto operator<=>(const Cut&) const = default;
};

std::vector<Cut> find_cuts(const MessagePieces& messages) {
    std::vector<Cut> cuts;
    cuts.reserve(2 * messages.item.size());
    for (std::size_t p = 0; p < messages.item.size(); ++p) {
        cuts.push_back({messages.item[p], messages.offset[p]});
        cuts.push_back({messages.item[p], messages.offset[p] + messages.length[p]});
    }
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    return cuts;
}

/// Where a cut moves to, strictly between its neighbours: the one before where it is now, the one after where it was.
std::int64_t moved(std::int64_t at, std::int64_t before, std::int64_t after, std::int64_t align) {
    for (const std::int64_t step : {align, kVectorBytes}) {
        const std::int64_t below = at / step * step, above = below + step;
        const bool is_below_nearer = at - below <= above - at;
        for (const std::int64_t to : {is_below_nearer ? below : above, is_below_nearer ? above : below}) {
            if (before < to && to < after) return to;
        }
    }
    return at;
}

}  // namespace

void align_cuts(const MessagePieces& messages, std::int64_t align) {
    const std::size_t pieces = messages.item.size(), count = messages.size_bytes.size();
    require(align >= 1 && align < std::int64_t{1} << 32U, "align must be between 1 and 2^32");
    require(messages.offset.size() == pieces && messages.length.size() == pieces &&
                messages.piece_offsets.size() == count + 1,
            "every piece must have an item, offset and length");
    for (std::size_t p = 0; p < pieces; ++p) {
        require(messages.offset[p] >= 0 && messages.length[p] >= 0 && messages.offset[p] <= kMostBytes &&
                    messages.length[p] <= kMostBytes - messages.offset[p],
                "pieces must lie between 0 and 2^62");
    }
    for (const std::int64_t bytes : messages.size_bytes) {
        require(bytes >= 0 && bytes <= kMostBytes, "messages must have between 0 and 2^62 bytes");
    }
    if (align == 1) return;
    const std::vector<Cut> cuts = find_cuts(messages);
    std::vector<std::int64_t> place(cuts.size());
    for (std::size_t c = 0; c < cuts.size(); ++c) {
        const bool is_first = c == 0 || cuts[c - 1].item != cuts[c].item;
        const bool is_last = c + 1 == cuts.size() || cuts[c + 1].item != cuts[c].item;
        place[c] = is_first || is_last ? cuts[c].at : moved(cuts[c].at, place[c - 1], cuts[c + 1].at, align);
    }
    const auto place_of = [&](std::int32_t item, std::int64_t at) {
        return place[static_cast<std::size_t>(std::ranges::lower_bound(cuts, Cut{item, at}) - cuts.begin())];
    };
    for (std::size_t m = 0; m < count; ++m) {
        for (auto p = static_cast<std::size_t>(messages.piece_offsets[m]);
             p < static_cast<std::size_t>(messages.piece_offsets[m + 1]); ++p) {
            const std::int64_t start = place_of(messages.item[p], messages.offset[p]);
            const std::int64_t bytes = place_of(messages.item[p], messages.offset[p] + messages.length[p]) - start;
            messages.size_bytes[m] += bytes - messages.length[p];
            messages.offset[p] = start;
            messages.length[p] = bytes;
        }
    }
}

}  // namespace interlock
