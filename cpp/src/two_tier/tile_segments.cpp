#include <algorithm>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier/two_tier_plan.hpp"

namespace interlock {

std::vector<Segment> whole_tiles(const Tiles& tiles, std::int32_t rounds) {
    require(rounds > 0, "rounds must be at least 1");
    std::vector<Segment> segments;
    for (std::int32_t round = 0; round < rounds; ++round) {
        for (std::size_t src = 0; src < tiles.servers; ++src) {
            for (std::size_t dst = 0; dst < tiles.servers; ++dst) {
                const std::int64_t bytes = src == dst ? 0 : tiles.bytes[src * tiles.servers + dst];
                const std::int64_t first = portion(bytes, round, rounds), last = portion(bytes, round + 1, rounds);
                if (first == last) continue;
                segments.push_back({static_cast<std::int32_t>(src), static_cast<std::int32_t>(dst), round, first, last - first});
            }
        }
    }
    return segments;
}

std::vector<Segment> scale_segments(std::span<const Segment> segments, const Tiles& tiles) {
    std::vector<std::int64_t> before(tiles.bytes.size(), 0);
    const auto tile_of = [&](const Segment& segment) {
        const auto src = static_cast<std::size_t>(segment.src_server), dst = static_cast<std::size_t>(segment.dst_server);
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
        if (last > first) scaled.push_back({segment.src_server, segment.dst_server, segment.stage, first, last - first});
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

}  // namespace interlock
