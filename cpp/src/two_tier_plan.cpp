#include "interlock/two_tier_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "interlock/errors.hpp"

namespace interlock {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kFewestSliceParts = 512;  // no slice is smaller than this part of the busiest NIC's load

class Planner {
public:
    Planner(std::span<const std::int64_t> demand, const Rates& rates, const TwoTierCosts& costs)
        : rates_(rates), costs_(costs), tiles_(sum_tiles(demand, rates.servers, rates.width)), loads_(rank_loads(tiles_)) {
        cut_s_ = cut_seconds(tiles_, loads_, rates_);
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
        if (wanted(Way::kStaged) && has_rails && (only >= 0 || costs_.fan_in > 0)) {
            const bool is_strict = costs_.fan_in <= 1;
            stages = make_stages(tiles_, rates_, is_strict ? costs_.stage_overhead_s : 0.0);
            decision.predicted_s[2] = is_strict ? staged_seconds(stages) : window_seconds(slices_per_lane);
            if (!is_strict) {
                for (Segment& segment : stages.segments) segment.stage = 0;
                stages.num_stages = 1;
            }
        }
        require(std::ranges::any_of(decision.predicted_s, [](double seconds) { return seconds < kNever; }),
                "two servers must talk but no rail joins them");
        const auto best = std::min_element(decision.predicted_s, decision.predicted_s + kNumWays) - decision.predicted_s;
        decision.way = static_cast<Way>(only >= 0 ? only : best);
        decision.slice_bytes.assign(tiles_.servers, 0);
        if (decision.way == Way::kDirect) return decision;
        if (decision.way == Way::kBurst) {
            decision.targets = nic_targets(tiles_, loads_, rates_, cut_s_);
        } else {
            decision.targets = rate_targets(rates_);
            decision.segments = std::move(stages.segments);
            decision.num_stages = std::max(stages.num_stages, 1);
        }
        set_slices(decision, slices_per_lane);
        return decision;
    }

private:
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
        const double senders = static_cast<double>(ranks_ - rates_.width);
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

    /// Slices of an average lane: more hide more of the last redistribution, but each costs its overhead.
    [[nodiscard]] double choose_slices() const {
        const double partners = std::max(1.0, static_cast<double>(tiles_.servers) - 1);
        const double most = std::max(12.0, std::floor(48 / partners));
        if (costs_.message_overhead_s <= 0) return most;
        return std::clamp(std::floor(std::sqrt(restore_seconds() / (2 * costs_.message_overhead_s * partners))), 1.0, most);
    }

    [[nodiscard]] double hops_seconds(double slices) const {
        if (rates_.width == 1) return 0;
        return restore_seconds() / (4 * slices) + costs_.scale_up_latency_s + 2 * costs_.message_overhead_s;
    }

    [[nodiscard]] double burst_seconds(double slices) const {
        const double partners = static_cast<double>(tiles_.servers) - 1;
        const double wire = balanced_seconds(partners * slices, goodput(partners));
        if (wire <= 0) return costs_.stage_overhead_s + near_seconds();
        return costs_.stage_overhead_s +
               std::max(near_seconds(), wire + costs_.scale_out_latency_s + hops_seconds(slices));
    }

    [[nodiscard]] double staged_seconds(const Stages& stages) const {
        if (stages.segments.empty()) return costs_.stage_overhead_s + near_seconds();
        const double wire = std::max(stages.seconds, cut_s_);
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
        for (std::size_t src = 0; src < tiles_.servers; ++src) {
            double bytes = busiest / 48;
            if (decision.way == Way::kBurst) {
                const double lane = static_cast<double>(out[src]) / width / std::max(1.0, static_cast<double>(partners[src]));
                bytes = std::max(lane / slices, busiest / kFewestSliceParts);
            }
            decision.slice_bytes[src] = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes));
        }
    }

    const Rates& rates_;
    const TwoTierCosts& costs_;
    Tiles tiles_;
    RankLoads loads_;
    std::size_t ranks_ = 0;
    double cut_s_ = 0;
};

}  // namespace

std::vector<Segment> whole_tiles(const Tiles& tiles) {
    std::vector<Segment> segments;
    for (std::size_t src = 0; src < tiles.servers; ++src) {
        for (std::size_t dst = 0; dst < tiles.servers; ++dst) {
            const std::int64_t bytes = tiles.bytes[src * tiles.servers + dst];
            if (src == dst || bytes == 0) continue;
            segments.push_back({static_cast<std::int32_t>(src), static_cast<std::int32_t>(dst), 0, 0, bytes});
        }
    }
    return segments;
}

TwoTierDecision plan_two_tier(std::span<const std::int64_t> demand_bytes, const Rates& rates, const TwoTierCosts& costs,
                              std::int32_t only, std::int32_t slices) {
    require(rates.servers > 0 && rates.width > 0 && rates.nic.size() == rates.servers * rates.width,
            "nic rates must be [ranks]");
    require(only < static_cast<std::int32_t>(kNumWays), "no such way");
    return Planner(demand_bytes, rates, costs).decide(only, slices);
}

}  // namespace interlock
