#include "interlock/two_tier/ledger.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "interlock/two_tier/constants.hpp"

namespace interlock {
namespace {

constexpr std::int64_t kParts = 1 << 20;  // of a lane, to tell how much of it a slice is

}  // namespace

Ledger::Ledger(std::span<const std::int64_t> demand, const TwoTierCosts& costs, const Ports& ports)
    : costs_(costs),
      ports_(ports),
      demand_(demand),
      tiles_(sum_tiles(demand, ports.servers, ports.width)),
      loads_(rank_loads(tiles_)),
      ranks_(ports.ranks()),
      rate_(ports.rates()),
      cut_s_(floor_seconds(loads_, ports_)),
      uplink_(ports.server_uplink()) {
    if (ports.is_mesh && ports.width > 1) {
        std::int64_t most = 0;
        for (std::size_t src = 0; src < ranks_; ++src) {
            const std::size_t first = src / ports.width * ports.width;
            for (std::size_t dst = first; dst < first + ports.width; ++dst) {
                if (src != dst) most = std::max(most, demand[src * ranks_ + dst]);
            }
        }
        pair_s_ = static_cast<double>(most) * static_cast<double>(ports.width - 1) / ports.scale_up +
                  (most > 0 ? costs.message_overhead_s + costs.scale_up_latency_s : 0.0);
    }
    crowd_ = crowd_factor();
}

double Ledger::goodput(double senders, double bytes_per_sender) const {
    if (costs_.fan_in == 0 || senders <= 1) return 1.0;
    // Between whole numbers of senders, the time that both take.
    const auto few = static_cast<std::int32_t>(senders);
    const double part = senders - few;
    if (part == 0) return costs_.congestion.goodput(few, bytes_per_sender);
    return (1 - part) * costs_.congestion.goodput(few, bytes_per_sender) +
           part * costs_.congestion.goodput(few + 1, bytes_per_sender);
}

double Ledger::crowd_factor() const {
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
            const std::int64_t bytes = demand_[src * ranks_ + dst];
            if (src / ports_.width != dst / ports_.width && bytes > 0) from.push_back(static_cast<double>(bytes));
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

double Ledger::rail_uplink_seconds() const {
    if (!ports_.is_hashed() || tiles_.servers == 1) return 0;
    const std::vector<double> rate = ports_.rates();
    std::vector<double> load(rate.size(), 0.0);
    double most = 0;
    for (std::size_t tile = 0; tile < tiles_.bytes.size(); ++tile) {
        const std::size_t src = tile / tiles_.servers, dst = tile % tiles_.servers;
        if (src == dst || tiles_.bytes[tile] == 0) continue;
        for (std::size_t gpu = 0; gpu < tiles_.width; ++gpu) {
            const auto out = static_cast<std::int32_t>(src * tiles_.width + gpu),
                       in = static_cast<std::int32_t>(dst * tiles_.width + gpu);
            const RoutePorts on(ports_, {out, in, out, in, -1});
            for (const std::size_t port : on.all()) {
                load[port] += static_cast<double>(tiles_.bytes[tile]) / static_cast<double>(tiles_.width);
                if (port >= ports_.first_uplink()) most = std::max(most, load[port] / rate[port]);
            }
        }
    }
    return most;
}

std::vector<double> Ledger::busy_seconds() const {
    std::vector<double> busy(ranks_);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
        busy[rank] = costs_.message_overhead_s * tiles_.num_far[rank] + (is_idle(rank) ? costs_.stage_overhead_s : 0.0);
    }
    return busy;
}

double Ledger::near_seconds() const {
    std::int64_t most = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank)
        most = std::max({most, loads_.out_near[rank], loads_.in_near[rank]});
    if (most == 0) return 0;
    return static_cast<double>(most) / ports_.scale_up +
           costs_.message_overhead_s * static_cast<double>(ports_.width - 1) + costs_.scale_up_latency_s;
}

bool Ledger::goes_straight() const {
    if (ports_.scale_out != ScaleOut::kRail) return true;
    for (std::size_t src = 0; src < ranks_; ++src) {
        for (std::size_t dst = 0; dst < ranks_; ++dst) {
            if (src / ports_.width != dst / ports_.width && src % ports_.width != dst % ports_.width &&
                demand_[src * ranks_ + dst] > 0)
                return false;
        }
    }
    return true;
}

double Ledger::direct_seconds() const {
    // Uplinks that pairs share are counted up to a cap.
    if (!goes_straight() || (!ports_.joins_own() && ports_.ranks() > kMostInDetail)) return kNever;
    double most = 0;
    const double crowd = crowd_;
    // A NIC begins all its messages before the first byte leaves: until then nothing reaches uplinks and receivers.
    std::int32_t fewest = std::numeric_limits<std::int32_t>::max();
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
        if (loads_.out_far[rank] > 0) fewest = std::min(fewest, tiles_.num_far[rank]);
    }
    const double begun_s = costs_.message_overhead_s * fewest;
    if (tiles_.largest_far > 0) {
        most = begun_s + uplink_seconds(false);
        if (ports_.couples_ends() && ports_.ranks() <= kMostInDetail)
            most = begun_s + assign_bytes(demand_, loads_, ports_, {.may_loop = false, .may_move = false}).nic_s;
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
        const std::int64_t out = loads_.out_far[rank], in = loads_.in_far[rank];
        if (out == 0 && in == 0) continue;
        if (ports_.nic[rank] <= 0) return kNever;
        most = std::max({most,
                         static_cast<double>(out) / ports_.nic[rank] + costs_.message_overhead_s * tiles_.num_far[rank],
                         static_cast<double>(in) / (ports_.nic[rank] * ports_.efficiency) * crowd + begun_s});
    }
    if (most > 0) most += costs_.scale_out_latency_s;
    return costs_.stage_overhead_s + std::max({most, near_seconds(), pair_s_});
}

double Ledger::uplink_seconds(bool is_balanced) const {
    if (uplink_ <= 0) return 0;
    double most = 0;
    std::vector<double> bytes(tiles_.width);
    for (std::size_t first = 0; first < ranks_; first += tiles_.width) {
        for (const auto* far : {&loads_.out_far, &loads_.in_far}) {
            for (std::size_t gpu = 0; gpu < tiles_.width; ++gpu) bytes[gpu] = static_cast<double>((*far)[first + gpu]);
            if (is_balanced) {
                most = std::max(most, std::accumulate(bytes.begin(), bytes.end(), 0.0) / uplink_);
                continue;
            }
            // NICs share it evenly: those with least are done first, and what is left cannot use all of it.
            std::ranges::sort(bytes);
            const double nic =
                *std::max_element(ports_.nic.begin() + static_cast<std::ptrdiff_t>(first),
                                  ports_.nic.begin() + static_cast<std::ptrdiff_t>(first + tiles_.width));
            double seconds = 0, before = 0;
            for (std::size_t n = 0; n < bytes.size() && nic > 0; ++n) {
                const double rate = std::min(nic, uplink_ / static_cast<double>(bytes.size() - n));
                seconds += (bytes[n] - before) / rate;
                before = bytes[n];
            }
            most = std::max(most, seconds);
        }
    }
    return most;
}

bool Ledger::is_idle(std::size_t rank) const { return loads_.out_far[rank] + loads_.out_near[rank] == 0; }

double Ledger::balanced_seconds(const Slicing& cut, bool is_crowded) const {
    double most = 0;
    for (std::size_t server = 0; server < tiles_.servers; ++server) {
        double out = 0, in = 0, rate = 0, messages = 0, squares = 0;
        for (std::size_t rank = server * tiles_.width; rank < (server + 1) * tiles_.width; ++rank) {
            out += static_cast<double>(loads_.out_far[rank]);
            in += static_cast<double>(loads_.in_far[rank]);
            rate += ports_.nic[rank];
        }
        if (out + in == 0) continue;
        const double lane = static_cast<double>(cut.bytes[server]) * static_cast<double>(tiles_.width);
        for (std::size_t other = 0; other < tiles_.servers; ++other) {
            if (other == server) continue;
            messages += std::ceil(static_cast<double>(tiles_.bytes[server * tiles_.servers + other]) / lane);
            const auto from = static_cast<double>(tiles_.bytes[other * tiles_.servers + server]);
            squares += from * from;
        }
        if (uplink_ > 0) rate = std::min(rate, uplink_);
        if (rate <= 0) return kNever;
        const double good =
            is_crowded && squares > 0 ? goodput(in * in / squares, static_cast<double>(cut.bytes[server])) : 1.0;
        const double late = has_idle_helper(server) ? costs_.stage_overhead_s : 0.0;
        most = std::max(
            {most, out / rate + costs_.message_overhead_s * messages + late, in / (rate * ports_.efficiency) / good});
    }
    return std::max({most, cut_s_, rail_uplink_seconds()});
}

bool Ledger::has_idle_helper(std::size_t server) const {
    bool is_idle = false, has_far = false;
    for (std::size_t rank = server * tiles_.width; rank < (server + 1) * tiles_.width; ++rank) {
        is_idle = is_idle || (ports_.nic[rank] > 0 && loads_.out_far[rank] + loads_.out_near[rank] == 0);
        has_far = has_far || loads_.out_far[rank] > 0;
    }
    return is_idle && has_far;
}

double Ledger::restore_seconds() const {
    std::int64_t most = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) most = std::max(most, loads_.in_far[rank]);
    return static_cast<double>(most) * (1.0 - 1.0 / static_cast<double>(ports_.width)) / ports_.scale_up;
}

bool Ledger::is_balanced() const {
    for (std::size_t first = 0; first < ranks_; first += ports_.width) {
        const auto out = std::span(loads_.out_far).subspan(first, ports_.width);
        if (std::ranges::any_of(out, [&](std::int64_t bytes) { return bytes != out[0]; })) return false;
    }
    return true;
}

double Ledger::stage_port_seconds() const {
    const auto width = static_cast<double>(ports_.width);
    std::vector<double> out(tiles_.servers, 0.0), in(tiles_.servers, 0.0);
    for (std::size_t tile = 0; tile < tiles_.bytes.size(); ++tile) {
        const std::size_t src = tile / tiles_.servers, dst = tile % tiles_.servers;
        if (src == dst || tiles_.bytes[tile] == 0) continue;
        const double share = static_cast<double>(tiles_.bytes[tile]) / width;
        double gives = 0, gets = 0, nics = 0;
        for (std::size_t gpu = 0; gpu < ports_.width; ++gpu) {
            gives = std::max(
                gives, static_cast<double>(tiles_.sent[(src * ports_.width + gpu) * tiles_.servers + dst]) - share);
            gets = std::max(
                gets, static_cast<double>(tiles_.received[src * ranks_ + dst * ports_.width + gpu]) * (1 - 1 / width));
            nics += std::min(ports_.nic[src * ports_.width + gpu], ports_.nic[dst * ports_.width + gpu]);
        }
        if (nics <= 0) continue;
        const double wire = share * width / nics;
        out[src] += std::max(0.0, gives / ports_.scale_up - wire);
        in[dst] += std::max(0.0, gets / ports_.scale_up - wire);
    }
    return std::max(std::ranges::max(out), std::ranges::max(in));
}

double Ledger::likeness() const {
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

double Ledger::most_port_seconds() const {
    const auto width = static_cast<double>(ports_.width);
    double most = 0;
    for (std::size_t first = 0; first < ranks_; first += ports_.width) {
        double in = 0, out = 0;
        for (std::size_t rank = first; rank < first + ports_.width; ++rank) {
            in += static_cast<double>(loads_.in_far[rank]) / width;
            out += static_cast<double>(loads_.out_far[rank]) / width;
        }
        for (std::size_t rank = first; rank < first + ports_.width; ++rank) {
            const auto sends = static_cast<double>(loads_.out_far[rank]),
                       receives = static_cast<double>(loads_.in_far[rank]);
            const double up = static_cast<double>(loads_.out_near[rank]) + std::max(sends - out, 0.0) + in;
            const double down = static_cast<double>(loads_.in_near[rank]) + std::max(out - sends, 0.0) + receives;
            most = std::max({most, up, down});
        }
    }
    return most / ports_.scale_up;
}

bool Ledger::ports_matter() const {
    return ports_.width > 1 && (ports_.is_mesh || most_port_seconds() > kPortsMatter * cut_s_);
}

double Ledger::burst_seconds(const Slicing& cut, const PortLevels& levels) const {
    const double wire = std::max(balanced_seconds(cut, true), levels.nic_s);
    if (wire <= 0) return costs_.stage_overhead_s + near_seconds();
    const double partners = std::max(1.0, static_cast<double>(tiles_.servers) - 1);
    // The last slice of a lane leaves when the one before it has arrived, with a single partner those before it too.
    const double waits = partners == 1 ? 2 : 1;
    // Lanes that are alike end together: the last slices of all have nothing to hide behind.
    const auto slices = static_cast<std::int64_t>(cut.slices);
    const double part = 1 - static_cast<double>(slice_start(kParts, slices - 1, slices)) / kParts;
    const double last = ports_.width == 1 ? 0.0 : restore_seconds() * part * likeness() + move_seconds();
    return costs_.stage_overhead_s +
           std::max({near_seconds(), levels.up_s, wire + costs_.scale_out_latency_s * (1 + waits) + last});
}

double Ledger::staged_seconds(const Stages& stages, const PortLevels& levels) const {
    if (stages.segments.empty()) return costs_.stage_overhead_s + near_seconds();
    // A NIC begins a message in every stage. What neighbours must give it comes before the first; for later stages it
    // hides behind the wire.
    const double wire = std::max({stages.seconds / ports_.efficiency, cut_s_, levels.nic_s, uplink_seconds(true),
                                  rail_uplink_seconds()}) +
                        costs_.message_overhead_s * stages.num_stages + (is_balanced() ? 0.0 : move_seconds());
    double late = 0;
    for (std::size_t server = 0; server < tiles_.servers; ++server)
        late = std::max(late, has_idle_helper(server) ? costs_.stage_overhead_s : 0.0);
    const double last = ports_.width == 1 ? 0.0 : restore_seconds() * kRampSteps / kMostSlices + move_seconds();
    return std::max(
        {near_seconds(), costs_.stage_overhead_s + levels.up_s, wire + late + costs_.scale_out_latency_s + last});
}

double Ledger::window_seconds(const Slicing& cut, const PortLevels& levels) const {
    const double wire = std::max(balanced_seconds(cut, false), levels.nic_s);
    if (wire <= 0) return costs_.stage_overhead_s + near_seconds();
    // Every slice waits for the arrival of the one before, in one lane after the other.
    const double turns = (static_cast<double>(tiles_.servers) - 1) / std::max(1, costs_.fan_in) * cut.slices;
    const double last = ports_.width == 1 ? 0.0 : restore_seconds() * kExposed / cut.slices + move_seconds();
    return costs_.stage_overhead_s +
           std::max({near_seconds(), levels.up_s, wire + costs_.scale_out_latency_s * (1 + turns) + last});
}

double Ledger::detour_seconds(const PortLevels& levels) const {
    // What the last slices bring has nothing to hide behind.
    const double last = levels.last_part > 0 ? levels.passed_s * levels.last_part + 2 * move_seconds() : 0.0;
    const double wire = levels.nic_s * crowd_ + costs_.scale_out_latency_s + last;
    return costs_.stage_overhead_s + std::max(wire, levels.up_s + costs_.scale_up_latency_s);
}

double Ledger::least_staged_seconds(bool opens_each) const {
    double most = costs_.stage_overhead_s + cut_s_;
    // A server opens as many stages as it has partners; who only receives waits for one.
    for (std::size_t server = 0; opens_each && server < tiles_.servers; ++server) {
        double partners = 0, bytes = 0, rate = 0;
        for (std::size_t other = 0; other < tiles_.servers; ++other) {
            const std::int64_t owed = other == server ? 0 : tiles_.bytes[server * tiles_.servers + other];
            partners += owed > 0;
            bytes += static_cast<double>(owed);
        }
        for (std::size_t gpu = 0; gpu < tiles_.width; ++gpu) rate += ports_.nic[server * tiles_.width + gpu];
        if (bytes > 0 && rate > 0) most = std::max(most, partners * costs_.stage_overhead_s + bytes / rate);
    }
    return most + costs_.scale_out_latency_s;
}

double Ledger::least_detour_seconds() const {
    return costs_.stage_overhead_s + cut_s_ + std::min(costs_.scale_out_latency_s, move_seconds());
}

}  // namespace interlock
