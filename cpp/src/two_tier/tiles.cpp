#include "interlock/two_tier/tiles.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "interlock/errors.hpp"

namespace interlock {
namespace {

constexpr std::size_t kUsualWidth = 8;  // ranks of a server, for which loops are unrolled

/// What one rank owes the ranks of one server.
struct BlockSums {
    std::int64_t bytes = 0, pairs = 0, largest = 0;
};

constexpr int kMostBits = 62;  // of all bytes together

/// Throws unless all sums fit.
void check_sums(std::span<const std::int64_t> demand_bytes) {
    std::int64_t room = std::int64_t{1} << kMostBits;
    for (const std::int64_t bytes : demand_bytes) {
        require(bytes >= 0 && bytes <= room, "bytes must not be negative, and all together at most 2^62");
        room -= bytes;
    }
}

/// Whether as many numbers as there are cells, all like those of a row, fit; bits alone tell.
bool is_small(std::span<const std::int64_t> row, std::size_t cells) {
    std::uint64_t bits = 0;
    for (const std::int64_t bytes : row) bits |= static_cast<std::uint64_t>(bytes);
    return std::bit_width(bits) + std::bit_width(cells) <= kMostBits;
}

/// @tparam kWidth of the block where it is known, or 0
template <std::size_t kWidth>
BlockSums add_block(const std::int64_t* row, std::int64_t* into, std::size_t width) {
    BlockSums sums;
    for (std::size_t gpu = 0; gpu < (kWidth > 0 ? kWidth : width); ++gpu) {
        const std::int64_t bytes = row[gpu];
        into[gpu] += bytes;
        sums.bytes += bytes;
        sums.pairs += bytes != 0;
        sums.largest = std::max(sums.largest, bytes);
    }
    return sums;
}

}  // namespace

std::vector<std::int32_t> number_items(std::span<const std::int64_t> demand_bytes, std::size_t ranks) {
    std::vector<std::int32_t> item(ranks * ranks);
    std::int32_t next = 0;
    for (std::size_t src = 0; src < ranks; ++src) {
        for (std::size_t dst = 0; dst < ranks; ++dst) {
            item[src * ranks + dst] = next;
            next += src != dst && demand_bytes[src * ranks + dst] > 0;
        }
    }
    return item;
}

bool Tiles::has_far() const {
    for (std::size_t tile = 0; tile < bytes.size(); ++tile) {
        if (tile / servers != tile % servers && bytes[tile] > 0) return true;
    }
    return false;
}

Tiles sum_tiles(std::span<const std::int64_t> demand_bytes, std::size_t servers, std::size_t width) {
    const std::size_t ranks = servers * width;
    require(demand_bytes.size() == ranks * ranks, "demand_bytes must be [ranks, ranks]");
    Tiles tiles{servers,
                width,
                std::vector<std::int64_t>(servers * servers, 0),
                std::vector<std::int64_t>(ranks * servers),
                std::vector<std::int64_t>(servers * ranks, 0),
                std::vector<std::int32_t>(ranks),
                0};
    bool is_checked = false;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::int64_t* row = demand_bytes.data() + rank * ranks;
        if (!is_checked && !is_small({row, ranks}, demand_bytes.size())) {
            check_sums(demand_bytes);
            is_checked = true;
        }
        const std::size_t server = rank / width;
        std::int64_t* into = tiles.received.data() + server * ranks;
        std::int64_t peers = 0;
        for (std::size_t to = 0; to < servers; ++to) {
            BlockSums block = width == kUsualWidth ? add_block<kUsualWidth>(row + to * width, into + to * width, width)
                                                   : add_block<0>(row + to * width, into + to * width, width);
            // Inside its own server a pair does not count, however large.
            if (to == server) {
                block.bytes -= row[rank];
            } else {
                peers += block.pairs;
                tiles.largest_far = std::max(tiles.largest_far, block.largest);
            }
            tiles.sent[rank * servers + to] = block.bytes;
            tiles.bytes[server * servers + to] += block.bytes;
        }
        tiles.num_far[rank] = static_cast<std::int32_t>(peers);
        into[rank] -= row[rank];
    }
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
        double changed = 0, bytes = 0;  // exact for all but exabytes, and cannot overflow
        for (std::size_t rank = server * width; rank < (server + 1) * width; ++rank) {
            for (std::size_t first = rank * kBlock % step; first < ranks; first += step) {
                for (std::size_t peer = first; peer < std::min(first + kBlock, ranks); ++peer) {
                    const auto a = static_cast<double>(before[rank * ranks + peer]);
                    changed += std::abs(a - static_cast<double>(now[rank * ranks + peer]));
                    bytes += a;
                }
            }
        }
        if (changed > 0) most = std::max(most, bytes == 0 ? 1.0 : changed / bytes);
    }
    return most;
}

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

}  // namespace interlock
