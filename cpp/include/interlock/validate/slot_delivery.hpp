#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/csr.hpp"
#include "interlock/validate/findings.hpp"

namespace interlock {

/// Chunks to be copied over a graph: where each starts and where it must be in the end.
struct ChunkGoal {
    std::span<const std::int32_t> origin;  ///< [num_chunks]
    Csr<std::int32_t> destinations;        ///< one row per chunk, or one row for all
    std::span<const std::int32_t> link_src;
    std::span<const std::int32_t> link_dst;
    std::int32_t num_nodes;

    void check() const;
};

struct SlotCheck {
    Findings found;
    std::int64_t num_transfers = 0;
};

/// Checks a table of chunks by slot and link: in slot s, link l carries table[s * num_links + l], where the largest
/// number of the type means nothing. All links take one slot. A node must hold a chunk before the slot in which it
/// sends it, must not receive it twice, and in the end all destinations hold theirs. Rows are read once, in order (a
/// mapped file streams); beside the table this keeps one bit per node and chunk.
///
/// A reduction is checked by its reversal, a spreading of chunks: if every node is reached exactly once from where the
/// sum ends, every contribution enters the sum exactly once.
/// @param is_reversed read the slots from last to first and every link from its end to its beginning
/// Findings give the place in the table as the message, the node as the rank and the chunk as the item.
template <typename Chunk>
SlotCheck check_slot_table(std::span<const Chunk> table, const ChunkGoal& goal, bool is_reversed);

/// Where the sum of each chunk ends, if all nodes below num_ranks contribute: the one that never sends it; -1 if there
/// is no such one.
template <typename Chunk>
std::vector<std::int32_t> slot_table_roots(std::span<const Chunk> table, std::span<const std::int32_t> link_src,
                                           std::size_t num_chunks, std::int32_t num_ranks);

}  // namespace interlock
