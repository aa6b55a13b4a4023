#include "interlock/nic_targets.hpp"

#include <algorithm>

#include "interlock/errors.hpp"

namespace interlock {
namespace {

constexpr double kPortShare = 0.96;  // of a scale-up port's time that a plan may count on

/// One direction of one server.
struct Side {
    std::span<const std::int64_t> far, near;  // [width] bytes of each GPU
    std::span<const double> nic;              // [width]
};

std::int64_t sum(std::span<const std::int64_t> values) {
    std::int64_t total = 0;
    for (const std::int64_t value : values) total += value;
    return total;
}

/// What a GPU's NIC must carry itself so that its scale-up port is done in time.
double least_direct(const Side& side, std::size_t gpu, double port_bytes) {
    return static_cast<double>(side.far[gpu]) + static_cast<double>(side.near[gpu]) - port_bytes;
}

/// Whether a GPU's port is short even with an equal share of its bytes on its own NIC.
bool is_short(const Side& side, std::size_t gpu, double port_bytes) {
    const double all = static_cast<double>(sum(side.far));
    const double rate = side.nic[gpu];
    double rates = 0;
    for (const double r : side.nic) rates += r;
    const double share = rates > 0 ? rate / rates : 0;
    return least_direct(side, gpu, port_bytes) > share * static_cast<double>(side.far[gpu]) &&
           least_direct(side, gpu, port_bytes) > share * all * share;
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
    for (std::size_t gpu = 0; gpu < rate.size(); ++gpu) target[gpu] = static_cast<std::int64_t>(at(gpu, high)) + (rate[gpu] > 0);
}

}  // namespace

RankLoads rank_loads(const Tiles& tiles) {
    const std::size_t ranks = tiles.servers * tiles.width;
    RankLoads loads{std::vector<std::int64_t>(ranks, 0), std::vector<std::int64_t>(ranks, 0),
                    std::vector<std::int64_t>(ranks), std::vector<std::int64_t>(ranks)};
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::size_t server = rank / tiles.width;
        for (std::size_t other = 0; other < tiles.servers; ++other) {
            if (other == server) continue;
            loads.out_far[rank] += tiles.sent[rank * tiles.servers + other];
            loads.in_far[rank] += tiles.received[other * ranks + rank];
        }
        loads.out_near[rank] = tiles.sent[rank * tiles.servers + server];
        loads.in_near[rank] = tiles.received[server * ranks + rank];
    }
    return loads;
}

double cut_seconds(const Tiles& tiles, const RankLoads& loads, const Rates& rates) {
    double most = 0;
    for (std::size_t server = 0; server < tiles.servers; ++server) {
        std::int64_t out = 0, in = 0;
        double nics = 0;
        for (std::size_t rank = server * tiles.width; rank < (server + 1) * tiles.width; ++rank) {
            out += loads.out_far[rank];
            in += loads.in_far[rank];
            nics += rates.nic[rank];
            const double ports = rates.nic[rank] + rates.scale_up;
            const std::int64_t busier =
                std::max(loads.out_far[rank] + loads.out_near[rank], loads.in_far[rank] + loads.in_near[rank]);
            if (ports > 0) most = std::max(most, static_cast<double>(busier) / ports);
        }
        if (nics > 0) most = std::max(most, static_cast<double>(std::max(out, in)) / nics);
    }
    return most;
}

NicTargets nic_targets(const Tiles& tiles, const RankLoads& loads, const Rates& rates, double seconds) {
    const std::size_t width = tiles.width, ranks = tiles.servers * width;
    require(rates.nic.size() == ranks, "nic rates must be [ranks]");
    const double port_bytes = kPortShare * seconds * rates.scale_up;
    const auto side = [&](const std::vector<std::int64_t>& far, const std::vector<std::int64_t>& near, std::size_t first) {
        return Side{std::span(far).subspan(first, width), std::span(near).subspan(first, width),
                    rates.nic.subspan(first, width)};
    };
    NicTargets targets;
    std::vector<std::uint8_t> sends_hot(ranks, 0), receives_hot(ranks, 0);
    bool equal = true;
    for (std::size_t first = 0; first < ranks; first += width) {
        const Side out = side(loads.out_far, loads.out_near, first), in = side(loads.in_far, loads.in_near, first);
        for (std::size_t gpu = 0; gpu < width; ++gpu) {
            sends_hot[first + gpu] = is_short(out, gpu, port_bytes);
            receives_hot[first + gpu] = is_short(in, gpu, port_bytes);
            equal = equal && !sends_hot[first + gpu] && !receives_hot[first + gpu] && rates.nic[first + gpu] == rates.nic[0];
        }
    }
    if (equal) return targets;
    targets.out_bytes.resize(ranks);
    targets.in_bytes.resize(ranks);
    std::vector<double> least(width), most(width);
    for (std::size_t first = 0; first < ranks; first += width) {
        for (const bool is_out : {true, false}) {
            const Side here = is_out ? side(loads.out_far, loads.out_near, first) : side(loads.in_far, loads.in_near, first);
            const auto& own = is_out ? sends_hot : receives_hot;
            const auto& other = is_out ? receives_hot : sends_hot;
            const auto bytes = static_cast<double>(sum(here.far));
            for (std::size_t gpu = 0; gpu < width; ++gpu) {
                const double nic_bytes = rates.nic[first + gpu] * seconds;
                least[gpu] = own[first + gpu] != 0 ? std::clamp(least_direct(here, gpu, port_bytes), 0.0, nic_bytes) : 0.0;
                most[gpu] = other[first + gpu] != 0 ? std::min(nic_bytes, static_cast<double>(here.far[gpu])) : nic_bytes;
            }
            auto& target = is_out ? targets.out_bytes : targets.in_bytes;
            fill(here.nic, least, most, bytes, std::span(target).subspan(first, width));
        }
    }
    targets.is_hot = receives_hot;
    return targets;
}

NicTargets rate_targets(const Rates& rates) {
    NicTargets targets;
    if (std::ranges::all_of(rates.nic, [&](double rate) { return rate == rates.nic[0]; })) return targets;
    for (const double rate : rates.nic) targets.out_bytes.push_back(static_cast<std::int64_t>(rate));
    targets.in_bytes = targets.out_bytes;
    return targets;
}

}  // namespace interlock
