#include "interlock/two_tier/stages.hpp"

#include <algorithm>
#include <cmath>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier/constants.hpp"
#include "interlock/two_tier/open_shop.hpp"

namespace interlock {
namespace {

/// Seconds that each tile occupies its two servers: [servers, servers].
std::vector<double> tile_seconds(const Tiles& tiles, const Ports& ports) {
    std::vector<double> seconds(tiles.bytes.size(), 0.0);
    const auto joint_rate = [&](std::size_t src, std::size_t dst) {
        double slower = 0;
        for (std::size_t rail = 0; rail < tiles.width; ++rail) {
            slower += std::min(ports.nic[src * tiles.width + rail], ports.nic[dst * tiles.width + rail]);
        }
        return slower;
    };
    const bool is_even = ports.is_even();
    const double even = joint_rate(0, 0);
    for (std::size_t src = 0; src < tiles.servers; ++src) {
        for (std::size_t dst = 0; dst < tiles.servers; ++dst) {
            const double slower = is_even ? even : joint_rate(src, dst);
            const std::int64_t bytes = tiles.bytes[src * tiles.servers + dst];
            if (src != dst && bytes > 0 && slower > 0)
                seconds[src * tiles.servers + dst] = static_cast<double>(bytes) / slower;
        }
    }
    return seconds;
}

}  // namespace

std::vector<Segment> whole_tiles(const Tiles& tiles, std::int32_t rounds) {
    require(rounds > 0, "rounds must be at least 1");
    std::vector<Segment> segments;
    for (std::int32_t round = 0; round < rounds; ++round) {
        for (std::size_t src = 0; src < tiles.servers; ++src) {
            for (std::size_t dst = 0; dst < tiles.servers; ++dst) {
                const std::int64_t bytes = src == dst ? 0 : tiles.bytes[src * tiles.servers + dst];
                const std::int64_t first = portion(bytes, round, rounds), last = portion(bytes, round + 1, rounds);
                if (first == last) continue;
                segments.push_back(
                    {static_cast<std::int32_t>(src), static_cast<std::int32_t>(dst), round, first, last - first});
            }
        }
    }
    return segments;
}

std::vector<Segment> scale_segments(std::span<const Segment> segments, const Tiles& tiles) {
    std::vector<std::int64_t> before(tiles.bytes.size(), 0);
    const auto tile_of = [&](const Segment& segment) {
        const auto src = static_cast<std::size_t>(segment.src_server),
                   dst = static_cast<std::size_t>(segment.dst_server);
        require(src < tiles.servers && dst < tiles.servers && src != dst, "a segment must join two servers");
        return src * tiles.servers + dst;
    };
    std::int32_t last_stage = 0;
    for (const Segment& segment : segments) {
        require(segment.bytes > 0 && segment.first_byte >= 0, "a segment must have bytes");
        before[tile_of(segment)] += segment.bytes;
        last_stage = std::max(last_stage, segment.stage);
    }
    std::vector<Segment> scaled;
    scaled.reserve(segments.size());
    for (const Segment& segment : segments) {
        const std::size_t tile = tile_of(segment);
        const std::int64_t first = portion(tiles.bytes[tile], segment.first_byte, before[tile]);
        const std::int64_t last = portion(tiles.bytes[tile], segment.first_byte + segment.bytes, before[tile]);
        if (last > first)
            scaled.push_back({segment.src_server, segment.dst_server, segment.stage, first, last - first});
    }
    // Traffic where there was none: shift by shift, each in a stage of its own, behind the rest.
    for (std::size_t shift = 1; shift < tiles.servers; ++shift) {
        for (std::size_t src = 0; src < tiles.servers; ++src) {
            const std::size_t dst = (src + shift) % tiles.servers, tile = src * tiles.servers + dst;
            if (before[tile] > 0 || tiles.bytes[tile] == 0) continue;
            scaled.push_back({static_cast<std::int32_t>(src), static_cast<std::int32_t>(dst),
                              last_stage + static_cast<std::int32_t>(shift), 0, tiles.bytes[tile]});
        }
    }
    return scaled;
}

Stages make_stages(const Tiles& tiles, const Ports& ports, double stage_overhead_s) {
    const auto servers = static_cast<std::int32_t>(tiles.servers);
    const std::vector<double> seconds = tile_seconds(tiles, ports);
    double sum = 0;
    std::size_t pairs = 0;
    for (const double s : seconds) {
        sum += s;
        pairs += s > 0;
    }
    Stages stages;
    if (pairs == 0) return stages;
    const double tick_s = sum / static_cast<double>(pairs) * kInFlight / kMostSlices;
    std::vector<std::int64_t> work(seconds.size(), 0);
    for (std::size_t pair = 0; pair < seconds.size(); ++pair) {
        if (seconds[pair] > 0) work[pair] = std::max<std::int64_t>(1, std::llround(seconds[pair] / tick_s));
    }
    const auto setup = static_cast<std::int64_t>(std::llround(stage_overhead_s / tick_s));
    // A server has at most as many partners as there are others; runs that are cut give it some stages more.
    const std::int32_t most_stages = 2 * servers;
    const std::vector<Run> runs =
        open_shop(work, servers, setup, open_shop_bound(work, servers, setup), most_stages);
    const RunTimes times = time_runs(runs, servers, setup);
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
