#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "interlock/csr.hpp"
#include "interlock/synthesis/min_tree.hpp"

namespace interlock {

/// Max-min fair rates of flows over shared channels, kept exact while flows come and go.
///
/// Every flow is held back by one channel of its path, its *bottleneck*; all flows a channel holds back move at
/// that channel's *level*. The channels of a connected component stand in order of level, and a flow's bottleneck
/// is the first of its channels in that order: water filling, remembered. A change leaves a *residual* (capacity
/// less the sum of rates) on some channels; `refill` walks the order once, gives each residual back to the flows the
/// channel holds, passes the difference on to channels further along, and swaps neighbours whose levels crossed.
/// Only channels with a residual are touched, and a channel that carries flows it does not hold back costs nothing.
///
/// Bytes are not counted flow by flow either: a channel adds up the bytes it gave to each flow it holds
/// (*served*), and a flow leaves when that sum reaches its mark.
class MaxMinShare {
public:
    static constexpr double kNever = std::numeric_limits<double>::infinity();

    struct Departure {
        double time_s;
        std::int32_t flow;
    };

    /// With a tolerance, what departed flows used may lie idle for a while: since the last flow joined, no channel
    /// loses more than 3/4 of `tolerance` of what it could have carried; and rates are fair to within the last quarter.
    /// @param paths the channels of each flow, distinct within a flow; at least one where the flow is ever added
    MaxMinShare(std::span<const double> capacity_bytes_per_s, Csr<std::int32_t> paths, double tolerance);

    /// Starts `flow` over the first `num_hops` channels of its path. Needs a refill before time moves on.
    void add(std::int32_t flow, std::size_t num_hops, double work_bytes, double now_s);

    void change_capacity(std::int32_t channel, double capacity_bytes_per_s);

    /// When the next flow leaves, if nothing else happens; kNever where none is under way.
    [[nodiscard]] double next_departure_s() const { return departures_.least(); }
    /// The channel that holds that flow back.
    [[nodiscard]] std::int32_t next_channel() const { return departures_.where(); }

    /// Takes that flow out.
    Departure depart();

    /// Makes the rates fair again wherever that may not wait until `next_s`.
    void refill_before(double next_s, double now_s);
    [[nodiscard]] bool needs_refill_before(double next_s) const { return earliest_deadline_s_ < next_s; }

    [[nodiscard]] double rate(std::int32_t flow) const;
    [[nodiscard]] double used_bytes_per_s(std::int32_t channel) const;
    [[nodiscard]] std::int32_t bottleneck(std::int32_t flow) const { return flows_[index(flow)].bottleneck; }

    /// The largest part of its capacity any channel lost to the tolerance.
    [[nodiscard]] double largest_idle_share() const { return largest_idle_share_; }

    /// Called by an observer: channels of the components refilled last.
    [[nodiscard]] const std::vector<std::int32_t>& refilled_channels() const { return refilled_channels_; }
    void keep_refilled_channels(bool keep) { keeps_refilled_channels_ = keep; }
    template <typename Visit>
    void for_each_flow_held_by(std::int32_t channel, Visit visit) const {
        for (const std::int32_t flow : held_[index(channel)].flows) visit(flow);
    }

private:
    /// What a refill reads and writes of a channel: one cache line.
    struct alignas(64) Channel {
        double level = kNever;  // rate of each flow it holds back; kNever while it holds none
        double capacity = 0;
        double served_bytes = 0;  // to each flow it holds, up to served_at_s
        double served_at_s = 0;
        double next_mark_bytes = kNever;  // least mark of the flows it holds; kUnknown after that flow was released
        double per_held = 0;              // 1 / num_held
        std::int32_t num_held = 0;
        std::int32_t num_flows = 0;
        std::int32_t component = -1;
        std::int32_t position = 0;
    };
    static_assert(sizeof(Channel) == 64);
    /// The flows a channel holds back.
    struct Held {
        std::vector<std::int32_t> flows;
        // Of each flow: its other channel where it has two, a dummy where it has one, kManyOthers beyond.
        std::vector<std::int32_t> others;
        std::vector<double> marks;  // of each flow: bytes served at which it is done
        std::int32_t num_many = 0;  // flows with more than two channels
    };
    struct Flow {
        std::int32_t bottleneck = -1;
        std::int32_t slot = 0;  // among those the bottleneck holds
        std::int32_t num_hops = 0;
    };
    struct Component {
        std::vector<std::int32_t> order;
        std::int32_t num_flows = 0;
        std::int32_t num_idle_channels = 0;
        std::size_t dirty_from = 0;
        double deadline_s = kNever;               // by when it must be refilled; kNever while it is clean
        double joined_s = 0;                      // when its last flow joined
        std::vector<std::int32_t> idle_channels;  // that have departed flows' capacity to give away
    };
    /// Capacity of departed flows that a channel has not given away yet.
    struct Idle {
        double rate = 0;
        double bytes = 0;  // lost since joined_s, up to at_s
        double at_s = 0;
        double joined_s = -1;
    };

    static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
    [[nodiscard]] std::span<const std::int32_t> hops(std::int32_t flow) const {
        return paths_[index(flow)].first(static_cast<std::size_t>(flows_[index(flow)].num_hops));
    }

    // Components: which channels are tied together by flows.
    std::int32_t component_for(std::span<const std::int32_t> channels);
    std::int32_t new_component();
    void append(std::int32_t component, std::int32_t channel);
    void merge(std::int32_t into, std::int32_t from);
    void dissolve(std::int32_t component);
    void drop_idle_channels(std::int32_t component);
    [[nodiscard]] double leave_idle(std::int32_t channel, double rate, double now_s);
    void give_away_idle(Component& component, double now_s);
    void mark_dirty(std::int32_t component, std::int32_t position, double deadline_s);

    // Water filling.
    void refill(std::int32_t component, double now_s);
    [[nodiscard]] double fair_level(const Channel& channel, double residual) const;
    void raise(std::int32_t channel, double level, double now_s);
    /// The level of a channel, and what is left of all, from the flows themselves: the sums so far have lost digits.
    void set_anew(const Component& component, std::int32_t channel, double now_s);
    void swap_with_predecessor(Component& component, std::size_t position, double now_s);
    void hand_over(std::int32_t flow, std::int32_t from, std::int32_t to, double now_s);

    // Which flows a channel holds, and how far it has served them.
    void hold(std::int32_t flow, std::int32_t channel, double remaining_bytes, double now_s);
    void release(std::int32_t flow);
    static void settle(Channel& channel, double now_s);
    void reset(std::int32_t channel);
    void list_change(std::int32_t channel);
    void publish_changes();
    void find_next_mark(std::int32_t channel);
    [[nodiscard]] double next_departure_of(std::int32_t channel);

    Csr<std::int32_t> paths_;
    std::vector<double> residual_;  // [channels]; apart from Channel because the inner loop writes only this
    std::vector<Channel> channels_;
    std::vector<Held> held_;  // [channels]
    std::vector<Idle> idle_;  // [channels]
    std::vector<Flow> flows_;
    std::vector<Component> components_;
    std::vector<std::int32_t> free_components_;
    std::vector<std::int32_t> dirty_components_;
    std::vector<std::int32_t> changed_;    // channels whose next departure must be computed anew
    std::vector<std::uint8_t> is_listed_;  // [channels]: in changed_
    std::vector<std::int32_t> merged_;     // scratch
    std::vector<std::int32_t> refilled_channels_;
    MinTree departures_;
    double earliest_deadline_s_ = kNever;
    double largest_idle_share_ = 0;
    double allowed_idle_share_;
    double level_slack_;  // levels may stand in the wrong order by this part
    bool keeps_refilled_channels_ = false;
};

}  // namespace interlock
