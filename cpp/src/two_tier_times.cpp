#include "interlock/two_tier_times.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace interlock {
namespace {

// Fitted to simulations of 24 loads on 2 to 16 servers at 4.5:1 and 2:1 (benchmarks/bench_quality.py).
constexpr double kDetourLoss = 1.04, kFewDetourLoss = 1.20, kCrowdedLoss = 1.4;
constexpr double kLowRatio = 3.0, kTightPorts = 1.25, kLoosePorts = 0.85;
constexpr std::size_t kFewServers = 12, kManyServers = 24;
constexpr double kMostNics = 0.95;      // of the bound, below which NICs do not set it
constexpr double kPortBoundLoss = 1.1;  // of a burst where a scale-up port does
constexpr std::size_t kFewToDetour = 4;  // servers up to which detours end late
// Up to so many servers, and where a burst would take less than this, one partner at a time may be faster on any fabric.
constexpr std::size_t kFewToTakeTurns = 8;
constexpr double kShort_s = 400e-6, kLong_s = 2e-3;
// Of the bound, that redistribution to one GPU takes where a burst's last moves may pile up, and what that may cost.
constexpr std::size_t kManyToPileUp = 8;  // servers
constexpr double kHighRatio = 6;
constexpr double kBusyReceiver = 0.3, kShortReceiver = 0.75, kBusyReceiverLoss = 1.03;
constexpr double kMiddleBusyReceiver = 0.6, kMiddleShortReceiver = 0.86;  // where scale-up is less far ahead
constexpr double kManyPartners = 24;  // so many lanes end one after the other that few slices hide as much
// Slices of an average lane, by how often a message's cost goes into the time of the wire and of the redistribution to hide;
// fewer where lanes are unlike, which end one after the other, or all alike. Fitted at 1 to 64 MB, 2 to 16 servers.
constexpr double kSlices = 0.45, kPartnersExponent = 0.52, kRoundUp = 0.45, kHidden = 0.65, kEqualLanes = 0.58;
// Waits in parts of the wire's latency, fitted at 1 to 16 MB, 2 to 16 servers: of every burst, of one with a single partner
// and of one with a single slice; between the slices of equal lanes, which all wait at once; of a staged plan for what a
// GPU with little of its own gets from its neighbours; of a detour.
constexpr double kFirstWait = 0.75, kLonePartnerWait = 0.91, kLoneSliceWait = 0.47, kSliceWait = 1.2, kShareWait = 1.2;
constexpr double kDetourWait = 0.75;
constexpr std::size_t kFewToWait = 4;  // servers up to which two slices of a lane are in flight, and equal lanes hardly wait
constexpr double kStageGap = 0.1;  // of a stage's cost, that partners with unlike loads lose once more
// Senders of a detour's receiver beside its own: at most, and in parts of the slices that the busiest NIC sends.
constexpr double kMostHelpers = 5, kHelpersPerSlice = 1.0 / 6;
constexpr double kSendersMore = 1.03;  // of a burst's receiver, while it lasts, than its bytes tell
constexpr double kSlicesPerFlow = 8;  // of a typical lane, from which it may have twice the flows
constexpr double kAlike = 0.93;       // likeness of tiles from which it need not
constexpr double kFreeSlices = 128;  // of one NIC's traffic, where messages cost nothing
// A staged plan's slices are this part of the busiest NIC's load. From 13 servers on many of them end up in the last moves
// of a hot receiver, and twice as many pay; from 25 on most segments are smaller than that.
constexpr double kStageParts = 48;
// Finer slices hide more of the last moves, each costs its overhead: best where both grow alike, fitted at 1 to 64 MB.
constexpr double kStageSlice = 3.7, kBurstSlice = 0.5, kDetourSlice = 1.0;
constexpr double kMostSliceParts = 512;  // no slice is smaller than this part of the busiest NIC's load

}  // namespace

TwoTierTimes::TwoTierTimes(std::span<const std::int64_t> demand, const Rates& rates, const TwoTierCosts& costs)
    : rates_(rates),
      costs_(costs),
      tiles_(sum_tiles(demand, rates.servers, rates.width)),
      loads_(rank_loads(tiles_)),
      ranks_(rates.servers * rates.width),
      joins_own_(costs.crosses_rails && costs.uplink_bytes_per_s <= 0) {
    if (!costs.is_switched && rates.width > 1) {
        std::int64_t most = 0;
        for (std::size_t src = 0; src < ranks_; ++src) {
            const std::size_t first = src / rates.width * rates.width;
            for (std::size_t dst = first; dst < first + rates.width; ++dst) {
                if (src != dst) most = std::max(most, demand[src * ranks_ + dst]);
            }
        }
        pair_s_ = static_cast<double>(most) * static_cast<double>(rates.width - 1) / rates.scale_up;
    }
    cut_s_ = port_seconds(loads_, rates_, cut_seconds(tiles_, loads_, rates_), joins_own_);
}

bool TwoTierTimes::may_take_turns(double burst_s) const {
    const bool is_short = tiles_.servers > 1 && tiles_.servers <= kFewToTakeTurns && burst_s < kShort_s;
    return (is_short || has_busy_receiver()) && costs_.uplink_bytes_per_s <= 0;
}

bool TwoTierTimes::has_busy_receiver() const {
    if (has_low_ratio()) return false;  // stages need ports that keep up
    const bool is_high = rates_.scale_up >= kHighRatio * *std::ranges::max_element(rates_.nic);
    const double share = restore_seconds() / std::max(cut_s_, 1e-12);
    const bool is_busy = share > (is_high ? kBusyReceiver : kMiddleBusyReceiver);
    return cut_s_ > kLong_s && tiles_.servers >= kManyToPileUp && is_busy &&
           share < (is_high ? kShortReceiver : kMiddleShortReceiver);
}

double TwoTierTimes::goodput(double senders) const {
    if (costs_.fan_in == 0 || senders <= costs_.fan_in) return 1.0;
    return 1.0 / (1.0 + costs_.loss_per_sender * (senders - costs_.fan_in));
}

double TwoTierTimes::near_seconds() const {
    std::int64_t most = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) most = std::max({most, loads_.out_near[rank], loads_.in_near[rank]});
    if (most == 0) return 0;
    return static_cast<double>(most) / rates_.scale_up +
           costs_.message_overhead_s * static_cast<double>(rates_.width - 1) + costs_.scale_up_latency_s;
}

double TwoTierTimes::direct_seconds() const {
    double most = 0;
    const double senders = mean_partners() + 1;  // of the receiver that has most
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
        const std::int64_t out = loads_.out_far[rank], in = loads_.in_far[rank];
        if (out == 0 && in == 0) continue;
        if (rates_.nic[rank] <= 0 || !costs_.crosses_rails) return kNever;
        most = std::max({most, static_cast<double>(out) / rates_.nic[rank] + costs_.message_overhead_s * tiles_.num_far[rank],
                         static_cast<double>(in) / rates_.nic[rank] / goodput(senders)});
    }
    if (most > 0) most += costs_.scale_out_latency_s;
    return costs_.stage_overhead_s + std::max({most, near_seconds(), pair_s_});
}

double TwoTierTimes::detour_seconds() const {
    if (!costs_.crosses_rails || rates_.width == 1) return kNever;
    if (tiles_.servers == 1) return loop_seconds();
    double overhead = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
        overhead = std::max(overhead, costs_.message_overhead_s * tiles_.num_far[rank]);
    }
    const double good = goodput(mean_partners() + detour_helpers());
    const bool has_far = std::ranges::any_of(tiles_.num_far, [](std::int32_t partners) { return partners > 0; });
    const bool ends_late = tiles_.servers <= kFewToDetour && !has_low_ratio() && !is_port_bound();
    const double loss = !has_far ? 1.0 : ends_late ? kFewDetourLoss : kDetourLoss;
    double wire = loss * cut_s_ * (has_crowded_receiver() ? kCrowdedLoss : 1.0) / good;
    for (std::size_t server = 0; server < tiles_.servers; ++server) {
        if (has_idle_helper(server)) wire = std::max(wire, loss * nics_seconds(server) + costs_.stage_overhead_s);
    }
    // With many servers the NIC that sets the time has straight messages to send while others are on their way.
    const double moves = tiles_.servers > kFewServers ? 0.0 : 2 * (costs_.scale_up_latency_s + costs_.message_overhead_s);
    const double waits = kDetourWait * costs_.scale_out_latency_s + moves;
    return costs_.stage_overhead_s + wire + overhead + costs_.scale_out_latency_s + hops_seconds(16) + waits;
}

double TwoTierTimes::nics_seconds(std::size_t server) const {
    double out = 0, in = 0, rate = 0;
    for (std::size_t rank = server * tiles_.width; rank < (server + 1) * tiles_.width; ++rank) {
        out += static_cast<double>(loads_.out_far[rank]);
        in += static_cast<double>(loads_.in_far[rank]);
        rate += rates_.nic[rank];
    }
    return rate > 0 ? std::max(out, in) / rate : 0.0;
}

double TwoTierTimes::detour_helpers() const {
    if (costs_.message_overhead_s <= 0) return kMostHelpers;
    return std::min(kMostHelpers, kHelpersPerSlice * std::sqrt(cut_s_ / costs_.message_overhead_s) / kDetourSlice);
}

double TwoTierTimes::mean_partners() const {
    const double all = std::accumulate(tiles_.num_far.begin(), tiles_.num_far.end(), 0.0);
    return all / static_cast<double>(ranks_);
}

double TwoTierTimes::loop_seconds() const {
    const auto partners = static_cast<double>(rates_.width) - 1;
    if (!joins_own_ || goodput(partners) < 1) return kNever;
    double most = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
        const auto bytes = static_cast<double>(std::max(loads_.out_near[rank], loads_.in_near[rank]));
        most = std::max(most, bytes / (rates_.scale_up + rates_.nic[rank]));
    }
    return costs_.stage_overhead_s + most + 2 * costs_.message_overhead_s * partners + costs_.scale_out_latency_s;
}

bool TwoTierTimes::has_low_ratio() const { return rates_.scale_up < kLowRatio * *std::ranges::max_element(rates_.nic); }

bool TwoTierTimes::has_crowded_receiver() const {
    if (tiles_.servers <= kFewServers) return false;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
        const double bytes = static_cast<double>(loads_.in_far[rank] + loads_.in_near[rank]);
        if (bytes > 0.9 * cut_s_ * (rates_.nic[rank] + rates_.scale_up)) return true;
    }
    return false;
}

double TwoTierTimes::burst_port_seconds() const {
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

bool TwoTierTimes::is_port_bound() const {
    // Between two servers swaps relieve such ports (`even_ports`).
    if (tiles_.servers == 2 || tiles_.servers > kFewToDetour || costs_.fan_in > 0) return false;
    double nics = 0;
    for (std::size_t server = 0; server < tiles_.servers; ++server) nics = std::max(nics, nics_seconds(server));
    return nics < kMostNics * cut_s_ && burst_port_seconds() > cut_s_;
}

double TwoTierTimes::balanced_seconds(double slices, bool is_limited) const {
    const std::vector<std::int64_t> slice = slice_bytes(Way::kBurst, slices);
    double most = 0;
    for (std::size_t server = 0; server < tiles_.servers; ++server) {
        double out = 0, in = 0, rate = 0, messages = 0, squares = 0;
        for (std::size_t rank = server * tiles_.width; rank < (server + 1) * tiles_.width; ++rank) {
            out += static_cast<double>(loads_.out_far[rank]);
            in += static_cast<double>(loads_.in_far[rank]);
            rate += rates_.nic[rank];
        }
        if (out + in == 0) continue;
        const double lane = static_cast<double>(slice[server]) * static_cast<double>(tiles_.width);
        for (std::size_t other = 0; other < tiles_.servers; ++other) {
            if (other == server) continue;
            messages += std::ceil(static_cast<double>(tiles_.bytes[server * tiles_.servers + other]) / lane);
            const auto from = static_cast<double>(tiles_.bytes[other * tiles_.servers + server]);
            squares += from * from;
        }
        if (costs_.uplink_bytes_per_s > 0) rate = std::min(rate, costs_.uplink_bytes_per_s);
        if (rate <= 0) return kNever;
        const double good = is_limited && squares > 0 ? goodput(in * in / squares * kSendersMore) : 1.0;
        const double late = has_idle_helper(server) ? costs_.stage_overhead_s : 0.0;
        most = std::max({most, out / rate + costs_.message_overhead_s * messages + late, in / rate / good});
    }
    return std::max(most, cut_s_);
}

bool TwoTierTimes::has_idle_helper(std::size_t server) const {
    bool is_idle = false, has_far = false;
    for (std::size_t rank = server * tiles_.width; rank < (server + 1) * tiles_.width; ++rank) {
        is_idle = is_idle || (rates_.nic[rank] > 0 && loads_.out_far[rank] + loads_.out_near[rank] == 0);
        has_far = has_far || loads_.out_far[rank] > 0;
    }
    return is_idle && has_far;
}

double TwoTierTimes::restore_seconds() const {
    std::int64_t most = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) most = std::max(most, loads_.in_far[rank]);
    return static_cast<double>(most) * (1.0 - 1.0 / static_cast<double>(rates_.width)) / rates_.scale_up;
}

double TwoTierTimes::choose_slices() const {
    const double partners = std::max(1.0, static_cast<double>(tiles_.servers) - 1);
    const double most = std::clamp(std::floor(64 / partners), partners < kManyPartners ? 6.0 : 4.0, 48.0);
    if (costs_.message_overhead_s <= 0) return std::max(most, std::floor(kFreeSlices / partners));
    const double bytes = std::accumulate(loads_.in_far.begin(), loads_.in_far.end(), 0.0);
    const double nics = std::accumulate(rates_.nic.begin(), rates_.nic.end(), 0.0);
    if (bytes <= 0 || nics <= 0) return 1;
    const double hidden = bytes / nics + kHidden * restore_seconds();
    double slices = kSlices * std::sqrt(hidden / costs_.message_overhead_s) * likeness();
    slices /= std::pow(partners, kPartnersExponent);
    if (is_balanced() && tiles_.servers > kFewToWait) slices *= kEqualLanes;
    return std::clamp(std::floor(slices + kRoundUp), 1.0, most);
}

double TwoTierTimes::hops_seconds(double slices) const {
    if (rates_.width == 1) return 0;
    return restore_seconds() / (4 * slices) + costs_.scale_up_latency_s + 2 * costs_.message_overhead_s;
}

bool TwoTierTimes::is_balanced() const {
    for (std::size_t first = 0; first < ranks_; first += rates_.width) {
        const auto out = std::span(loads_.out_far).subspan(first, rates_.width);
        if (std::ranges::any_of(out, [&](std::int64_t bytes) { return bytes != out[0]; })) return false;
    }
    return true;
}

double TwoTierTimes::burst_seconds(double slices) const {
    const double partners = std::max(1.0, static_cast<double>(tiles_.servers) - 1);
    const double wire = balanced_seconds(slices, true) * (has_busy_receiver() ? kBusyReceiverLoss : 1.0);
    if (wire <= 0) return costs_.stage_overhead_s + near_seconds();
    // Ports that have little time to spare end late: what they do last waits for what the wire brings last.
    const bool is_tight = has_low_ratio() && !has_crowded_receiver();
    const double ports = std::max((is_tight ? kTightPorts : kLoosePorts) * burst_port_seconds(),
                                  is_port_bound() ? kPortBoundLoss * cut_s_ : 0.0);
    // The next slice of a lane leaves when one before it has arrived, and lanes of one size all wait at once.
    double waits = kFirstWait + (partners > 1 ? 0.0 : kLonePartnerWait) + (slices > 1 ? 0.0 : kLoneSliceWait);
    if (is_balanced() && tiles_.servers > kFewToWait) waits += kSliceWait * (slices - 1);
    const double move = costs_.scale_up_latency_s + 2 * costs_.message_overhead_s;
    const double last = rates_.width == 1 ? 0.0 : restore_seconds() / (slices * partners) + move;
    const double all = wire + costs_.scale_out_latency_s * (1 + waits) + last;
    return costs_.stage_overhead_s + std::max({near_seconds(), ports, all});
}

double TwoTierTimes::staged_seconds(const Stages& stages) const {
    if (stages.segments.empty()) return costs_.stage_overhead_s + near_seconds();
    // Partners of one stage do not all start at once, and less so where they have unlike amounts to move.
    const double gap = 2 * costs_.message_overhead_s + (is_balanced() ? 0.0 : kStageGap * costs_.stage_overhead_s);
    const double wire = std::max(stages.seconds, cut_s_) + gap * stages.num_stages;
    const double late = opening_seconds() - costs_.stage_overhead_s;  // the stages' own costs are in their seconds
    const double waits = kShareWait * largest_lack() * costs_.scale_out_latency_s + late;
    return std::max(near_seconds(), wire + waits + costs_.scale_out_latency_s + hops_seconds(8));
}

double TwoTierTimes::opening_seconds() const {
    for (std::size_t server = 0; server < tiles_.servers; ++server) {
        if (has_idle_helper(server)) return 2 * costs_.stage_overhead_s;
    }
    return costs_.stage_overhead_s;
}

double TwoTierTimes::largest_lack() const {
    double most = 0;
    for (std::size_t first = 0; first < ranks_; first += rates_.width) {
        const auto out = std::span(loads_.out_far).subspan(first, rates_.width);
        const auto all = static_cast<double>(std::accumulate(out.begin(), out.end(), std::int64_t{0}));
        if (all == 0) continue;
        most = std::max(most, 1 - static_cast<double>(*std::ranges::min_element(out)) * static_cast<double>(rates_.width) / all);
    }
    return most;
}

double TwoTierTimes::window_seconds(double slices) const {
    const double partners = static_cast<double>(tiles_.servers) - 1;
    const double wire = balanced_seconds(slices, false);
    if (wire <= 0) return costs_.stage_overhead_s + near_seconds();
    const double turns = partners / costs_.fan_in;
    return costs_.stage_overhead_s + std::max(near_seconds(), 1.03 * wire + costs_.scale_out_latency_s * (1 + turns) +
                                                                  hops_seconds(slices));
}

double TwoTierTimes::likeness() const {
    double bytes = 0, squares = 0;
    for (std::size_t tile = 0; tile < tiles_.bytes.size(); ++tile) {
        if (tile / tiles_.servers == tile % tiles_.servers) continue;
        const auto size = static_cast<double>(tiles_.bytes[tile]);
        bytes += size;
        squares += size * size;
    }
    const auto all = static_cast<double>(tiles_.servers * (tiles_.servers - 1));
    return squares > 0 ? bytes * bytes / squares / all : 1.0;
}

std::int32_t TwoTierTimes::lane_flows(Way way, double slices) const {
    const std::int32_t few = usual_flows(tiles_.servers);
    const bool has_many = way == Way::kBurst && tiles_.servers > 2 && slices >= kSlicesPerFlow * few;
    return has_many && costs_.is_switched && likeness() < kAlike ? 2 * few : few;
}

std::vector<std::int64_t> TwoTierTimes::slice_bytes(Way way, double slices) const {
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
    std::vector<std::int64_t> sizes(tiles_.servers, 0);
    for (std::size_t src = 0; src < tiles_.servers; ++src) {
        double bytes = std::max(busiest / stage_parts, kStageSlice * std::sqrt(busiest * overhead));
        if (way != Way::kStaged) {
            const double lanes = way == Way::kDetour ? width * width : width;
            const double lane = static_cast<double>(out[src]) / lanes / std::max(1.0, static_cast<double>(partners[src]));
            const double least = (way == Way::kDetour ? kDetourSlice : kBurstSlice) * std::sqrt(busiest * overhead);
            bytes = std::max({lane / slices, busiest / kMostSliceParts, least});
        }
        sizes[src] = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes));
    }
    return sizes;
}

}  // namespace interlock
