#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/csr.hpp"

namespace interlock {

/// A graph for synthesis: arcs between nodes, each holding some resources (links, ports) while it sends.
///
/// A message of `bytes` takes `overhead_ticks + bytes * ticks_per_byte`, and of that time each resource for the part
/// that `arc_shares` says: a link four times as fast as the message has time for three others meanwhile.
struct ArcGraph {
    std::int32_t num_nodes;
    std::int32_t num_resources;
    std::span<const std::int32_t> arc_src;
    std::span<const std::int32_t> arc_dst;
    Csr<std::int32_t> arc_resources;
    std::span<const std::int64_t> overhead_ticks;
    std::span<const double> ticks_per_byte;
    Csr<double> arc_shares;  ///< of each of arc_resources, above 0 and at most 1

    [[nodiscard]] std::size_t num_arcs() const { return arc_src.size(); }
    /// What an arc's shares of its resources cost.
    [[nodiscard]] double held_at(std::size_t arc, std::span<const double> price) const {
        const std::span<const std::int32_t> resources = arc_resources[arc];
        const std::span<const double> shares = arc_shares[arc];
        double sum = 0.0;
        for (std::size_t i = 0; i < resources.size(); ++i) sum += price[at(resources[i])] * shares[i];
        return sum;
    }
    /// Adds the time that an arc's resources are held while it sends for so long.
    void hold(std::size_t arc, double ticks, std::span<double> load) const {
        const std::span<const std::int32_t> resources = arc_resources[arc];
        const std::span<const double> shares = arc_shares[arc];
        for (std::size_t i = 0; i < resources.size(); ++i) load[at(resources[i])] += ticks * shares[i];
    }
    /// Throws InvalidInput unless every id is in range and no time is negative.
    void check() const;
    /// Throws InvalidInput where so many bytes over the slowest arc could overflow a count of ticks.
    void check_load(double most_bytes) const;
};

/// Arc ids grouped by one of their ends, ascending within a node.
using Adjacency = Rows<std::int32_t>;
inline Adjacency arcs_by_end(std::int32_t num_nodes, std::span<const std::int32_t> end) {
    return places_by_key(at(num_nodes), end);
}

/// A number below `count` (at most 2^32) from a scrambled one, without dividing.
inline std::size_t below(std::uint64_t scrambled, std::size_t count) { return at(((scrambled >> 32) * count) >> 32); }

/// Visits 0 .. count - 1 in an order that depends on `seed`: a stride that shares no factor with `count`.
class Shuffle {
public:
    Shuffle(std::size_t count, std::uint64_t seed);
    [[nodiscard]] std::size_t operator[](std::size_t step) const { return (offset_ + step * stride_) % count_; }

private:
    std::size_t count_, offset_, stride_;
};

}  // namespace interlock
