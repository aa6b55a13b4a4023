#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// Links of any speed between nodes, some of which want every chunk.
struct TimedLinks {
    std::int32_t num_nodes;
    std::span<const std::int32_t> link_src;
    std::span<const std::int32_t> link_dst;
    std::span<const std::int64_t> link_ticks;          ///< how long a chunk holds the link
    std::span<const std::int64_t> link_latency_ticks;  ///< from then until it has arrived
};

struct RandomMatching {
    std::vector<std::int32_t> link;  ///< by start, then by node
    std::vector<std::int32_t> chunk;
    std::vector<std::int64_t> start_ticks;
    std::int64_t makespan_ticks = 0;
};

/// TACOS's matching on a time-expanded network, causally valid.
///
/// At each event every node looks at the chunks it wants and neither has nor is being sent, in random order, and takes
/// each over the fastest free link whose source holds it, any of them where several are.
/// @param origin node that holds each chunk at first
/// @param wanted [num_nodes] whether a node wants the chunks; others take no part
RandomMatching match_randomly(const TimedLinks& links, std::span<const std::int32_t> origin,
                              std::span<const std::uint8_t> wanted, std::uint64_t seed);

}  // namespace interlock
