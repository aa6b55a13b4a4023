#include "interlock/two_tier_times.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace interlock {
namespace {

// Fitted to simulations of 24 loads on 2 to 16 servers at 4.5:1 and 2:1 (benchmarks/bench_quality.py).
constexpr double kLowRatio = 3.0;
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
constexpr std::size_t kFewToWait = 4;  // servers up to which two slices of a lane are in flight, and equal lanes hardly wait
constexpr double kStageGap = 0.1;  // of a stage's cost, that partners with unlike loads lose once more
// Senders of a detour's receiver beside its own: at most, and in parts of the slices that the busiest NIC sends.
constexpr double kSendersMore = 1.03;  // of a burst's receiver, while it lasts, than its bytes tell
constexpr double kSlicesPerFlow = 8;  // of a typical lane, from which it may have twice the flows
constexpr double kAlike = 0.93;       // likeness of tiles from which it need not
constexpr std::size_t kMostCoupled = 128;
constexpr std::int64_t kMostFlows = 16;  // of one lane, on the wire at once
constexpr double kFlowsCost = 0.005;  // of a NIC's time that the messages of these may cost
constexpr double kWaiting = 0.08;  // of the time in which NICs and scale-up ports are both busy, that one waits for the other
constexpr double kLongSlice = 10;  // latencies that a slice takes, from which one at a time keeps the wire busy
constexpr double kFreeSlices = 128;  // of one NIC's traffic, where messages cost nothing
// A staged plan's slices are this part of the busiest NIC's load. From 13 servers on many of them end up in the last moves
// of a hot receiver, and twice as many pay; from 25 on most segments are smaller than that.
constexpr double kStageParts = 48;
// Finer slices hide more of the last moves, each costs its overhead: best where both grow alike, fitted at 1 to 64 MB.
constexpr double kStageSlice = 3.7, kBurstSlice = 0.5, kDetourSlice = 1.0;
constexpr double kMostSliceParts = 512;  // no slice is smaller than this part of the busiest NIC's load

}  // namespace

TwoTierTimes::TwoTierTimes(std::span<const std::int64_t> demand, const Rates& rates, const TwoTierCosts& costs,
                           const Ports& ports)
    : rates_(rates),
      costs_(costs),
      ports_(ports),
      demand_(demand),
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

double TwoTierTimes::goodput(double senders, double bytes_per_sender) const {
    if (costs_.fan_in == 0 || senders <= 1) return 1.0;
    // Between whole numbers of senders, the time that both take.
    const auto few = static_cast<std::int32_t>(senders);
    const double part = senders - few;
    return (1 - part) * costs_.congestion.goodput(few, bytes_per_sender) + part * costs_.congestion.goodput(few + 1, bytes_per_sender);
}

double TwoTierTimes::crowd_factor(std::span<const std::int64_t> demand) const {
    if (costs_.fan_in == 0) return 1.0;
    std::vector<std::size_t> busiest(ranks_);
    std::iota(busiest.begin(), busiest.end(), std::size_t{0});
    const std::size_t looked_at = std::min<std::size_t>(8, ranks_);
    std::ranges::partial_sort(busiest, busiest.begin() + static_cast<std::ptrdiff_t>(looked_at),
                              [&](std::size_t a, std::size_t b) { return loads_.in_far[a] > loads_.in_far[b]; });
    busiest.resize(looked_at);
    double most = 0, least = 0;
    std::vector<double> from;
    for (const std::size_t dst : busiest) {
        from.clear();
        for (std::size_t src = 0; src < ranks_; ++src) {
            const std::int64_t bytes = demand[src * ranks_ + dst];
            if (src / rates_.width != dst / rates_.width && bytes > 0) from.push_back(static_cast<double>(bytes));
        }
        // Senders share the port evenly: the smallest leave first, and the loss shrinks.
        std::ranges::sort(from);
        double sum = std::accumulate(from.begin(), from.end(), 0.0), bytes = 0, before = 0;
        for (std::size_t n = 0; n < from.size(); ++n) {
            const auto left = static_cast<double>(from.size() - n);
            bytes += (from[n] - before) * left / goodput(left, sum / left);
            sum -= from[n];
            before = from[n];
        }
        const double whole = std::accumulate(from.begin(), from.end(), 0.0);
        most = std::max(most, bytes);
        least = std::max(least, whole);
    }
    return least > 0 ? most / least : 1.0;
}

double TwoTierTimes::rail_uplink_seconds() const {
    if (!ports_.is_hashed() || tiles_.servers == 1) return 0;
    const std::vector<double> rate = ports_.rates();
    std::vector<double> load(rate.size(), 0.0);
    double most = 0;
    for (std::size_t tile = 0; tile < tiles_.bytes.size(); ++tile) {
        const std::size_t src = tile / tiles_.servers, dst = tile % tiles_.servers;
        if (src == dst || tiles_.bytes[tile] == 0) continue;
        for (std::size_t gpu = 0; gpu < tiles_.width; ++gpu) {
            const auto out = static_cast<std::int32_t>(src * tiles_.width + gpu), in = static_cast<std::int32_t>(dst * tiles_.width + gpu);
            const RoutePorts on(ports_, {out, in, out, in, -1});
            for (const std::size_t port : on.all()) {
                load[port] += static_cast<double>(tiles_.bytes[tile]) / static_cast<double>(tiles_.width);
                if (port >= ports_.first_uplink()) most = std::max(most, load[port] / rate[port]);
            }
        }
    }
    return most;
}

std::vector<double> TwoTierTimes::busy_seconds() const {
    std::vector<double> busy(ranks_);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
        busy[rank] = costs_.message_overhead_s * tiles_.num_far[rank] + (is_idle(rank) ? costs_.stage_overhead_s : 0.0);
    }
    return busy;
}

std::int64_t TwoTierTimes::flow_bytes() const {
    const double least = costs_.message_overhead_s / kFlowsCost * *std::ranges::max_element(rates_.nic);
    return std::max<std::int64_t>({1, tiles_.largest_far / kMostFlows, static_cast<std::int64_t>(least)});
}

std::int64_t TwoTierTimes::pair_bytes() const {
    std::int64_t most = 1;
    for (std::size_t first = 0; first < ranks_; first += rates_.width) {
        std::int64_t bytes = 0, pairs = 0;
        for (std::size_t rank = first; rank < first + rates_.width; ++rank) {
            bytes += loads_.out_far[rank];
            pairs += tiles_.num_far[rank];
        }
        if (pairs > 0) most = std::max(most, bytes / pairs);
    }
    return most;
}

double TwoTierTimes::near_seconds() const {
    std::int64_t most = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) most = std::max({most, loads_.out_near[rank], loads_.in_near[rank]});
    if (most == 0) return 0;
    return static_cast<double>(most) / rates_.scale_up +
           costs_.message_overhead_s * static_cast<double>(rates_.width - 1) + costs_.scale_up_latency_s;
}

double TwoTierTimes::direct_seconds(std::span<const std::int64_t> demand) const {
    double most = 0;
    const double crowd = crowd_factor(demand);
    if (ports_.couples_ends() && ports_.ranks() <= kMostCoupled) {
        const Assignment own = assign_bytes(demand, loads_, ports_, {0.0, {}, 0.0, false, false});
        most = own.nic_s;
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
        const std::int64_t out = loads_.out_far[rank], in = loads_.in_far[rank];
        if (out == 0 && in == 0) continue;
        if (rates_.nic[rank] <= 0 || !costs_.crosses_rails) return kNever;
        most = std::max({most, static_cast<double>(out) / rates_.nic[rank] + costs_.message_overhead_s * tiles_.num_far[rank],
                         static_cast<double>(in) / (rates_.nic[rank] * ports_.efficiency) * crowd});
    }
    most = std::max(most, uplink_seconds());
    if (most > 0) most += costs_.scale_out_latency_s;
    return costs_.stage_overhead_s + std::max({most, near_seconds(), pair_s_});
}

double TwoTierTimes::uplink_seconds() const {
    if (costs_.uplink_bytes_per_s <= 0) return 0;
    double most = 0;
    for (std::size_t server = 0; server < tiles_.servers; ++server) {
        double out = 0, in = 0;
        for (std::size_t rank = server * tiles_.width; rank < (server + 1) * tiles_.width; ++rank) {
            out += static_cast<double>(loads_.out_far[rank]);
            in += static_cast<double>(loads_.in_far[rank]);
        }
        most = std::max(most, std::max(out, in) / costs_.uplink_bytes_per_s);
    }
    return most;
}

double TwoTierTimes::detour_seconds(const Assignment& spread, double slices) const {
    const std::size_t width = rates_.width;
    const auto flow = static_cast<double>(flow_bytes()), slice = static_cast<double>(std::ranges::max(slice_bytes(Way::kDetour, slices)));
    const double mean = std::max(1.0, mean_partners());
    // Slices of a lane one after the other.
    const auto turns = [&](double lane) {
        const double many = std::clamp(lane / slice, 1.0, 128.0), flows = std::max(1.0, std::round(lane / flow));
        return flows > 1 ? std::max(many / flows, 4.0) : many;
    };
    // What the last slices bring has nothing to hide behind; half of it is there when the last wire ends.
    std::vector<double> restored(ranks_ * width, 0.0);  // to each rank, by the GPU index that passes it on
    const bool hops = spread.has_hops;
    bool waits = false;
    const auto add = [&](std::size_t rank, std::size_t gpu, double bytes) {
        restored[rank * width + gpu] += bytes;
        waits = waits || is_idle(rank / width * width + gpu);
    };
    for (std::size_t cell = 0; cell < spread.in_bytes.size(); ++cell) {
        const std::size_t rank = cell / width, gpu = cell % width;
        if (rank % width == gpu) continue;
        if (loads_.in_far[rank] > 0 && spread.in_bytes[cell] > 0) add(rank, gpu, static_cast<double>(spread.in_bytes[cell]));
    }
    for (const auto& [route, bytes] : spread.far) {
        if (route.in != route.to) add(static_cast<std::size_t>(route.to), static_cast<std::size_t>(route.in) % width, static_cast<double>(bytes));
    }
    double last = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
        const auto from = std::span(restored).subspan(rank * width, width);
        const double bytes = ports_.is_mesh ? *std::ranges::max_element(from) : std::accumulate(from.begin(), from.end(), 0.0);
        if (bytes > 0) last = std::max(last, bytes / turns(static_cast<double>(loads_.in_far[rank]) / mean) / ports_.link_rate() / 2);
    }
    const double crowd = costs_.fan_in > 0 ? crowd_factor(demand_) : 1.0;
    const double move = costs_.scale_up_latency_s + 2 * costs_.message_overhead_s;
    const double late = waits ? costs_.stage_overhead_s : 0.0;
    // NICs and ports that are both busy wait for each other now and then.
    const double waiting = hops ? kWaiting * std::min(spread.nic_s, spread.up_s) : 0.0;
    const double wire = spread.nic_s > 0 ? spread.nic_s * crowd + waiting + costs_.scale_out_latency_s + (hops ? last + 2 * move + late : 0.0) : 0.0;
    return costs_.stage_overhead_s + std::max(wire, spread.up_s + waiting + move + (hops ? costs_.scale_out_latency_s + move : 0.0));
}

double TwoTierTimes::least_detour_seconds() const {
    const double move = costs_.scale_up_latency_s + 2 * costs_.message_overhead_s;
    return costs_.stage_overhead_s + floor_seconds(loads_, ports_) + std::min(costs_.scale_out_latency_s, move);
}

bool TwoTierTimes::is_idle(std::size_t rank) const { return loads_.out_far[rank] + loads_.out_near[rank] == 0; }

double TwoTierTimes::nics_seconds(std::size_t server) const {
    double out = 0, in = 0, rate = 0;
    for (std::size_t rank = server * tiles_.width; rank < (server + 1) * tiles_.width; ++rank) {
        out += static_cast<double>(loads_.out_far[rank]);
        in += static_cast<double>(loads_.in_far[rank]);
        rate += rates_.nic[rank];
    }
    return rate > 0 ? std::max(out, in) / rate : 0.0;
}

double TwoTierTimes::mean_partners() const {
    const double all = std::accumulate(tiles_.num_far.begin(), tiles_.num_far.end(), 0.0);
    return all / static_cast<double>(ranks_);
}

bool TwoTierTimes::has_low_ratio() const { return rates_.scale_up < kLowRatio * *std::ranges::max_element(rates_.nic); }

double TwoTierTimes::burst_port_seconds(bool is_relieved) const {
    const auto width = static_cast<double>(rates_.width);
    const double enough = cut_s_ * rates_.scale_up;
    double most = 0;
    std::vector<double> up(rates_.width), down(rates_.width), up_least(rates_.width), down_least(rates_.width),
        gives(rates_.width), takes(rates_.width);
    for (std::size_t first = 0; first < ranks_; first += rates_.width) {
        const std::size_t server = first / rates_.width;
        double in = 0;
        for (std::size_t rank = first; rank < first + rates_.width; ++rank) in += static_cast<double>(loads_.in_far[rank]) / width;
        std::ranges::fill(gives, 0.0);
        std::ranges::fill(takes, 0.0);
        // Every tile is shared out by itself: what a GPU has too much of for one server does not make up for another.
        for (std::size_t other = 0; other < tiles_.servers; ++other) {
            if (other == server) continue;
            const double share = static_cast<double>(tiles_.bytes[server * tiles_.servers + other]) / width;
            for (std::size_t gpu = 0; gpu < rates_.width; ++gpu) {
                const auto own = static_cast<double>(tiles_.sent[(first + gpu) * tiles_.servers + other]);
                gives[gpu] += std::max(0.0, own - share);
                takes[gpu] += std::max(0.0, share - own);
            }
        }
        for (std::size_t gpu = 0; gpu < rates_.width; ++gpu) {
            const std::size_t rank = first + gpu;
            const auto receives = static_cast<double>(loads_.in_far[rank]), nic = rates_.nic[rank] * cut_s_;
            // Near bytes can take NICs as well, where those of a server reach each other.
            const auto least = [&](std::int64_t near, double far) { return static_cast<double>(near) + (joins_own_ ? far - nic : std::max(0.0, far - nic)); };
            up_least[gpu] = least(loads_.out_near[rank], static_cast<double>(loads_.out_far[rank]));
            up[gpu] = static_cast<double>(loads_.out_near[rank]) + gives[gpu] + in * (1 - 1 / width);
            down_least[gpu] = least(loads_.in_near[rank], receives);
            down[gpu] = static_cast<double>(loads_.in_near[rank]) + takes[gpu] + receives * (1 - 1 / width);
        }
        // Own bytes may keep to a GPU's own NIC, and others' take other NICs.
        const auto relieved = [&](double all, double least) { return is_relieved ? std::min(all, std::max(least, enough)) : all; };
        for (std::size_t gpu = 0; gpu < rates_.width; ++gpu) {
            most = std::max({most, relieved(up[gpu], up_least[gpu]), relieved(down[gpu], down_least[gpu])});
        }
    }
    return most / rates_.scale_up;
}

bool TwoTierTimes::is_port_bound() const {
    // Between two servers swaps relieve such ports (`even_ports`).
    if (tiles_.servers == 2 || tiles_.servers > kFewToDetour || costs_.fan_in > 0) return false;
    double nics = 0;
    for (std::size_t server = 0; server < tiles_.servers; ++server) nics = std::max(nics, nics_seconds(server));
    return nics < kMostNics * cut_s_ && burst_port_seconds(false) > cut_s_;
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
        const double good = is_limited && squares > 0 ? goodput(in * in / squares * kSendersMore, static_cast<double>(slice[server])) : 1.0;
        const double late = has_idle_helper(server) ? costs_.stage_overhead_s : 0.0;
        most = std::max({most, out / rate + costs_.message_overhead_s * messages + late, in / (rate * ports_.efficiency) / good});
    }
    return std::max({most, cut_s_, rail_uplink_seconds()});
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
    // Where scale-up is little faster than scale-out, no port has time to take over from another.
    const double ports = std::max(burst_port_seconds(!has_low_ratio()),
                                  is_port_bound() ? kPortBoundLoss * cut_s_ : 0.0);
    // The next slice of a lane leaves when one before it has arrived, and lanes of one size all wait at once.
    double waits = kFirstWait + (partners > 1 ? 0.0 : kLonePartnerWait) + (slices > 1 ? 0.0 : kLoneSliceWait);
    if (is_balanced() && tiles_.servers > kFewToWait) waits += kSliceWait * (slices - 1);
    const double move = costs_.scale_up_latency_s + 2 * costs_.message_overhead_s;
    const double last = rates_.width == 1 ? 0.0 : restore_seconds() / (slices * partners) + move;
    const double all = wire + costs_.scale_out_latency_s * (1 + waits) + last;
    return costs_.stage_overhead_s + std::max(ports, all);
}

double TwoTierTimes::staged_seconds(const Stages& stages) const {
    if (stages.segments.empty()) return costs_.stage_overhead_s + near_seconds();
    // Partners of one stage do not all start at once, and less so where they have unlike amounts to move.
    const double gap = 2 * costs_.message_overhead_s + (is_balanced() ? 0.0 : kStageGap * costs_.stage_overhead_s);
    const double wire = std::max({stages.seconds / ports_.efficiency, cut_s_, uplink_seconds(), rail_uplink_seconds()}) + gap * stages.num_stages;
    const double late = opening_seconds() - costs_.stage_overhead_s;  // the stages' own costs are in their seconds
    const double waits = kShareWait * largest_lack() * costs_.scale_out_latency_s + late;
    return std::max({near_seconds(), burst_port_seconds(false), wire + stage_port_seconds() + waits + costs_.scale_out_latency_s + hops_seconds(8)});
}

double TwoTierTimes::stage_port_seconds() const {
    const auto width = static_cast<double>(rates_.width);
    std::vector<double> out(tiles_.servers, 0.0), in(tiles_.servers, 0.0);
    for (std::size_t tile = 0; tile < tiles_.bytes.size(); ++tile) {
        const std::size_t src = tile / tiles_.servers, dst = tile % tiles_.servers;
        if (src == dst || tiles_.bytes[tile] == 0) continue;
        const double share = static_cast<double>(tiles_.bytes[tile]) / width;
        double gives = 0, gets = 0, nics = 0;
        for (std::size_t gpu = 0; gpu < rates_.width; ++gpu) {
            gives = std::max(gives, static_cast<double>(tiles_.sent[(src * rates_.width + gpu) * tiles_.servers + dst]) - share);
            gets = std::max(gets, static_cast<double>(tiles_.received[src * ranks_ + dst * rates_.width + gpu]) * (1 - 1 / width));
            nics += std::min(rates_.nic[src * rates_.width + gpu], rates_.nic[dst * rates_.width + gpu]);
        }
        if (nics <= 0) continue;
        const double wire = share * width / nics;
        out[src] += std::max(0.0, gives / rates_.scale_up - wire);
        in[dst] += std::max(0.0, gets / rates_.scale_up - wire);
    }
    return std::max(std::ranges::max(out), std::ranges::max(in));
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
    return costs_.stage_overhead_s + std::max(std::max(near_seconds(), burst_port_seconds(false)), 1.03 * wire + costs_.scale_out_latency_s * (1 + turns) +
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
    if (way == Way::kDetour) {
        // Two keep the wire busy while an arrival is on its way, where that is long beside a slice.
        const double slice_s = static_cast<double>(std::ranges::max(slice_bytes(way, slices))) / *std::ranges::max_element(rates_.nic);
        return slice_s < kLongSlice * costs_.scale_out_latency_s ? 2 : 1;
    }
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
