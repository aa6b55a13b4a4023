#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "interlock/schedule/rank_rows.hpp"
#include "interlock/schedule/schedule_rows.hpp"
#include "interlock/two_tier/assignment.hpp"
#include "interlock/two_tier/lane_table.hpp"

namespace interlock {

/// A stretch of one tile that goes over the wire in one stage.
struct Segment {
    std::int32_t src_server;
    std::int32_t dst_server;
    std::int32_t stage;
    std::int64_t first_byte;  ///< within the tile
    std::int64_t bytes;
};

/// How the wire is shared between the tiles of a server.
enum class Pace : std::int32_t {
    kBurst = 0,      ///< all at once; the slices of one lane follow each other, large lanes with several in flight
    kExclusive = 1,  ///< every NIC serves one partner at a time, in the order of the segments; links keep that order
    kWindow = 2,     ///< every NIC serves a few partners at a time: a lane waits for an earlier one at either end
};

inline constexpr std::int32_t kEveryone = -1;

/// What going around costs, in bytes that pass in that time: a message, and one whose arrival by link or by NICs is
/// waited for.
struct HopCosts {
    double message_bytes = 0, link_wait_bytes = 0, nic_wait_bytes = 0;
};

/// A two-tier All-to-Allv, decided but not written out.
struct TwoTierPlan {
    std::size_t servers = 0, width = 0;
    std::span<const Segment> segments;  ///< in the order in which they start
    const LaneTable& lanes;
    std::span<const std::int64_t> slice_bytes;  ///< [servers] size of slices of each server's lanes; 0: not sliced
    Pace pace = Pace::kBurst;
    std::int32_t window = 1;      ///< partners that a NIC serves at a time, with Pace::kWindow
    bool has_links = false;       ///< whether each two GPUs of a server have a link of their own
    std::int64_t flow_bytes = 1;  ///< of a lane, for which it has one slice on the wire: flows share ports evenly
    HopCosts hop_costs;
    const Assignment* assignment =
        nullptr;  ///< what takes which NICs, and which bytes inside servers do not go straight
    /// Whose part is wanted, or kEveryone. Then only tiles of its server are cut.
    std::int32_t only_rank = kEveryone;
    std::int64_t typical_lane_bytes = 0;  ///< of the server with the largest average; 0: to be found from the segments
    bool local_waits = false;             ///< whether a GPU sends few messages to its own server at a time

    /// Whether a server's tiles and moves are wanted.
    [[nodiscard]] bool wants(std::size_t server) const {
        if (only_rank == kEveryone) return true;
        const auto rank = static_cast<std::size_t>(only_rank);
        return server * width <= rank && rank < (server + 1) * width;
    }
};

/// Writes out every message and piece: local traffic, balance, wire, redistribution, in this order.
///
/// @param demand_bytes row-major [ranks, ranks]; items are its non-zero entries off the diagonal, row by row
ScheduleRows expand_two_tier(std::span<const std::int64_t> demand_bytes, const TwoTierPlan& plan);

/// The rows of `plan.only_rank` alone. Items are numbered: to rank d as d, from rank s as ranks + s; every piece that
/// is passed on between others, 2 * ranks and more, is one of its own.
RankPart expand_for_rank(std::span<const std::int64_t> demand_bytes, const TwoTierPlan& plan);

/// Slices of what goes around a link inside a server: each hops on when it has come, `kInFlight` on their first hop
/// at once.
std::int32_t relay_slices(std::int64_t bytes, const Route& route, const HopCosts& costs);

/// Slices that a stretch of `lane_bytes` is cut into.
std::int64_t num_slices(std::int64_t lane_bytes, std::int64_t slice_bytes);

/// Where slice `slice` of `count` begins in a stretch of `bytes`; the first and last few are smaller.
std::int64_t slice_start(std::int64_t bytes, std::int64_t slice, std::int64_t count);

}  // namespace interlock
