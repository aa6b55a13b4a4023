#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlock {

/// The rules of a schedule, in the order in which they are checked. Python names and words them in this same order.
enum class Rule : std::uint8_t {
    rank_exists,              ///< sources and destinations are ranks of the topology
    ends,                     ///< one source and one destination; several only where the kind allows it
    distinct_ends,            ///< no rank twice among the ends of one message
    known_kind,               ///< copy or reduce, in a known phase
    stage_not_negative,       ///< stages and slices count from 0
    dependency_exists,        ///< dependencies are other messages, strictly ascending
    item_exists,              ///< pieces name items of the problem
    piece_in_item,            ///< pieces are not empty and lie inside their item
    size_covers_pieces,       ///< a message is at least as large as its pieces together
    barriers_ascend,          ///< barriers are strictly ascending
    link_exists,              ///< paths name links of the topology that carry data
    path_connects,            ///< a path leads from the source to the destination, each link once
    tree_connects,            ///< a multicast's (reduction's) links are a tree between its ends
    switch_able,              ///< only switches with the ability copy or add
    exclusive_link,           ///< a link with an exclusive message has only exclusive ones
    link_order,               ///< no two messages share a place in a link's order
    acyclic,                  ///< dependencies, link orders and barriers leave some message that can start
    held_before_sent,         ///< the source holds the bytes
    ordered_after_arrival,    ///< ... and the message directly waits for what brought or changed them
    arrives_once,             ///< no byte is copied to a rank twice, nor to where it started
    contributes_once,         ///< no contribution enters a sum twice
    read_before_overwritten,  ///< what changes bytes waits until earlier readers have sent them
    writes_ordered,           ///< a copy and the other writes to the same bytes are ordered
    destination_holds,        ///< every destination holds every byte at the end
    reduction_complete,       ///< ... and every contribution is in it
    within_budget,            ///< the check itself would cost far more than linear time
};

/// Broken rules. Absent ranks, items and bytes are -1; bytes are a half-open range.
struct Findings {
    static constexpr std::size_t kKept = 100;

    std::vector<std::uint8_t> rule;
    std::vector<std::int64_t> message;
    std::vector<std::int32_t> rank;
    std::vector<std::int32_t> item;
    std::vector<std::int64_t> first_byte;
    std::vector<std::int64_t> end_byte;
    std::int64_t total = 0;  ///< all found, of which the first kKept are described

    void add(Rule broken, std::int64_t in_message, std::int32_t at_rank = -1, std::int32_t of_item = -1,
             std::int64_t first = -1, std::int64_t end = -1) {
        ++total;
        if (rule.size() >= kKept) return;
        rule.push_back(static_cast<std::uint8_t>(broken));
        message.push_back(in_message);
        rank.push_back(at_rank);
        item.push_back(of_item);
        first_byte.push_back(first);
        end_byte.push_back(end);
    }
    [[nodiscard]] bool has(Rule broken) const {
        return std::find(rule.begin(), rule.end(), static_cast<std::uint8_t>(broken)) != rule.end();
    }
};

}  // namespace interlock
