#include "interlock/two_tier_plan.hpp"

#include <algorithm>

#include "interlock/errors.hpp"
#include "interlock/two_tier_times.hpp"

namespace interlock {
namespace {

constexpr double kMostPort = 0.96;  // of the bound, that a scale-up port should be busy
constexpr double kWorthHops = 16;  // of a message inside a server, that bytes must take to be worth going around a link
constexpr double kMuchNear = 0.3;  // of the bound, that traffic inside servers takes
constexpr std::int64_t kMostNearFlows = 16;  // of one pair inside a server
constexpr double kFlowsCost = 0.005;  // of a NIC's time that the messages of these may cost
constexpr std::size_t kMostCoupled = 128;  // ranks up to which every pair between servers gets routes of its own
constexpr std::size_t kFewToMatch = 3;  // servers; with more, other tiles make up for NICs that do not match
constexpr double kMatched = 0.98;       // of the slower end's rate, that rails must use
constexpr double kToldApart = 0.01;  // of a time, that a prediction must differ to tell two ways apart

class Planner {
public:
    Planner(std::span<const std::int64_t> demand, const Rates& rates, const TwoTierCosts& costs, const Ports& ports)
        : demand_(demand), rates_(rates), costs_(costs), ports_(ports), times_(demand, rates, costs, ports), tiles_(times_.tiles()) {}

    TwoTierDecision decide(std::int32_t only, std::int32_t slices) {
        TwoTierDecision decision;
        decision.servers = tiles_.servers;
        decision.width = tiles_.width;
        const auto wanted = [&](Way way) { return only < 0 || only == static_cast<std::int32_t>(way); };
        for (double& seconds : decision.predicted_s) seconds = kNever;
        const double slices_per_lane = slices > 0 ? slices : times_.choose_slices();
        const bool has_rails = all_tiles_have_rails();
        if (wanted(Way::kBurst) && has_rails) decision.predicted_s[1] = times_.burst_seconds(slices_per_lane);
        Stages stages;
        // With no more partners than the fabric tolerates senders, a burst is one-to-one already.
        const bool needs_stages = costs_.fan_in > 0 && static_cast<std::size_t>(costs_.fan_in) + 1 < tiles_.servers;
        const bool may_be_staged = only >= 0 || needs_stages || times_.may_take_turns(decision.predicted_s[1]);
        if (wanted(Way::kStaged) && has_rails && may_be_staged) {
            const bool is_strict = costs_.fan_in <= 1 || !needs_stages;
            stages = make_stages(tiles_, rates_, is_strict ? costs_.stage_overhead_s : 0.0);
            decision.predicted_s[2] = is_strict ? times_.staged_seconds(stages) : times_.window_seconds(slices_per_lane);
            if (!is_strict) {
                for (Segment& segment : stages.segments) segment.stage = 0;
                stages.num_stages = 1;
            }
        }
        // With NICs of unlike rates, what each carries is counted on the lanes themselves.
        if (!is_even()) {
            const NicTargets burst = nic_targets(times_.loads(), rates_, times_.cut_s(), {}), staged = rate_targets(rates_);
            decision.predicted_s[1] += late_seconds(burst, Pace::kBurst, decision.predicted_s[1]);
            decision.predicted_s[2] += late_seconds(staged, Pace::kExclusive, decision.predicted_s[2]);
        }
        const auto is_any = [&] { return std::ranges::any_of(decision.predicted_s, [](double s) { return s < kNever; }); };
        // Who asks for slices wants a way that has some, where there is one.
        const bool may_be_whole = slices <= 0 || only >= 0 || !is_any();
        if (wanted(Way::kDirect) && may_be_whole) decision.predicted_s[0] = times_.direct_seconds(demand_);
        // The assignment is most of the work: not made where it can gain nothing that is worth telling.
        const double beaten_s = std::ranges::min(decision.predicted_s) / (1 + kToldApart);
        const bool may_gain = only >= 0 || times_.least_detour_seconds() < beaten_s;
        Assignment spread;
        if (wanted(Way::kDetour) && may_be_whole && may_gain && (!ports_.couples_ends() || ports_.ranks() <= kMostCoupled)) {
            const std::vector<double> busy = times_.busy_seconds();
            // A NIC with a sender more than the fabric likes would lose by loops.
            const bool may_loop = costs_.fan_in == 0 || tiles_.largest_far == 0;
            const AssignmentGoal goal{0.0, busy, 2 * costs_.message_overhead_s, may_loop, true};
            spread = assign_bytes(demand_, times_.loads(), ports_, goal);
            if (spread.is_whole) decision.predicted_s[3] = times_.detour_seconds(spread, slices_per_lane);
        }
        require(is_any(),
                only >= 0 ? "this way cannot carry the traffic on this cluster" : "two servers must talk but no rail joins them");
        const auto best = std::min_element(decision.predicted_s, decision.predicted_s + kNumWays) - decision.predicted_s;
        decision.way = static_cast<Way>(only >= 0 ? only : best);
        decision.slice_bytes.assign(tiles_.servers, 0);
        decision.tile_bytes = tiles_.bytes;
        // Traffic inside servers can wait unless there is much of it and little scale-up to spare.
        if (times_.has_low_ratio() && times_.near_seconds() > kMuchNear * times_.cut_s()) {
            decision.local_window = static_cast<std::int32_t>(rates_.width);
        }
        if (!costs_.is_switched) decision.local_window = static_cast<std::int32_t>(rates_.width);  // each on a link of its own
        if (decision.way == Way::kDirect) return decision;
        if (decision.way == Way::kDetour) {
            decision.assignment = std::move(spread);
            // Where nothing hops between neighbours and NICs, what stays inside servers has the ports for itself.
            if (decision.assignment.has_hops) {
                decision.heavy_pairs = heavy_pairs(demand_, times_.loads(), rates_, times_.cut_s(), {});
            } else {
                decision.local_window = static_cast<std::int32_t>(rates_.width);
                decision.heavy_pairs = near_flows();
            }
        } else if (decision.way != Way::kStaged) {
            // A NIC with one sender more would lose by loops, unless they take turns with a single partner.
            const bool is_pair_burst = tiles_.servers == 2 && decision.way == Way::kBurst;
            const bool has_loops = times_.joins_own() && (costs_.fan_in == 0 || is_pair_burst);
            decision.loops_in_turn = costs_.fan_in > 0 && is_pair_burst;
            decision.heavy_pairs = tiles_.servers == 1 && times_.joins_own()
                                       ? looped_pairs(demand_, rates_)
                                       : heavy_pairs(demand_, times_.loads(), rates_, times_.cut_s(),
                                                     {has_loops, decision.way == Way::kBurst, decision.loops_in_turn});
        }
        if (!costs_.is_switched && decision.way != Way::kDetour) {
            const double hop_s = costs_.message_overhead_s + costs_.scale_up_latency_s;
            const double link = rates_.scale_up / static_cast<double>(std::max<std::size_t>(2, rates_.width) - 1);
            const auto least = static_cast<std::int64_t>(kWorthHops * hop_s * link) + 1;
            decision.near_relays =
                near_relays(demand_, times_.loads(), rates_, times_.cut_s(), least, decision.heavy_pairs, ports_.present);
        }
        if (decision.way == Way::kBurst) {
            decision.targets = nic_targets(times_.loads(), rates_, times_.cut_s(), decision.heavy_pairs);
            decision.crosses_rails = crosses_rails();
        } else if (decision.way == Way::kDetour) {
            decision.crosses_rails = true;
            decision.flow_bytes = times_.flow_bytes();
            decision.pair_bytes = times_.pair_bytes();
        } else {
            decision.targets = rate_targets(rates_);
            const bool is_strict = (costs_.fan_in <= 1 || !needs_stages) && costs_.uplink_bytes_per_s <= 0;
            decision.pace = is_strict ? Pace::kExclusive : Pace::kWindow;
            decision.window = std::max(1, costs_.fan_in);
            decision.segments = std::move(stages.segments);
            decision.num_stages = std::max(stages.num_stages, 1);
        }
        decision.least_part_bytes = static_cast<std::int64_t>(costs_.message_overhead_s * rates_.scale_up) + 1;
        decision.most_port_bytes = static_cast<std::int64_t>(kMostPort * times_.cut_s() * rates_.scale_up);
        decision.lane_flows = times_.lane_flows(decision.way, slices_per_lane);
        decision.slice_bytes = times_.slice_bytes(decision.way, slices_per_lane);
        return decision;
    }

private:
    [[nodiscard]] bool is_even() const {
        return std::ranges::all_of(rates_.nic, [&](double rate) { return rate == rates_.nic[0]; });
    }
    [[nodiscard]] bool crosses_rails() const {
        return times_.joins_own() && (is_even() || rails_mismatch()) && costs_.fan_in == 0;
    }

    /// By how much the NIC with most to do on its lanes exceeds what was predicted.
    [[nodiscard]] double late_seconds(const NicTargets& targets, Pace pace, double predicted_s) const {
        if (predicted_s == kNever || tiles_.servers == 1) return 0;
        const LaneTable table = lanes_of(demand_, tiles_, targets, pace, pace == Pace::kBurst && crosses_rails());
        std::vector<double> out(rates_.nic.size(), 0.0), in(rates_.nic.size(), 0.0);
        std::vector<Lane> scratch;
        for (std::size_t tile = 0; tile < tiles_.bytes.size(); ++tile) {
            const std::size_t src = tile / tiles_.servers, dst = tile % tiles_.servers;
            if (src == dst || tiles_.bytes[tile] == 0) continue;
            for (const Lane& lane : table.of(src, dst, tiles_.bytes[tile], scratch)) {
                out[src * tiles_.width + static_cast<std::size_t>(lane.out_gpu)] += static_cast<double>(lane.bytes);
                in[dst * tiles_.width + static_cast<std::size_t>(lane.in_gpu)] += static_cast<double>(lane.bytes);
            }
        }
        double most = 0;
        for (std::size_t rank = 0; rank < rates_.nic.size(); ++rank) {
            const double bytes = std::max(out[rank], in[rank] / ports_.efficiency);
            if (bytes > 0) most = std::max(most, bytes / std::max(rates_.nic[rank], 1e-9));
        }
        return std::max(0.0, costs_.stage_overhead_s + most + costs_.scale_out_latency_s - predicted_s);
    }

    /// Pairs inside servers, all at once: flows share ports evenly, so each is cut in parts of about equal size.
    [[nodiscard]] std::vector<HeavyPair> near_flows() const {
        const std::size_t ranks = rates_.nic.size();
        std::int64_t largest = 0;
        std::vector<HeavyPair> pairs;
        const auto each = [&](auto visit) {
            for (std::size_t src = 0; src < ranks; ++src) {
                for (std::size_t dst = src / rates_.width * rates_.width; dst < (src / rates_.width + 1) * rates_.width; ++dst) {
                    if (src != dst) visit(src, dst, demand_[src * ranks + dst]);
                }
            }
        };
        each([&](std::size_t, std::size_t, std::int64_t bytes) { largest = std::max(largest, bytes); });
        const std::int64_t flow = std::max<std::int64_t>({1, largest / kMostNearFlows, static_cast<std::int64_t>(costs_.message_overhead_s / kFlowsCost * rates_.scale_up)});
        each([&](std::size_t src, std::size_t dst, std::int64_t bytes) {
            const std::int64_t parts = (bytes + flow / 2) / flow;
            if (parts > 1) pairs.push_back({static_cast<std::int32_t>(src), static_cast<std::int32_t>(dst), static_cast<std::int32_t>(parts), 0});
        });
        return pairs;
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

    std::span<const std::int64_t> demand_;
    const Rates& rates_;
    const TwoTierCosts& costs_;
    const Ports& ports_;
    const TwoTierTimes times_;
    const Tiles& tiles_;
};

}  // namespace

LaneTable lanes_of(std::span<const std::int64_t> demand_bytes, const Tiles& tiles, const NicTargets& targets, Pace pace,
                   bool crosses_rails) {
    if (targets.are_equal()) return {tiles.servers, tiles.width, {}, {}, {}};
    if (crosses_rails) return cross_lanes(demand_bytes, tiles, targets);
    // Between two servers each NIC serves a single tile, and no other tile makes up for a rail with NICs of unlike rates.
    const auto& most = targets.most_bytes;
    const bool is_even = std::ranges::all_of(most, [&](std::int64_t bytes) { return bytes == most[0]; });
    const bool has_side_by_side = pace == Pace::kBurst && (tiles.servers > 2 || is_even);
    return rail_lanes(tiles, targets, has_side_by_side ? ShareRule::kServer : ShareRule::kTile);
}

TwoTierDecision plan_two_tier(std::span<const std::int64_t> demand_bytes, const Rates& rates, const TwoTierCosts& costs,
                              const Ports& ports, std::int32_t only, std::int32_t slices) {
    require(rates.servers > 0 && rates.width > 0 && rates.nic.size() == rates.servers * rates.width,
            "nic rates must be [ranks]");
    require(only < static_cast<std::int32_t>(kNumWays), "no such way");
    return Planner(demand_bytes, rates, costs, ports).decide(only, slices);
}

}  // namespace interlock
