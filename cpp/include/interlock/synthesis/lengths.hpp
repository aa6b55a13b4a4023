#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// Bytes that must go from node to node, row-major [num_nodes, num_nodes], over links with rates.
struct PairTraffic {
    std::int32_t num_nodes;
    std::span<const std::int32_t> src;
    std::span<const std::int32_t> dst;
    std::span<const double> rate;
    std::span<const double> bytes;
};

/// Lengths of links that make (sum of bytes * distance) / (sum of rate * length) large: a lower bound on the time that
/// the traffic takes, for any lengths. Starts from equal times per byte; in every round all bytes go along shortest
/// ways and links grow longer the fuller they are (multiplicative weights). Links that no way needs may stay short.
std::vector<double> crowded_lengths(const PairTraffic& traffic, std::int32_t rounds);

}  // namespace interlock
