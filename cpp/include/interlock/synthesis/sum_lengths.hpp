#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// Links with rates between nodes that can all copy and add. Links of one channel share its capacity.
struct SumNetwork {
    std::int32_t num_nodes;
    std::int32_t num_channels;
    std::span<const std::int32_t> src;
    std::span<const std::int32_t> dst;
    std::span<const double> rate;
    std::span<const std::int32_t> channel;
};

/// A bound, and the share of each channel in its proof.
struct SumBound {
    double seconds_per_byte = 0.0;
    std::vector<double> share;  ///< [num_channels], adds up to 1
};

/// A lower bound on the time in which a sum over all nodes can reach all nodes.
///
/// Let link l have the length share(channel) / rate. Some node h is the first to know the sum of a byte; what others
/// sent before holds a tree towards h, and every other node takes in a message after. So each byte fills at least the
/// least length, over all h, of a tree towards h and a shortest link into every other node, and in one second the links
/// offer the length 1. Shares grow where such trees are crowded (mirror ascent), for at most `rounds` rounds, and only
/// as long as they may still prove more than `known` seconds per byte. Zero where some node cannot reach another.
SumBound crowded_sum(const SumNetwork& network, double known, std::int32_t rounds);

}  // namespace interlock
