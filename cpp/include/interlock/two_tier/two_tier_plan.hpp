#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/simulate/flow_sim.hpp"
#include "interlock/two_tier/nic_targets.hpp"
#include "interlock/two_tier/stages.hpp"
#include "interlock/two_tier/two_tier_expand.hpp"

namespace interlock {

/// What planning knows of a cluster besides its ports.
struct TwoTierCosts {
    double scale_up_latency_s = 0, scale_out_latency_s = 0;
    double message_overhead_s = 0;  ///< holds the sending port, per message
    double stage_overhead_s = 0;    ///< when a rank starts a stage
    std::int32_t fan_in = 0;        ///< senders that a receiver tolerates; 0: any number
    Congestion congestion;          ///< what a receiver loses to more
};

/// How the bytes between servers travel.
enum class Way : std::int32_t {
    kDirect = 0,  ///< every pair on its own, all at once
    kBurst = 1,   ///< balanced over the NICs of each server, all at once
    kStaged = 2,  ///< balanced, every NIC with one partner at a time, or as many as the fabric tolerates
    kDetour = 3,  ///< every pair on its own, all at once, but for what other NICs of the server must take over
};
inline constexpr std::size_t kNumWays = 4;

/// Where a price comes from.
enum class Basis : std::int32_t {
    kSummed = 0,   ///< what ports are busy for
    kRun = 1,      ///< the messages themselves, in the simulator
    kInTurns = 2,  ///< the same in a timetable, which is exact
};

/// How the routes of a detour are cut that has turns; nothing: as lanes whose slices share messages.
struct PieceBytes {
    std::int64_t wire = 0, hop = 0;  ///< of what takes NICs, and of what does not
};

/// A decided plan; `DecidedPlan` is what `expand_two_tier` writes out.
struct TwoTierDecision {
    std::size_t servers = 0, width = 0;
    Way way = Way::kDirect;
    double predicted_s[kNumWays] = {};
    Basis basis[kNumWays] = {};
    double least_s[kNumWays] = {};  ///< of ways that were left out, since they could not take less
    std::vector<Segment> segments;  ///< of a staged plan; otherwise every tile is one segment
    NicTargets targets;
    std::vector<std::int64_t> slice_bytes;  ///< [servers]
    std::int32_t num_stages = 1;
    std::int32_t num_rounds = 1;  ///< parts of the traffic between which scratch is emptied
    Pace pace = Pace::kBurst;
    std::int32_t window = 1;
    bool has_links = false;
    std::vector<std::int64_t> tile_bytes;  ///< [servers, servers], or empty: to be summed again
    Assignment assignment;  ///< of a detour all of it; of others what does not go straight inside servers
    std::int64_t flow_bytes = 1;
    HopCosts hop_costs;
    std::int64_t pair_bytes = 1;      ///< of an average pair between servers, out of the server where that is most
    PieceBytes pieces;                ///< with turns
    std::vector<std::int64_t> turns;  ///< per message its place in a timetable; empty: ports are shared
};

/// A decision with the tiles and lanes that follow from it and its demand; it keeps views of both.
class DecidedPlan {
public:
    /// @param rank whose part alone is wanted, or kEveryone
    DecidedPlan(std::span<const std::int64_t> demand_bytes, const TwoTierDecision& decision, std::int32_t rank);
    DecidedPlan(const DecidedPlan&) = delete;
    DecidedPlan& operator=(const DecidedPlan&) = delete;

    [[nodiscard]] const TwoTierPlan& plan() const { return plan_; }
    [[nodiscard]] std::int64_t tile_bytes(std::size_t src, std::size_t dst) const {
        return tiles_.bytes[src * tiles_.servers + dst];
    }

private:
    Tiles tiles_;
    LaneTable lanes_;
    std::vector<Segment> whole_;  // where the decision has no segments
    TwoTierPlan plan_;
};

/// Decides how to move a demand, by predicted time.
///
/// @param only considers this way alone where it is not negative
/// @param slices per lane of average size; 0 chooses, otherwise `kDirect`, which has none, comes last
/// @param has_time for trial runs and for timetables, in which messages hold ports alone, which is good where nothing
/// else wants these; detours are evened out for both
TwoTierDecision plan_two_tier(std::span<const std::int64_t> demand_bytes, const TwoTierCosts& costs, const Ports& ports,
                              std::int32_t only, std::int32_t slices, bool has_time);

/// What sending every pair on its own takes, infinite where that cannot be, and what no way takes less than.
struct DirectPrice {
    double direct_s, least_s;
};
DirectPrice direct_price(std::span<const std::int64_t> demand_bytes, const TwoTierCosts& costs, const Ports& ports);

/// The earlier decision for new traffic: shares follow the demand, stages are stretched to it.
TwoTierDecision scaled(const TwoTierDecision& decision, std::span<const std::int64_t> demand_bytes);

}  // namespace interlock
