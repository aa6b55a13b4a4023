// Random flows over random channels come and go; after each change the rates must equal a fill from scratch.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "check.hpp"
#include "interlock/simulate/max_min.hpp"

using interlock::Csr;
using interlock::MaxMinShare;

namespace {

struct Network {
    std::vector<double> capacity;
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int32_t> hops;

    [[nodiscard]] Csr<std::int32_t> paths() const { return {offsets, hops}; }
};

Network random_network(std::mt19937_64& random, std::size_t num_channels, std::size_t num_flows,
                       std::size_t most_hops) {
    Network made;
    for (std::size_t c = 0; c < num_channels; ++c) made.capacity.push_back(1.0 + static_cast<double>(random() % 9));
    for (std::size_t f = 0; f < num_flows; ++f) {
        std::vector<std::int32_t> all(num_channels);
        for (std::size_t c = 0; c < num_channels; ++c) all[c] = static_cast<std::int32_t>(c);
        std::shuffle(all.begin(), all.end(), random);
        const std::size_t count = 1 + random() % most_hops;
        made.hops.insert(made.hops.end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
        made.offsets.push_back(static_cast<std::int64_t>(made.hops.size()));
    }
    return made;
}

/// Progressive filling from scratch.
std::vector<double> fair_rates(const Network& network, const std::vector<bool>& is_active) {
    std::vector<double> left = network.capacity;
    std::vector<bool> grows = is_active;
    std::vector<double> rate(is_active.size(), 0.0);
    while (std::find(grows.begin(), grows.end(), true) != grows.end()) {
        std::vector<int> users(left.size(), 0);
        for (std::size_t f = 0; f < grows.size(); ++f) {
            if (!grows[f]) continue;
            for (const std::int32_t hop : network.paths()[f]) ++users[static_cast<std::size_t>(hop)];
        }
        double share = std::numeric_limits<double>::infinity();
        std::size_t full = 0;
        for (std::size_t c = 0; c < left.size(); ++c) {
            if (users[c] > 0 && left[c] / users[c] < share) {
                share = left[c] / users[c];
                full = c;
            }
        }
        for (std::size_t f = 0; f < grows.size(); ++f) {
            const auto path = network.paths()[f];
            const bool crosses = std::find(path.begin(), path.end(), static_cast<std::int32_t>(full)) != path.end();
            if (!grows[f] || !crosses) continue;
            grows[f] = false;
            rate[f] = share;
            for (const std::int32_t hop : path) left[static_cast<std::size_t>(hop)] -= share;
        }
    }
    return rate;
}

void check_rates(const Network& network, const MaxMinShare& shares, const std::vector<bool>& is_active) {
    const auto want = fair_rates(network, is_active);
    std::vector<double> used(network.capacity.size(), 0.0);
    for (std::size_t f = 0; f < want.size(); ++f) {
        const double got = shares.rate(static_cast<std::int32_t>(f));
        CHECK(std::abs(got - want[f]) <= 1e-11 * want[f]);
        for (const std::int32_t hop : network.paths()[f]) used[static_cast<std::size_t>(hop)] += got;
    }
    for (std::size_t c = 0; c < used.size(); ++c) CHECK(used[c] <= network.capacity[c] * (1 + 1e-12));
}

void rates_stay_fair(std::uint64_t seed, std::size_t num_channels, std::size_t num_flows, std::size_t most_hops) {
    std::mt19937_64 random(seed);
    Network network = random_network(random, num_channels, num_flows, most_hops);
    MaxMinShare shares(network.capacity, network.paths(), 0.0);
    std::vector<bool> is_active(num_flows, false);
    double now_s = 0;
    for (std::size_t turn = 0; turn < 6 * num_flows; ++turn) {
        const std::uint64_t dice = random() % 10;
        if (dice < 6) {
            const auto flow = static_cast<std::size_t>(random() % num_flows);
            if (is_active[flow]) continue;
            const double work = 1.0 + static_cast<double>(random() % 50);
            shares.add(static_cast<std::int32_t>(flow), network.paths()[flow].size(), work, now_s);
            is_active[flow] = true;
        } else if (dice < 7) {
            const auto channel = static_cast<std::size_t>(random() % num_channels);
            network.capacity[channel] = 1.0 + static_cast<double>(random() % 9);
            shares.change_capacity(static_cast<std::int32_t>(channel), network.capacity[channel]);
        } else if (shares.next_departure_s() < MaxMinShare::kNever) {
            const auto [time_s, flow] = shares.depart();
            CHECK(time_s >= now_s);
            now_s = time_s;
            is_active[static_cast<std::size_t>(flow)] = false;
        }
        shares.refill_before(MaxMinShare::kNever, now_s);
        check_rates(network, shares, is_active);
    }
}

}  // namespace

int main() {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        rates_stay_fair(seed, 2 + seed % 7, 12, 2);   // every flow on one or two channels
        rates_stay_fair(seed, 6 + seed % 5, 20, 5);   // longer paths
        rates_stay_fair(seed, 24, 14, 2);             // several components that join and part
    }
    rates_stay_fair(7, 40, 200, 4);
    return 0;
}
