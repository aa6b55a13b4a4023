#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "interlock/nic_targets.hpp"
#include "interlock/tiles.hpp"
#include "interlock/two_tier_plan.hpp"

namespace interlock {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// What each way of moving a demand would take, and how finely its lanes should be sliced, predicted without writing it out.
class TwoTierTimes {
public:
    TwoTierTimes(std::span<const std::int64_t> demand, const Rates& rates, const TwoTierCosts& costs, const Ports& ports);

    [[nodiscard]] const Tiles& tiles() const { return tiles_; }
    [[nodiscard]] const RankLoads& loads() const { return loads_; }
    /// Seconds that no plan can beat, what scale-up ports pass on included.
    [[nodiscard]] double cut_s() const { return cut_s_; }
    /// Whether the NICs of one server reach each other.
    [[nodiscard]] bool joins_own() const { return joins_own_; }

    /// Traffic inside servers alone.
    [[nodiscard]] double near_seconds() const;
    /// Whether scale-up is only a little faster than scale-out.
    [[nodiscard]] bool has_low_ratio() const;
    /// Whether one partner at a time may be faster although the fabric tolerates more: nothing waits for an arrival before
    /// the next message leaves, which tells where everything takes little time.
    [[nodiscard]] bool may_take_turns(double burst_s) const;
    /// Every pair on its own; `kNever` where that cannot be, as with the other ways.
    [[nodiscard]] double direct_seconds(std::span<const std::int64_t> demand) const;
    [[nodiscard]] double burst_seconds(double slices) const;
    [[nodiscard]] double staged_seconds(const Stages& stages) const;
    /// A few partners at a time: lanes that end early leave a little idle time, and each turn waits for an arrival.
    [[nodiscard]] double window_seconds(double slices) const;
    /// Straight ways as long as no NIC is above what the bound lets it carry; the rest takes other NICs of the server.
    [[nodiscard]] double detour_seconds(const Assignment& spread, double slices) const;
    /// What `detour_seconds` says of no assignment less than.
    [[nodiscard]] double least_detour_seconds() const;
    /// What NICs are busy with besides bytes: messages of their own, and opening a stage for others.
    [[nodiscard]] std::vector<double> busy_seconds() const;
    /// Bytes of a lane for which it has one slice on the wire at once.
    [[nodiscard]] std::int64_t flow_bytes() const;
    /// Bytes of an average pair between servers, out of the server where that is most.
    [[nodiscard]] std::int64_t pair_bytes() const;
    /// Slices of an average lane: more hide more of the last redistribution, but each costs its overhead.
    [[nodiscard]] double choose_slices() const;
    /// Slices of a typical lane on the wire at once: the more, the closer unlike lanes come to their parts of a NIC.
    [[nodiscard]] std::int32_t lane_flows(Way way, double slices) const;
    /// What one slice of a server's lanes carries.
    [[nodiscard]] std::vector<std::int64_t> slice_bytes(Way way, double slices) const;

private:
    /// Whether many servers send so much to one GPU that its last moves may come all at once at the end of a burst.
    [[nodiscard]] bool has_busy_receiver() const;
    /// Part of a receiver's rate that many senders leave.
    [[nodiscard]] double goodput(double senders, double bytes_per_sender) const;
    /// How many times longer the busiest receivers take with everybody's own senders at once.
    [[nodiscard]] double crowd_factor(std::span<const std::int64_t> demand) const;
    /// What the NICs of a server share.
    [[nodiscard]] double uplink_seconds() const;
    /// Uplinks when every tile takes all rails alike.
    [[nodiscard]] double rail_uplink_seconds() const;
    /// What a server's NICs take to send and receive its traffic when they share it.
    [[nodiscard]] double nics_seconds(std::size_t server) const;
    /// How many GPUs of other servers one sends to, on average.
    [[nodiscard]] double mean_partners() const;
    /// The scale-up port that is busiest when traffic is balanced over NICs, without anything to hide behind.
    [[nodiscard]] double burst_port_seconds(bool is_relieved) const;
    [[nodiscard]] bool is_idle(std::size_t rank) const;
    /// Whether, with few servers, a GPU's scale-up port sets the time, not the NICs, and balancing over them would ask even
    /// more of it.
    [[nodiscard]] bool is_port_bound() const;
    /// The NICs of the busiest server when its traffic is balanced over them. Its receivers share their rate among as many
    /// senders as equal ones would be.
    [[nodiscard]] double balanced_seconds(double slices, bool is_limited) const;
    /// Whether a GPU has nothing to send but what its neighbours give it: it opens its stage only when that has come.
    [[nodiscard]] bool has_idle_helper(std::size_t server) const;
    /// What redistribution takes at the GPU that receives most.
    [[nodiscard]] double restore_seconds() const;
    [[nodiscard]] double hops_seconds(double slices) const;
    /// How much alike the tiles are: the part of them that would hold all bytes if those were equal.
    [[nodiscard]] double likeness() const;
    /// Whether no GPU sends more to other servers than its neighbours do.
    [[nodiscard]] bool is_balanced() const;
    /// What ports inside servers take longer than the wire, tile by tile: with one partner at a time it hides behind nothing else.
    [[nodiscard]] double stage_port_seconds() const;
    /// What opening a stage costs where some wait for others to have done so.
    [[nodiscard]] double opening_seconds() const;
    /// Part of its share of a server's traffic that the GPU with least of its own lacks.
    [[nodiscard]] double largest_lack() const;

    const Rates& rates_;
    const TwoTierCosts& costs_;
    const Ports& ports_;
    std::span<const std::int64_t> demand_;
    Tiles tiles_;
    RankLoads loads_;
    std::size_t ranks_ = 0;
    double cut_s_ = 0;
    double pair_s_ = 0;  // of the busiest pair inside a server on its own link, where it has one
    bool joins_own_ = false;
};

}  // namespace interlock
