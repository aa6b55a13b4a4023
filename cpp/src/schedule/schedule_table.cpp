#include "interlock/schedule/schedule_table.hpp"

#include <limits>

#include "interlock/errors.hpp"
#include "interlock/limits.hpp"

namespace interlock {

void MessageTable::check() const {
    const std::size_t n = kind.size();
    require(n < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()), "at most 2^31 - 2 messages");
    src.check(n, "src");
    dst.check(n, "dst");
    deps.check(n, "deps");
    require(phase.size() == n && stage.size() == n && slice.size() == n && size_bytes.size() == n,
            "message columns must have equal length");
}

void PieceTable::check(std::size_t num_messages) const {
    Csr<std::int32_t>{offsets, item}.check(num_messages, "pieces");
    require(offset.size() == item.size() && length.size() == item.size(), "piece columns must have equal length");
}

void ItemTable::check() const {
    require(num_ranks > 0 && num_ranks <= kMostNodes, "num_ranks must be between 1 and 1,000,000");
    require(size() < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()), "at most 2^31 - 2 items");
    contributors.check(contributors.num_rows() == 1 ? 1 : size(), "contributors");
    destinations.check(destinations.num_rows() == 1 ? 1 : size(), "destinations");
    for (const std::int64_t bytes : size_bytes) require(bytes >= 0, "item sizes must not be negative");
    require_ids(contributors.values, num_ranks, "every contributor must be a rank of the topology");
    require_ids(destinations.values, num_ranks, "every destination must be a rank of the topology");
    for (std::size_t row = 0; row < contributors.num_rows(); ++row)
        require(!contributors[row].empty(), "every item must have a contributor");
}

void check_ends(const Csr<std::int32_t>& src, const Csr<std::int32_t>& dst, std::int32_t num_ranks) {
    for (const auto& ends : {src, dst}) {
        require_ids(ends.values, num_ranks, "every end must be a rank");
        for (std::size_t m = 0; m < ends.num_rows(); ++m)
            require(!ends[m].empty(), "every message must have a source and a destination");
    }
}

void check_pieces(const PieceTable& pieces, const ItemTable& items) {
    for (std::size_t p = 0; p < pieces.size(); ++p) {
        const auto item = static_cast<std::size_t>(pieces.item[p]);
        require(pieces.item[p] >= 0 && item < items.size(), "every piece must name an item");
        const std::int64_t size = items.size_bytes[item];
        require(pieces.offset[p] >= 0 && pieces.length[p] > 0 && pieces.offset[p] <= size &&
                    pieces.length[p] <= size - pieces.offset[p],
                "every piece must lie inside its item");
    }
}

}  // namespace interlock
