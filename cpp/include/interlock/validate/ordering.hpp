#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/schedule/schedule_table.hpp"
#include "interlock/validate/findings.hpp"

namespace interlock {

/// How messages claim links: message m uses the links path[m]; if exclusive, alone, at place order[m] of each link's
/// order.
struct LinkClaims {
    Csr<std::int32_t> path;
    std::span<const bool> exclusive;
    std::span<const std::int64_t> order;
    std::int32_t num_links;

    void check(std::size_t num_messages) const;
};

struct Ordering {
    std::vector<std::int32_t> sequence;  ///< messages so that each comes after all it waits for; empty if cyclic
    std::vector<std::int32_t> previous_on_link;  ///< beside path.values: the message before this one there, or -1;
                                                 ///< empty if no message is exclusive
    Findings found;
};

/// Finds an order of the messages that honours dependencies, link orders and barriers, and checks the link orders.
/// Needs messages without findings of check_form. Linear, but for sorting links whose messages are not listed in order.
Ordering order_messages(const MessageTable& messages, const LinkClaims& claims);

}  // namespace interlock
