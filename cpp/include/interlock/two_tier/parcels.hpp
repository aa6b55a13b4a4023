#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "interlock/two_tier/assignment.hpp"
#include "interlock/two_tier/lanes.hpp"

namespace interlock {

/// Writes an assignment out, tile by tile: which bytes of which pair take which lane.
///
/// Where an assignment says only how each rank's bytes divide over NICs, the bytes of a rank in a tile are laid in a
/// line, largest pair first, and the NICs take stretches of it; each end cuts pairs in its own line, so few are cut at
/// all.
class TileParcels {
public:
    TileParcels(std::span<const std::int64_t> demand_bytes, const Assignment& assignment, std::size_t servers,
                std::size_t width);

    /// Fills the lanes of a tile and their loads, both valid until the next call.
    /// @param only_rank of either server; lanes that neither take its NIC nor carry bytes of its own may be missing.
    /// -1: all
    void cut(std::size_t src_server, std::size_t dst_server, std::int32_t only_rank = -1);
    [[nodiscard]] std::span<const Lane> lanes() const { return lanes_; }
    [[nodiscard]] std::span<const LaneLoad> loads() const { return std::span(loads_).first(lanes_.size()); }

private:
    struct Part {
        std::int32_t nic;
        std::int64_t bytes;
    };
    /// Divides what every rank of one end has in the tile over the NICs of its server: per pair, its parts in order.
    /// Which ranks of one server share a NIC with `rank`, or with any bytes of its own.
    void find_sharers(std::size_t rank, bool sends);
    void divide(std::size_t src_server, std::size_t dst_server, bool sends, std::vector<std::vector<Part>>& parts);
    void add(std::int32_t sender, std::int32_t receiver, std::int32_t out, std::int32_t in, std::int64_t offset,
             std::int64_t bytes);

    std::span<const std::int64_t> demand_;
    const Assignment& assignment_;
    std::size_t servers_, width_, ranks_;
    std::vector<std::size_t> first_route_;  // per tile, of `far`
    std::vector<std::vector<Part>> out_parts_, in_parts_;
    std::vector<std::uint8_t> out_wanted_, in_wanted_;        // [width] ranks of either end whose bytes are divided
    std::vector<std::pair<std::int64_t, std::size_t>> line_;  // of one rank: bytes, other end
    std::vector<std::int32_t> lane_of_;                       // [width, width]
    std::vector<Lane> lanes_;
    std::vector<LaneLoad> loads_;
};

}  // namespace interlock
