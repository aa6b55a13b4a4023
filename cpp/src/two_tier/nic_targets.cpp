#include "interlock/two_tier/nic_targets.hpp"

#include <algorithm>
#include <utility>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier/lanes.hpp"

namespace interlock {
namespace {

constexpr double kPortShare = 0.96;  // of a scale-up port's time that a plan may count on
constexpr double kPressed = 0.7;    // of it, from which a port should never idle
constexpr double kHelpShare = 0.8;  // of it, that leaves room for others' bytes

std::int64_t sum(std::span<const std::int64_t> values) {
    std::int64_t total = 0;
    for (const std::int64_t value : values) total += value;
    return total;
}

/// What NICs carry in one direction, and what the scale-up ports of that direction and of the other one do beside it.
struct Direction {
    const std::vector<std::int64_t>&far, &near;              // [ranks]
    const std::vector<std::int64_t>&other_far, &other_near;  // [ranks] the same, the other way
};

/// What each NIC may carry, [ranks].
struct Limits {
    std::vector<double> equal;        // its share of the server's bytes, by rate
    std::vector<double> least, most;  // that its GPU's scale-up port asks for and allows
    std::vector<std::uint8_t> is_short;  // whether that is less than its share
};

/// @param helped [ranks] others' bytes that the port of this direction passes on beside its own; empty: none
Limits port_limits(const Direction& way, const Rates& rates, double seconds, std::span<const double> helped) {
    const std::size_t ranks = rates.nic.size();
    const double port = seconds * rates.scale_up, others = 1.0 - 1.0 / static_cast<double>(rates.width);
    Limits limits{std::vector<double>(ranks, 0), std::vector<double>(ranks, 0), std::vector<double>(ranks, 0),
                  std::vector<std::uint8_t>(ranks, 0)};
    std::vector<double> full(rates.width, 0);  // what a NIC may carry when its GPU's port is busy to the end
    for (std::size_t first = 0; first < ranks; first += rates.width) {
        double rate = 0;
        for (std::size_t rank = first; rank < first + rates.width; ++rank) rate += rates.nic[rank];
        const auto bytes = static_cast<double>(sum(std::span(way.far).subspan(first, rates.width)));
        double lacking = bytes, port_room = 0, room = 0;
        for (std::size_t rank = first; rank < first + rates.width; ++rank) {
            const double nic = rates.nic[rank] * seconds;
            const auto far = static_cast<double>(way.far[rank]),
                       near = static_cast<double>(way.near[rank]);
            limits.equal[rank] = rate > 0 ? bytes * rates.nic[rank] / rate : 0;
            // Its own bytes that do not fit through the scale-up port must take its own NIC.
            const double own = far + near + (helped.empty() ? 0.0 : helped[rank]);
            limits.least[rank] = std::clamp(own - kPortShare * port, 0.0, std::min(far, nic));
            // Others' bytes come in, or go on, through the port of the other direction.
            const double busy = static_cast<double>(way.other_near[rank]) +
                                others * static_cast<double>(way.other_far[rank]);
            const auto most = [&](double share) {
                return std::max(limits.least[rank], std::min(nic, far + std::max(0.0, share * port - busy)));
            };
            limits.most[rank] = most(kHelpShare);
            full[rank - first] = most(kPortShare);
            limits.is_short[rank] = limits.most[rank] < limits.equal[rank];
            lacking -= limits.most[rank];
            port_room += full[rank - first] - limits.most[rank];
            room += nic - full[rank - first];
        }
        // Where the others cannot take it all, those that are short must help after all: first those whose ports have
        // time.
        const double raised = port_room > 0 ? std::clamp(lacking / port_room, 0.0, 1.0) : 0.0;
        lacking -= raised * port_room;
        const double forced = room > 0 ? std::clamp(lacking / room, 0.0, 1.0) : 0.0;
        for (std::size_t rank = first; rank < first + rates.width; ++rank) {
            limits.most[rank] += raised * (full[rank - first] - limits.most[rank]) +
                                 forced * (rates.nic[rank] * seconds - full[rank - first]);
        }
    }
    return limits;
}

/// Shares proportional to rates within [least, most], by raising a common level; `bytes` is what they add up to.
void fill(std::span<const double> rate, std::span<const double> least, std::span<const double> most, double bytes,
          std::span<std::int64_t> target) {
    double low = 0, high = 0;
    for (std::size_t gpu = 0; gpu < rate.size(); ++gpu) {
        if (rate[gpu] > 0) high = std::max(high, bytes / rate[gpu] + 1);
    }
    const auto at = [&](std::size_t gpu, double level) {
        return rate[gpu] > 0 ? std::clamp(level * rate[gpu], least[gpu], std::max(least[gpu], most[gpu])) : 0.0;
    };
    for (int step = 0; step < 40; ++step) {
        const double level = (low + high) / 2;
        double total = 0;
        for (std::size_t gpu = 0; gpu < rate.size(); ++gpu) total += at(gpu, level);
        (total < bytes ? low : high) = level;
    }
    for (std::size_t gpu = 0; gpu < rate.size(); ++gpu)
        target[gpu] = static_cast<std::int64_t>(at(gpu, high)) + (rate[gpu] > 0);
}

/// Whether the NICs of a server are alike and an equal share suits them all.
bool suits_equal(const Limits& limits, const Rates& rates, std::size_t first) {
    for (std::size_t rank = first; rank < first + rates.width; ++rank) {
        if (rates.nic[rank] != rates.nic[first]) return false;
        if (limits.equal[rank] < limits.least[rank] || limits.equal[rank] > limits.most[rank]) return false;
    }
    return true;
}

std::vector<std::int64_t> fill_servers(const Direction& way, const Limits& limits, const Rates& rates) {
    std::vector<std::int64_t> targets(rates.nic.size(), 0);
    for (std::size_t first = 0; first < targets.size(); first += rates.width) {
        if (suits_equal(limits, rates, first)) continue;
        const auto part = [&](const std::vector<double>& values) {
            return std::span(values).subspan(first, rates.width);
        };
        fill(rates.nic.subspan(first, rates.width), part(limits.least), part(limits.most),
             static_cast<double>(sum(std::span(way.far).subspan(first, rates.width))),
             std::span(targets).subspan(first, rates.width));
    }
    return targets;
}

std::vector<std::int64_t> nic_bytes(const Rates& rates, double seconds) {
    std::vector<std::int64_t> bytes;
    for (const double rate : rates.nic) bytes.push_back(static_cast<std::int64_t>(rate * seconds) + (rate > 0));
    return bytes;
}

}  // namespace

RankLoads rank_loads(const Tiles& tiles) {
    const std::size_t ranks = tiles.servers * tiles.width;
    RankLoads loads{std::vector<std::int64_t>(ranks, 0), std::vector<std::int64_t>(ranks, 0),
                    std::vector<std::int64_t>(ranks), std::vector<std::int64_t>(ranks)};
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::size_t server = rank / tiles.width;
        loads.out_near[rank] = tiles.sent[rank * tiles.servers + server];
        loads.in_near[rank] = tiles.received[server * ranks + rank];
        for (std::size_t other = 0; other < tiles.servers; ++other)
            loads.out_far[rank] += tiles.sent[rank * tiles.servers + other];
        loads.out_far[rank] -= loads.out_near[rank];
    }
    for (std::size_t server = 0; server < tiles.servers; ++server) {
        for (std::size_t rank = 0; rank < ranks; ++rank) loads.in_far[rank] += tiles.received[server * ranks + rank];
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) loads.in_far[rank] -= loads.in_near[rank];
    return loads;
}

NicTargets nic_targets(const RankLoads& loads, const Rates& rates, double seconds) {
    require(rates.nic.size() == loads.out_far.size(), "nic rates must be [ranks]");
    const Direction out{loads.out_far, loads.out_near, loads.in_far, loads.in_near};
    const Direction in{loads.in_far, loads.in_near, loads.out_far, loads.out_near};
    // A port passes on what NICs of the other direction carry for others.
    const auto helped = [&](const Direction& way) {
        const Limits limits = port_limits(way, rates, seconds, {});
        std::vector<double> bytes(rates.nic.size(), 0);
        for (std::size_t rank = 0; rank < bytes.size(); ++rank) {
            const double carried = std::min(limits.equal[rank], limits.most[rank]);
            bytes[rank] = std::max(0.0, carried - static_cast<double>(way.far[rank]));
        }
        return bytes;
    };
    const Limits out_limits = port_limits(out, rates, seconds, helped(in));
    const Limits in_limits = port_limits(in, rates, seconds, helped(out));
    // Where either port of a GPU is short, what arrives at its NIC should be its own, more than a fair mix would hold.
    std::vector<std::uint8_t> is_hot;
    const double pressed = kPressed * seconds * rates.scale_up, full = kPortShare * seconds * rates.scale_up;
    const double others = 1.0 - 1.0 / static_cast<double>(rates.width);
    for (std::size_t rank = 0; rank < rates.nic.size(); ++rank) {
        const auto far = static_cast<double>(loads.in_far[rank]), mixed = far / static_cast<double>(rates.width);
        const double given = std::max(0.0, std::min(out_limits.equal[rank], out_limits.most[rank]) -
                                               static_cast<double>(loads.out_far[rank]));
        const bool is_pressed = static_cast<double>(loads.in_near[rank]) + far - mixed + given > pressed;
        const auto near = static_cast<double>(loads.out_near[rank]);
        // A GPU whose own port has no time to pass on what its NIC brings for others.
        const double passes = others * std::min(in_limits.equal[rank], in_limits.most[rank]);
        const double passed_on = std::max(0.0, static_cast<double>(loads.out_far[rank]) - rates.nic[rank] * seconds);
        const bool is_full = near + passed_on + passes > full;
        const bool receives = in_limits.least[rank] > mixed || in_limits.is_short[rank] != 0 || is_pressed || is_full;
        is_hot.push_back(receives ? 1 : 0);
    }
    NicTargets targets{fill_servers(out, out_limits, rates), fill_servers(in, in_limits, rates),
                       nic_bytes(rates, seconds), std::move(is_hot)};
    const auto is_any = [](const auto& values) {
        return std::ranges::any_of(values, [](auto value) { return value != 0; });
    };
    const bool is_even = std::ranges::all_of(rates.nic, [&](double rate) { return rate == rates.nic[0]; });
    if (is_even && !is_any(targets.is_hot) && !is_any(targets.out_bytes) && !is_any(targets.in_bytes)) return {};
    return targets;
}

NicTargets rate_targets(const Rates& rates) {
    NicTargets targets;
    if (std::ranges::all_of(rates.nic, [&](double rate) { return rate == rates.nic[0]; })) return targets;
    targets.most_bytes = nic_bytes(rates, 1.0);
    targets.out_bytes = targets.in_bytes = targets.most_bytes;
    return targets;
}

}  // namespace interlock
