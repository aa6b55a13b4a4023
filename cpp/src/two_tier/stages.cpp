#include <algorithm>
#include <cmath>

#include "interlock/arithmetic.hpp"
#include "interlock/two_tier/open_shop.hpp"
#include "interlock/two_tier/two_tier_plan.hpp"

namespace interlock {
namespace {

constexpr double kTicksPerPair = 64;  // of the mean; sizes are rounded to ticks so that pairs end together

// Room above the bound for ports to wait in; later attempts give up time for fewer stages.
constexpr std::int32_t kLargest = 48;  // servers up to which planning affords no room at all
constexpr double kRooms[] = {0.0, 0.01, 0.02, 0.04};

/// Seconds that each tile occupies its two servers: [servers, servers].
std::vector<double> tile_seconds(const Tiles& tiles, const Rates& rates) {
    std::vector<double> seconds(tiles.bytes.size(), 0.0);
    const auto joint_rate = [&](std::size_t src, std::size_t dst) {
        double slower = 0;
        for (std::size_t rail = 0; rail < tiles.width; ++rail) {
            slower += std::min(rates.nic[src * tiles.width + rail], rates.nic[dst * tiles.width + rail]);
        }
        return slower;
    };
    const bool is_even = std::ranges::all_of(rates.nic, [&](double rate) { return rate == rates.nic[0]; });
    const double even = joint_rate(0, 0);
    for (std::size_t src = 0; src < tiles.servers; ++src) {
        for (std::size_t dst = 0; dst < tiles.servers; ++dst) {
            const double slower = is_even ? even : joint_rate(src, dst);
            const std::int64_t bytes = tiles.bytes[src * tiles.servers + dst];
            if (src != dst && bytes > 0 && slower > 0) seconds[src * tiles.servers + dst] = static_cast<double>(bytes) / slower;
        }
    }
    return seconds;
}

/// Round after round each server sends to the next one on: always within the limit of stages, seldom the fastest.
std::vector<Run> shifts(std::span<const std::int64_t> work, std::int32_t servers) {
    std::vector<Run> runs;
    for (std::int32_t shift = 1; shift < servers; ++shift) {
        for (std::int32_t src = 0; src < servers; ++src) {
            const std::int32_t dst = (src + shift) % servers;
            const std::int64_t amount = work[static_cast<std::size_t>(src * servers + dst)];
            if (amount > 0) runs.push_back({src, dst, amount});
        }
    }
    return runs;
}

}  // namespace

Stages make_stages(const Tiles& tiles, const Rates& rates, double stage_overhead_s) {
    const auto servers = static_cast<std::int32_t>(tiles.servers);
    const std::vector<double> seconds = tile_seconds(tiles, rates);
    double sum = 0;
    std::size_t pairs = 0;
    for (const double s : seconds) {
        sum += s;
        pairs += s > 0;
    }
    Stages stages;
    if (pairs == 0) return stages;
    const double tick_s = sum / static_cast<double>(pairs) / kTicksPerPair;
    std::vector<std::int64_t> work(seconds.size(), 0);
    for (std::size_t pair = 0; pair < seconds.size(); ++pair) {
        if (seconds[pair] > 0) work[pair] = std::max<std::int64_t>(1, std::llround(seconds[pair] / tick_s));
    }
    const auto setup = static_cast<std::int64_t>(std::llround(stage_overhead_s / tick_s));
    const std::int64_t bound = open_shop_bound(work, servers, setup);
    const std::int32_t stage_limit = 5 * servers / 2 + 4;

    std::vector<Run> runs;
    RunTimes times;
    bool found = false;
    for (const double room : kRooms) {
        if (servers > kLargest && room == 0.0) continue;
        const auto target = bound + static_cast<std::int64_t>(room * static_cast<double>(bound));
        runs = open_shop(work, servers, setup, target, std::max(1, 8 * servers / 5));
        times = time_runs(runs, servers, setup);
        found = times.num_stages <= stage_limit;
        if (found) break;
    }
    if (!found) {
        runs = shifts(work, servers);
        times = time_runs(runs, servers, setup);
    }
    stages.num_stages = times.num_stages;
    stages.seconds = static_cast<double>(times.makespan) * tick_s;
    std::vector<std::int64_t> done(work.size(), 0);
    stages.segments.reserve(runs.size());
    for (std::size_t n = 0; n < runs.size(); ++n) {
        const auto pair = static_cast<std::size_t>(runs[n].sender * servers + runs[n].receiver);
        const std::int64_t first = portion(tiles.bytes[pair], done[pair], work[pair]);
        done[pair] += runs[n].work;
        const std::int64_t last = portion(tiles.bytes[pair], done[pair], work[pair]);
        if (last > first) {
            stages.segments.push_back({runs[n].sender, runs[n].receiver, times.stage[n], first, last - first});
        }
    }
    return stages;
}

}  // namespace interlock
