#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "interlock/two_tier/assignment.hpp"
#include "interlock/two_tier/nic_targets.hpp"
#include "interlock/two_tier/port_loads.hpp"
#include "interlock/two_tier/tiles.hpp"
#include "interlock/two_tier/two_tier_plan.hpp"

namespace interlock {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// How lanes are sliced.
struct Slicing {
    double slices = 1;                ///< of an average lane
    std::vector<std::int64_t> bytes;  ///< [servers] of one slice
};

/// The ledger: how long each port of the cluster is busy under a way of moving a demand, and what messages, latencies,
/// stage openings and senders beyond a fabric's fan-in cost beside it. Its word is the prediction of every way.
///
/// A plan takes at least as long as its busiest port. NICs and scale-up ports that hopping bytes join wait for each
/// other when both are busy. Before the first byte a stage opens; after the last one left there is the wire's latency,
/// and what the last slices bring is passed on inside the server.
class Ledger {
public:
    Ledger(std::span<const std::int64_t> demand, const TwoTierCosts& costs, const Ports& ports);

    [[nodiscard]] const Tiles& tiles() const { return tiles_; }
    [[nodiscard]] const RankLoads& loads() const { return loads_; }
    /// Seconds that no plan can beat, what scale-up ports pass on included.
    [[nodiscard]] double cut_s() const { return cut_s_; }

    /// Traffic inside servers alone.
    [[nodiscard]] double near_seconds() const;
    /// Whether ports inside servers may set the time of balanced traffic, so that they must be counted.
    [[nodiscard]] bool ports_matter() const;
    /// What the busiest scale-up port needs at most for balanced traffic, without counting lanes.
    [[nodiscard]] double most_port_seconds() const;

    /// Every pair on its own; `kNever` where that cannot be, as with the other ways.
    [[nodiscard]] double direct_seconds() const;
    /// Balanced over NICs, all at once.
    /// @param levels of the busiest ports
    [[nodiscard]] double burst_seconds(const Slicing& cut, const PortLevels& levels) const;
    /// Balanced, one partner at a time.
    [[nodiscard]] double staged_seconds(const Stages& stages, const PortLevels& levels) const;
    /// What ports inside servers take longer than the wire, tile by tile: with one partner at a time it may hide behind
    /// nothing else.
    [[nodiscard]] double stage_port_seconds() const;
    /// A few partners at a time: each turn waits for an arrival.
    [[nodiscard]] double window_seconds(const Slicing& cut, const PortLevels& levels) const;
    /// Straight ways as long as no port is above the level of an assignment.
    [[nodiscard]] double detour_seconds(const PortLevels& levels) const;
    /// What these ways never take less than. @param opens_each that `staged_seconds` never says less than: an opening
    /// for every partner, though the next may open while the last slices of one are on their way
    [[nodiscard]] double least_staged_seconds(bool opens_each) const;
    [[nodiscard]] double least_detour_seconds() const;

    /// What NICs are busy with besides bytes: messages of their own, and opening a stage for others.
    [[nodiscard]] std::vector<double> busy_seconds() const;
    /// What redistribution takes at the GPU that receives most.
    [[nodiscard]] double restore_seconds() const;
    /// Whether no GPU sends more to other servers than its neighbours do.
    [[nodiscard]] bool is_balanced() const;
    /// How much alike the tiles are: the part of them that would hold all bytes if those were equal.
    [[nodiscard]] double likeness() const;

private:
    /// Part of a receiver's rate that many senders leave.
    [[nodiscard]] double goodput(double senders, double bytes_per_sender) const;
    /// How many times longer the busiest receivers take with everybody's own senders at once.
    [[nodiscard]] double crowd_factor() const;
    /// What the NICs of a server share. @param is_balanced whether all have the same part of it
    [[nodiscard]] double uplink_seconds(bool is_balanced) const;
    /// Whether the fabric joins all NICs that must talk when every pair takes its own.
    [[nodiscard]] bool goes_straight() const;
    /// Uplinks when every tile takes all rails alike.
    [[nodiscard]] double rail_uplink_seconds() const;
    [[nodiscard]] bool is_idle(std::size_t rank) const;
    /// The NICs of the busiest server when its traffic is balanced over them. Its receivers share their rate among as
    /// many senders as equal ones would be.
    [[nodiscard]] double balanced_seconds(const Slicing& cut, bool is_crowded) const;
    /// Whether a GPU has nothing to send but what its neighbours give it: it opens its stage only when that has come.
    [[nodiscard]] bool has_idle_helper(std::size_t server) const;
    /// A hop of a slice inside a server: a GPU sends to its neighbours one after the other.
    [[nodiscard]] double move_seconds() const {
        return costs_.scale_up_latency_s +
               costs_.message_overhead_s * static_cast<double>(std::max<std::size_t>(3, ports_.width) - 1);
    }
    const TwoTierCosts& costs_;
    const Ports& ports_;
    std::span<const std::int64_t> demand_;
    Tiles tiles_;
    RankLoads loads_;
    std::size_t ranks_ = 0;
    std::vector<double> rate_;  // [ports]
    double cut_s_ = 0;
    double uplink_ = 0;  // what the NICs of a server share; 0: nothing
    double crowd_ = 1;   // what receivers lose to crowds of senders
    double pair_s_ = 0;  // of the busiest pair inside a server on its own link, where it has one
};

}  // namespace interlock
