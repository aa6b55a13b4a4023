#include "interlock/tiles.hpp"

#include <algorithm>

#include "interlock/errors.hpp"

namespace interlock {

Tiles sum_tiles(std::span<const std::int64_t> demand_bytes, std::size_t servers, std::size_t width) {
    const std::size_t ranks = servers * width;
    require(demand_bytes.size() == ranks * ranks, "demand_bytes must be [ranks, ranks]");
    Tiles tiles{servers, width, std::vector<std::int64_t>(servers * servers, 0),
                std::vector<std::int64_t>(ranks * servers), std::vector<std::int64_t>(servers * ranks, 0),
                std::vector<std::int32_t>(ranks), 0};
    std::int64_t all_bits = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::int64_t* row = demand_bytes.data() + rank * ranks;
        const std::size_t server = rank / width;
        std::int64_t* into = tiles.received.data() + server * ranks;
        std::int64_t peers = 0, largest = 0;
        for (std::size_t peer = 0; peer < ranks; ++peer) {
            into[peer] += row[peer];
            all_bits |= row[peer];
            peers += row[peer] != 0;
        }
        // Inside its own server a pair does not count, however large.
        for (std::size_t peer = 0; peer < server * width; ++peer) largest = std::max(largest, row[peer]);
        for (std::size_t peer = (server + 1) * width; peer < ranks; ++peer) largest = std::max(largest, row[peer]);
        tiles.largest_far = std::max(tiles.largest_far, largest);
        for (std::size_t peer = server * width; peer < (server + 1) * width; ++peer) peers -= row[peer] != 0;
        tiles.num_far[rank] = static_cast<std::int32_t>(peers);
        into[rank] -= row[rank];
        for (std::size_t to = 0; to < servers; ++to) {
            std::int64_t sum = 0;
            for (std::size_t gpu = 0; gpu < width; ++gpu) sum += row[to * width + gpu];
            if (to == server) sum -= row[rank];
            tiles.sent[rank * servers + to] = sum;
            tiles.bytes[server * servers + to] += sum;
        }
    }
    require(all_bits >= 0, "demand_bytes must not be negative");
    return tiles;
}

double sampled_drift(std::span<const std::int64_t> before, std::span<const std::int64_t> now, std::size_t servers,
                     std::size_t width) {
    const std::size_t ranks = servers * width;
    require(before.size() == ranks * ranks && now.size() == before.size(), "both demands must be [ranks, ranks]");
    constexpr std::size_t kBlock = 8, kEvery = 16, kSmall = 64;
    const std::size_t step = ranks <= kSmall ? kBlock : kBlock * kEvery;
    double most = 0;
    for (std::size_t server = 0; server < servers; ++server) {
        std::int64_t changed = 0, bytes = 0;
        for (std::size_t rank = server * width; rank < (server + 1) * width; ++rank) {
            for (std::size_t first = rank * kBlock % step; first < ranks; first += step) {
                for (std::size_t peer = first; peer < std::min(first + kBlock, ranks); ++peer) {
                    const std::int64_t a = before[rank * ranks + peer], b = now[rank * ranks + peer];
                    changed += a > b ? a - b : b - a;
                    bytes += a;
                }
            }
        }
        if (changed > 0) most = std::max(most, bytes == 0 ? 1.0 : static_cast<double>(changed) / static_cast<double>(bytes));
    }
    return most;
}

}  // namespace interlock
