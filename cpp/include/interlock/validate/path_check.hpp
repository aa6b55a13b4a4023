#pragma once

#include <cstdint>
#include <span>

#include "interlock/csr.hpp"
#include "interlock/schedule/schedule_table.hpp"
#include "interlock/validate/findings.hpp"

namespace interlock {

/// A directed graph; nodes 0 .. num_ranks - 1 are the ranks.
struct LinkTable {
    std::span<const std::int32_t> src;
    std::span<const std::int32_t> dst;
    std::span<const bool> carries_data;  ///< false: the link is there but dead
    std::span<const bool> multicasts;    ///< by node: may send what comes in on several links
    std::span<const bool> reduces;       ///< by node: may add what comes in on several links

    std::int32_t num_ranks;

    [[nodiscard]] std::size_t num_nodes() const { return multicasts.size(); }
    void check() const;
};

/// Checks that each message's links lead from its source to its destination, or, for several ends, are a tree between
/// them that branches only at switches able to copy (or, towards a reduction's destination, to add). No path leads
/// through a rank: a relay needs a message of its own. An empty path between two ranks is left to the topology.
/// Needs messages without findings of check_form.
Findings check_paths(const MessageTable& messages, const Csr<std::int32_t>& path, const LinkTable& links);

}  // namespace interlock
