#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// Links between nodes that all want every chunk; each link carries one chunk per round.
struct MatchGraph {
    std::int32_t num_nodes;
    std::int32_t num_chunks;
    std::span<const std::int32_t> link_src;
    std::span<const std::int32_t> link_dst;
};

/// Who holds what. Owned by the caller, so that a long run can stop between calls and go on.
struct Holdings {
    std::span<std::uint64_t> held;     ///< [num_nodes, words], words = ceil(num_chunks / 64)
    std::span<std::uint32_t> holders;  ///< [num_chunks] how many nodes hold each chunk
    std::span<std::int32_t> missing;   ///< [num_nodes] how many chunks each node lacks
};

struct MatchOptions {
    std::int32_t candidates;   ///< chunks looked at per link and round; the rarest of them is sent
    std::int64_t first_round;  ///< number of the first round, so that choices differ from call to call
    std::uint64_t seed;
    std::int32_t threads;      ///< any number gives the same result
};

/// Fills rows of `table` ([rounds, links], the largest number of the type where a link rests) until it is full or no
/// node lacks anything; returns the rows filled.
///
/// In each round every node picks, for each link into it, a chunk that the far end holds and the node lacks and that
/// no other of its links brings in the same round.
template <typename Slot>
std::size_t match_rounds(const MatchGraph& graph, const Holdings& holdings, const MatchOptions& options,
                         std::span<Slot> table);

extern template std::size_t match_rounds<std::uint16_t>(const MatchGraph&, const Holdings&, const MatchOptions&,
                                                        std::span<std::uint16_t>);
extern template std::size_t match_rounds<std::uint32_t>(const MatchGraph&, const Holdings&, const MatchOptions&,
                                                        std::span<std::uint32_t>);

}  // namespace interlock
