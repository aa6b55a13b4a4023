#include "interlock/two_tier_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"

namespace interlock {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMuchNear = 0.3;  // of the bound, that traffic inside servers takes
// Fitted to simulations of 24 loads on 2 to 16 servers at 4.5:1 and 2:1 (benchmarks/bench_quality.py).
constexpr double kDetourLoss = 1.04, kFewDetourLoss = 1.20, kCrowdedLoss = 1.4;
constexpr double kLowRatio = 3.0, kTightPorts = 1.25, kLoosePorts = 0.85;
constexpr std::size_t kFewServers = 12, kManyServers = 24;
constexpr std::size_t kFewToDetour = 4;  // servers up to which detours end late
// Up to so many servers, and where a burst would take less than this, one partner at a time may be faster on any fabric.
constexpr std::size_t kFewToTakeTurns = 8;
constexpr double kShort_s = 400e-6;
constexpr std::size_t kFewToMatch = 3;  // servers; with more, other tiles make up for NICs that do not match
constexpr double kMatched = 0.98;       // of the slower end's rate, that rails must use
constexpr double kManyPartners = 24;  // so many lanes end one after the other that few slices hide as much
// Slices of an average lane, by how often a message's cost goes into the wire's time; fitted at 1 to 64 MB, 2 to 16 servers.
constexpr double kSlices = 0.367, kPartnersExponent = 0.6, kRoundUp = 0.62;
// Of the wire's latency, that a burst waits before its first slices and between them.
constexpr double kFirstWait = 0.75, kSliceWait = 0.6, kMostWait = 8;
constexpr double kStageGap = 0.1;  // of a stage's cost, that partners with unlike loads lose once more
constexpr double kDetourPartners = 1.5;  // a detour's receiver has more senders than a straight one
constexpr double kFreeSlices = 128;  // of one NIC's traffic, where messages cost nothing
// A staged plan's slices are this part of the busiest NIC's load. From 13 servers on many of them end up in the last moves
// of a hot receiver, and twice as many pay; from 25 on most segments are smaller than that.
constexpr double kStageParts = 48;
// Finer slices hide more of the last moves, each costs its overhead: best where both grow alike, fitted at 1 to 64 MB.
constexpr double kStageSlice = 3.7, kBurstSlice = 0.5, kDetourSlice = 1.0;
constexpr double kMostSliceParts = 512;  // no slice is smaller than this part of the busiest NIC's load

class Planner {
public:
    Planner(std::span<const std::int64_t> demand, const Rates& rates, const TwoTierCosts& costs)
        : demand_(demand), rates_(rates), costs_(costs), tiles_(sum_tiles(demand, rates.servers, rates.width)), loads_(rank_loads(tiles_)) {
        joins_own_ = costs_.crosses_rails && costs_.uplink_bytes_per_s <= 0;
        cut_s_ = port_seconds(loads_, rates_, cut_seconds(tiles_, loads_, rates_), joins_own_);
        ranks_ = rates.servers * rates.width;
    }

    TwoTierDecision decide(std::int32_t only, std::int32_t slices) {
        TwoTierDecision decision;
        const auto wanted = [&](Way way) { return only < 0 || only == static_cast<std::int32_t>(way); };
        for (double& seconds : decision.predicted_s) seconds = kNever;
        const double slices_per_lane = slices > 0 ? slices : choose_slices();
        if (wanted(Way::kDirect)) decision.predicted_s[0] = direct_seconds();
        const bool has_rails = all_tiles_have_rails();
        if (wanted(Way::kBurst) && has_rails) decision.predicted_s[1] = burst_seconds(slices_per_lane);
        Stages stages;
        // With no more partners than the fabric tolerates senders, a burst is one-to-one already.
        const bool needs_stages = costs_.fan_in > 0 && static_cast<std::size_t>(costs_.fan_in) + 1 < tiles_.servers;
        if (wanted(Way::kStaged) && has_rails && (only >= 0 || needs_stages || may_take_turns(decision.predicted_s[1]))) {
            const bool is_strict = costs_.fan_in <= 1 || !needs_stages;
            stages = make_stages(tiles_, rates_, is_strict ? costs_.stage_overhead_s : 0.0);
            decision.predicted_s[2] = is_strict ? staged_seconds(stages) : window_seconds(slices_per_lane);
            if (!is_strict) {
                for (Segment& segment : stages.segments) segment.stage = 0;
                stages.num_stages = 1;
            }
        }
        if (wanted(Way::kDetour)) decision.predicted_s[3] = detour_seconds();
        require(std::ranges::any_of(decision.predicted_s, [](double seconds) { return seconds < kNever; }),
                only >= 0 ? "this way cannot carry the traffic on this cluster" : "two servers must talk but no rail joins them");
        const auto best = std::min_element(decision.predicted_s, decision.predicted_s + kNumWays) - decision.predicted_s;
        decision.way = static_cast<Way>(only >= 0 ? only : best);
        decision.slice_bytes.assign(tiles_.servers, 0);
        // Traffic inside servers can wait unless there is much of it and little scale-up to spare.
        if (has_low_ratio() && near_seconds() > kMuchNear * cut_s_) {
            decision.local_window = static_cast<std::int32_t>(rates_.width);
        }
        if (decision.way == Way::kDirect) return decision;
        if (decision.way != Way::kStaged) {
            decision.heavy_pairs = tiles_.servers == 1 && joins_own_ ? looped_pairs(demand_, rates_)
                                                                     : heavy_pairs(demand_, loads_, rates_, cut_s_, joins_own_);
        }
        if (decision.way == Way::kBurst) {
            decision.targets = nic_targets(loads_, rates_, cut_s_, decision.heavy_pairs);
            const bool is_even = std::ranges::all_of(rates_.nic, [&](double rate) { return rate == rates_.nic[0]; });
decision.crosses_rails = joins_own_ && (is_even || rails_mismatch()) && costs_.fan_in == 0;
        } else if (decision.way == Way::kDetour) {
            decision.targets = nic_limits(loads_, rates_, cut_s_, decision.heavy_pairs);
        } else {
            decision.targets = rate_targets(rates_);
            decision.pace = (costs_.fan_in <= 1 || !needs_stages) && costs_.uplink_bytes_per_s <= 0 ? Pace::kExclusive : Pace::kWindow;
            decision.window = std::max(1, costs_.fan_in);
            decision.segments = std::move(stages.segments);
            decision.num_stages = std::max(stages.num_stages, 1);
        }
        set_slices(decision, slices_per_lane);
        return decision;
    }

private:
    /// Whether one partner at a time may be faster although the fabric tolerates more: nothing waits for an arrival before
    /// the next message leaves, which tells where everything takes little time.
    [[nodiscard]] bool may_take_turns(double burst_s) const {
        return tiles_.servers > 1 && tiles_.servers <= kFewToTakeTurns && burst_s < kShort_s && costs_.uplink_bytes_per_s <= 0;
    }

    /// Whether every two servers that must talk have a GPU index whose NICs work at both.
    [[nodiscard]] bool all_tiles_have_rails() const {
        if (std::ranges::all_of(rates_.nic, [](double rate) { return rate > 0; })) return true;
        for (std::size_t tile = 0; tile < tiles_.bytes.size(); ++tile) {
            const std::size_t src = tile / tiles_.servers, dst = tile % tiles_.servers;
            if (src == dst || tiles_.bytes[tile] == 0) continue;
            bool joined = false;
            for (std::size_t rail = 0; rail < tiles_.width; ++rail) {
                joined = joined || std::min(rates_.nic[src * tiles_.width + rail], rates_.nic[dst * tiles_.width + rail]) > 0;
            }
            if (!joined) return false;
        }
        return true;
    }

    /// Whether there are so few servers, and such unlike NICs on the rails between two of them, that rails waste some of them.
    [[nodiscard]] bool rails_mismatch() const {
        if (tiles_.servers > kFewToMatch) return false;
        for (std::size_t tile = 0; tile < tiles_.bytes.size(); ++tile) {
            if (tile / tiles_.servers == tile % tiles_.servers || tiles_.bytes[tile] == 0) continue;
            double out = 0, in = 0, matched = 0;
            for (std::size_t rail = 0; rail < tiles_.width; ++rail) {
                const double src = rates_.nic[tile / tiles_.servers * tiles_.width + rail];
                const double dst = rates_.nic[tile % tiles_.servers * tiles_.width + rail];
                out += src;
                in += dst;
                matched += std::min(src, dst);
            }
            if (matched < kMatched * std::min(out, in)) return true;
        }
        return false;
    }

    /// Part of a receiver's rate that many senders leave.
    [[nodiscard]] double goodput(double senders) const {
        if (costs_.fan_in == 0 || senders <= costs_.fan_in) return 1.0;
        return 1.0 / (1.0 + costs_.loss_per_sender * (senders - costs_.fan_in));
    }

    [[nodiscard]] double near_seconds() const {
        std::int64_t most = 0;
        for (std::size_t rank = 0; rank < ranks_; ++rank) most = std::max({most, loads_.out_near[rank], loads_.in_near[rank]});
        if (most == 0) return 0;
        return static_cast<double>(most) / rates_.scale_up +
               costs_.message_overhead_s * static_cast<double>(rates_.width - 1) + costs_.scale_up_latency_s;
    }

    [[nodiscard]] double direct_seconds() const {
        double most = 0;
        const double senders = mean_partners();
        for (std::size_t rank = 0; rank < ranks_; ++rank) {
            const std::int64_t out = loads_.out_far[rank], in = loads_.in_far[rank];
            if (out == 0 && in == 0) continue;
            if (rates_.nic[rank] <= 0 || !costs_.crosses_rails) return kNever;
            most = std::max({most, static_cast<double>(out) / rates_.nic[rank] + costs_.message_overhead_s * tiles_.num_far[rank],
                             static_cast<double>(in) / rates_.nic[rank] / goodput(senders)});
        }
        if (most > 0) most += costs_.scale_out_latency_s;
        return costs_.stage_overhead_s + std::max(most, near_seconds());
    }

    /// Straight ways as long as no NIC is above what the bound lets it carry; the rest takes other NICs of the server.
    [[nodiscard]] double detour_seconds() const {
        if (!costs_.crosses_rails || rates_.width == 1) return kNever;
        if (tiles_.servers == 1) return loop_seconds();
        double overhead = 0;
        for (std::size_t rank = 0; rank < ranks_; ++rank) {
            overhead = std::max(overhead, 2 * costs_.message_overhead_s * tiles_.num_far[rank]);
        }
        const double good = goodput(kDetourPartners * mean_partners());
        const bool has_far = std::ranges::any_of(tiles_.num_far, [](std::int32_t partners) { return partners > 0; });
        const double loss = !has_far ? 1.0 : tiles_.servers <= kFewToDetour && !has_low_ratio() ? kFewDetourLoss : kDetourLoss;
        const double wire = loss * cut_s_ * (has_crowded_receiver() ? kCrowdedLoss : 1.0) / good;
        const double waits = kFirstWait * costs_.scale_out_latency_s + 2 * (costs_.scale_up_latency_s + costs_.message_overhead_s);
        return costs_.stage_overhead_s + wire + overhead + costs_.scale_out_latency_s + hops_seconds(16) + waits;
    }

    /// How many GPUs of other servers one sends to, on average.
    [[nodiscard]] double mean_partners() const {
        const double all = std::accumulate(tiles_.num_far.begin(), tiles_.num_far.end(), 0.0);
        return all / static_cast<double>(ranks_);
    }

    /// A single server, whose NICs take a part of every pair's bytes.
    [[nodiscard]] double loop_seconds() const {
        const auto partners = static_cast<double>(rates_.width) - 1;
        if (!joins_own_ || goodput(partners) < 1) return kNever;
        double most = 0;
        for (std::size_t rank = 0; rank < ranks_; ++rank) {
            const auto bytes = static_cast<double>(std::max(loads_.out_near[rank], loads_.in_near[rank]));
            most = std::max(most, bytes / (rates_.scale_up + rates_.nic[rank]));
        }
        return costs_.stage_overhead_s + most + 2 * costs_.message_overhead_s * partners + costs_.scale_out_latency_s;
    }

    /// Whether scale-up is only a little faster than scale-out.
    [[nodiscard]] bool has_low_ratio() const { return rates_.scale_up < kLowRatio * *std::ranges::max_element(rates_.nic); }

    /// Whether very many senders share one receiver that sets the bound: their detours through its neighbours end late.
    [[nodiscard]] bool has_crowded_receiver() const {
        if (tiles_.servers <= kFewServers) return false;
        for (std::size_t rank = 0; rank < ranks_; ++rank) {
            const double bytes = static_cast<double>(loads_.in_far[rank] + loads_.in_near[rank]);
            if (bytes > 0.9 * cut_s_ * (rates_.nic[rank] + rates_.scale_up)) return true;
        }
        return false;
    }

    /// The scale-up port that is busiest when traffic is balanced over NICs, without anything to hide behind.
    [[nodiscard]] double burst_port_seconds() const {
        const auto width = static_cast<double>(rates_.width);
        double most = 0;
        for (std::size_t first = 0; first < ranks_; first += rates_.width) {
            double out = 0, in = 0;
            for (std::size_t rank = first; rank < first + rates_.width; ++rank) {
                out += static_cast<double>(loads_.out_far[rank]) / width;
                in += static_cast<double>(loads_.in_far[rank]) / width;
            }
            for (std::size_t rank = first; rank < first + rates_.width; ++rank) {
                const auto sends = static_cast<double>(loads_.out_far[rank]), receives = static_cast<double>(loads_.in_far[rank]);
                const double up = static_cast<double>(loads_.out_near[rank]) + std::max(0.0, sends - out) + in * (1 - 1 / width);
                const double down =
                    static_cast<double>(loads_.in_near[rank]) + std::max(0.0, out - sends) + receives * (1 - 1 / width);
                most = std::max({most, up, down});
            }
        }
        return most / rates_.scale_up;
    }

    /// The NICs of the busiest server when its traffic is balanced over them.
    [[nodiscard]] double balanced_seconds(double messages_per_nic, double good) const {
        double most = 0;
        for (std::size_t server = 0; server < tiles_.servers; ++server) {
            double out = 0, in = 0, rate = 0;
            for (std::size_t rank = server * tiles_.width; rank < (server + 1) * tiles_.width; ++rank) {
                out += static_cast<double>(loads_.out_far[rank]);
                in += static_cast<double>(loads_.in_far[rank]);
                rate += rates_.nic[rank];
            }
            if (out + in == 0) continue;
            if (costs_.uplink_bytes_per_s > 0) rate = std::min(rate, costs_.uplink_bytes_per_s);
            if (rate <= 0) return kNever;
            most = std::max({most, out / rate + costs_.message_overhead_s * messages_per_nic, in / rate / good});
        }
        return std::max(most, cut_s_);
    }

    /// What redistribution takes at the GPU that receives most.
    [[nodiscard]] double restore_seconds() const {
        std::int64_t most = 0;
        for (std::size_t rank = 0; rank < ranks_; ++rank) most = std::max(most, loads_.in_far[rank]);
        return static_cast<double>(most) * (1.0 - 1.0 / static_cast<double>(rates_.width)) / rates_.scale_up;
    }

    /// What the GPU that sends most takes to pass on what is above its share.
    [[nodiscard]] double surplus_seconds() const {
        double most = 0;
        for (std::size_t first = 0; first < ranks_; first += rates_.width) {
            const auto out = std::span(loads_.out_far).subspan(first, rates_.width);
            const auto all = static_cast<double>(std::accumulate(out.begin(), out.end(), std::int64_t{0}));
            most = std::max(most, static_cast<double>(*std::ranges::max_element(out)) - all / static_cast<double>(rates_.width));
        }
        return most / rates_.scale_up;
    }

    /// Slices of an average lane: more hide more of the last redistribution, but each costs its overhead.
    [[nodiscard]] double choose_slices() const {
        const double partners = std::max(1.0, static_cast<double>(tiles_.servers) - 1);
        const double most = std::clamp(std::floor(64 / partners), partners < kManyPartners ? 6.0 : 4.0, 48.0);
        if (costs_.message_overhead_s <= 0) return std::max(most, std::floor(kFreeSlices / partners));
        std::int64_t bytes = 0;
        for (const std::int64_t in : loads_.in_far) bytes += in;
        const double nics = std::accumulate(rates_.nic.begin(), rates_.nic.end(), 0.0);
        const double wire = nics > 0 ? static_cast<double>(bytes) / nics : 0.0;
        const double slices = kSlices * std::sqrt(wire / costs_.message_overhead_s) / std::pow(partners, kPartnersExponent);
        return std::clamp(std::floor(slices + kRoundUp), 1.0, most);
    }

    [[nodiscard]] double hops_seconds(double slices) const {
        if (rates_.width == 1) return 0;
        return restore_seconds() / (4 * slices) + costs_.scale_up_latency_s + 2 * costs_.message_overhead_s;
    }

    /// Whether no GPU sends more to other servers than its neighbours do.
    [[nodiscard]] bool is_balanced() const {
        for (std::size_t first = 0; first < ranks_; first += rates_.width) {
            const auto out = std::span(loads_.out_far).subspan(first, rates_.width);
            if (std::ranges::any_of(out, [&](std::int64_t bytes) { return bytes != out[0]; })) return false;
        }
        return true;
    }

    [[nodiscard]] double burst_seconds(double slices) const {
        const double partners = static_cast<double>(tiles_.servers) - 1;
        const double wire = balanced_seconds(partners * slices, goodput(partners));
        if (wire <= 0) return costs_.stage_overhead_s + near_seconds();
        // Ports that have little time to spare end late: what they do last waits for what the wire brings last.
        const bool is_tight = has_low_ratio() && !has_crowded_receiver();
        const double ports = (is_tight ? kTightPorts : kLoosePorts) * burst_port_seconds();
        // The next slice of a lane leaves when one before it has arrived, and lanes of one size all wait at once. Of few small
        // slices the first moves before the wire and the last ones after it hide behind nothing.
        const double moves = (surplus_seconds() + restore_seconds()) / (slices * slices);
        const double waits = costs_.scale_out_latency_s * (kFirstWait + (is_balanced() ? kSliceWait * (slices - 1) : 0.0)) +
                             std::min(moves, kMostWait * costs_.scale_out_latency_s);
        return costs_.stage_overhead_s +
               std::max({near_seconds(), ports, wire + costs_.scale_out_latency_s + hops_seconds(slices) + waits});
    }

    [[nodiscard]] double staged_seconds(const Stages& stages) const {
        if (stages.segments.empty()) return costs_.stage_overhead_s + near_seconds();
        // Partners of one stage do not all start at once, and less so where they have unlike amounts to move.
        const double gap = 2 * costs_.message_overhead_s + (is_balanced() ? 0.0 : kStageGap * costs_.stage_overhead_s);
        const double wire = std::max(stages.seconds, cut_s_) + gap * stages.num_stages;
        return std::max(near_seconds(), wire + costs_.scale_out_latency_s + hops_seconds(8));
    }

    /// A few partners at a time: lanes that end early leave a little idle time, and each turn waits for an arrival.
    [[nodiscard]] double window_seconds(double slices) const {
        const double partners = static_cast<double>(tiles_.servers) - 1;
        const double wire = balanced_seconds(partners * slices, 1.0);
        if (wire <= 0) return costs_.stage_overhead_s + near_seconds();
        const double turns = partners / costs_.fan_in;
        return costs_.stage_overhead_s + std::max(near_seconds(), 1.03 * wire + costs_.scale_out_latency_s * (1 + turns) +
                                                                      hops_seconds(slices));
    }

    void set_slices(TwoTierDecision& decision, double slices) const {
        std::vector<std::int64_t> out(tiles_.servers, 0), partners(tiles_.servers, 0);
        const auto width = static_cast<double>(rates_.width);
        double busiest = 0;
        for (std::size_t src = 0; src < tiles_.servers; ++src) {
            for (std::size_t dst = 0; dst < tiles_.servers; ++dst) {
                const std::int64_t bytes = src == dst ? 0 : tiles_.bytes[src * tiles_.servers + dst];
                out[src] += bytes;
                partners[src] += bytes > 0;
            }
            busiest = std::max(busiest, static_cast<double>(out[src]) / width);
        }
        for (std::size_t rank = 0; rank < ranks_; ++rank) busiest = std::max(busiest, cut_s_ * rates_.nic[rank]);
        const bool is_middling = tiles_.servers > kFewServers && tiles_.servers <= kManyServers;
        const double overhead = costs_.message_overhead_s * *std::ranges::max_element(rates_.nic);  // in bytes
        const double stage_parts = is_middling ? 2 * kStageParts : kStageParts;
        for (std::size_t src = 0; src < tiles_.servers; ++src) {
            double bytes = std::max(busiest / stage_parts, kStageSlice * std::sqrt(busiest * overhead));
            if (decision.way != Way::kStaged) {
                const double lanes = decision.way == Way::kDetour ? width * width : width;
                const double lane = static_cast<double>(out[src]) / lanes / std::max(1.0, static_cast<double>(partners[src]));
                const double least = (decision.way == Way::kDetour ? kDetourSlice : kBurstSlice) * std::sqrt(busiest * overhead);
                bytes = std::max({lane / slices, busiest / kMostSliceParts, least});
            }
            decision.slice_bytes[src] = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes));
        }
    }

    std::span<const std::int64_t> demand_;
    const Rates& rates_;
    const TwoTierCosts& costs_;
    Tiles tiles_;
    RankLoads loads_;
    std::size_t ranks_ = 0;
    double cut_s_ = 0;
    bool joins_own_ = false;  // whether the NICs of one server reach each other
};

}  // namespace

TwoTierDecision plan_two_tier(std::span<const std::int64_t> demand_bytes, const Rates& rates, const TwoTierCosts& costs,
                              std::int32_t only, std::int32_t slices) {
    require(rates.servers > 0 && rates.width > 0 && rates.nic.size() == rates.servers * rates.width,
            "nic rates must be [ranks]");
    require(only < static_cast<std::int32_t>(kNumWays), "no such way");
    return Planner(demand_bytes, rates, costs).decide(only, slices);
}

}  // namespace interlock
