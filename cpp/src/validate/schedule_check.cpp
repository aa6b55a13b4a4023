#include "interlock/validate/schedule_check.hpp"

#include <utility>

#include "interlock/validate/message_form.hpp"

namespace interlock {

Delivery check_schedule(const MessageTable& messages, const Csr<std::int32_t>& path, std::span<const bool> exclusive,
                        std::span<const std::int64_t> order, const PieceTable& pieces, const ItemTable& items,
                        const LinkTable& links, std::uint64_t seed) {
    Delivery result;
    result.scratch_bytes.assign(static_cast<std::size_t>(items.num_ranks > 0 ? items.num_ranks : 0), 0);
    result.found = check_form(messages, pieces, items);
    if (result.found.total > 0) return result;
    result.found = check_paths(messages, path, links);
    if (result.found.total > 0) return result;
    Ordering ordering = order_messages(messages, {path, exclusive, order, static_cast<std::int32_t>(links.src.size())});
    result.found = std::move(ordering.found);
    if (result.found.total > 0) return result;
    const bool has_link_orders = !ordering.previous_on_link.empty();
    const Csr<std::int32_t> link_predecessors =
        has_link_orders ? Csr<std::int32_t>{path.offsets, ordering.previous_on_link} : Csr<std::int32_t>{};
    return check_delivery(messages, pieces, items, ordering.sequence, link_predecessors, seed);
}

}  // namespace interlock
