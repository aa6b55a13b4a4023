#include "interlock/detours.hpp"

#include <algorithm>
#include <numeric>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"

namespace interlock {
namespace {

/// Bytes from NIC to NIC, by rank.
struct Way {
    std::size_t src, dst;
    std::int64_t bytes;
};

/// Moves what is above NICs' targets to the NICs of their neighbours, first at the sending end, then at the other.
class Detours {
public:
    Detours(std::span<const std::int64_t> demand, const Tiles& tiles, const NicTargets& targets)
        : width_(tiles.width), ranks_(tiles.servers * tiles.width) {
        const RankLoads loads = rank_loads(tiles);
        for (std::size_t rank = 0; rank < ranks_; ++rank) {
            out_room_.push_back(targets.out_bytes[rank] - loads.out_far[rank]);
            in_room_.push_back(targets.in_bytes[rank] - loads.in_far[rank]);
        }
        for (std::size_t src = 0; src < ranks_; ++src) {
            for (std::size_t dst = 0; dst < ranks_; ++dst) {
                const std::int64_t bytes = demand[src * ranks_ + dst];
                if (bytes > 0 && src / width_ != dst / width_) ways_.push_back({src, dst, bytes});
            }
        }
        divert_all(out_room_, &Way::src);
        divert_all(in_room_, &Way::dst);
    }

    [[nodiscard]] std::span<const Way> ways() const { return ways_; }

private:
    void divert_all(std::vector<std::int64_t>& room, std::size_t Way::*end) {
        if (std::ranges::all_of(room, [](std::int64_t bytes) { return bytes >= 0; })) return;
        // Detours end at NICs with room, which are never diverted themselves: one index serves all ranks.
        std::vector<std::vector<std::size_t>> ways_of(ranks_);
        for (std::size_t n = 0; n < ways_.size(); ++n) {
            if (ways_[n].bytes > 0) ways_of[ways_[n].*end].push_back(n);
        }
        for (std::size_t rank = 0; rank < ranks_; ++rank) {
            if (room[rank] < 0) divert(rank, room, end, ways_of[rank]);
        }
    }

    void divert(std::size_t rank, std::vector<std::int64_t>& room, std::size_t Way::*end, std::vector<std::size_t>& largest) {
        const std::size_t first = rank / width_ * width_;
        std::int64_t all_room = 0;
        for (std::size_t helper = first; helper < first + width_; ++helper) {
            all_room += std::max<std::int64_t>(room[helper], 0);
        }
        const std::int64_t excess = std::min(-room[rank], all_room);
        std::ranges::stable_sort(largest, [&](std::size_t a, std::size_t b) { return ways_[a].bytes > ways_[b].bytes; });
        std::size_t next = 0;
        std::int64_t passed = 0, given = 0;
        for (std::size_t helper = first; helper < first + width_; ++helper) {
            if (room[helper] <= 0) continue;
            passed += room[helper];
            std::int64_t share = portion(excess, passed, all_room) - given;
            given += share;
            room[helper] -= share;
            while (share > 0) {
                Way detour = ways_[largest[next]];
                detour.bytes = std::min(share, detour.bytes);
                detour.*end = helper;
                ways_[largest[next]].bytes -= detour.bytes;
                share -= detour.bytes;
                if (ways_[largest[next]].bytes == 0) ++next;
                ways_.push_back(detour);
            }
        }
        room[rank] += excess;
    }

    std::size_t width_, ranks_;
    std::vector<std::int64_t> out_room_, in_room_;  // per rank, below zero where its NIC has too much
    std::vector<Way> ways_;
};

}  // namespace

LaneTable detour_lanes(std::span<const std::int64_t> demand_bytes, const Tiles& tiles, const NicTargets& targets) {
    const std::size_t servers = tiles.servers, width = tiles.width, ranks = servers * width;
    require(targets.out_bytes.size() == ranks && targets.in_bytes.size() == ranks, "targets must be [ranks]");
    const Detours detours(demand_bytes, tiles, targets);
    // Counted into a dense table: detours may take a way that exists already.
    std::vector<std::int64_t> bytes(ranks * ranks, 0);
    for (const Way& way : detours.ways()) bytes[way.src * ranks + way.dst] += way.bytes;
    LaneTable table{servers, width, {0}, {}, {}};
    for (std::size_t tile = 0; tile < servers * servers; ++tile) {
        for (std::size_t out = 0; out < width; ++out) {
            for (std::size_t in = 0; in < width; ++in) {
                const std::int64_t lane = bytes[(tile / servers * width + out) * ranks + tile % servers * width + in];
                if (lane > 0) table.lanes.push_back({static_cast<std::int32_t>(out), static_cast<std::int32_t>(in), lane});
            }
        }
        table.offsets.push_back(static_cast<std::int64_t>(table.lanes.size()));
    }
    return table;
}

}  // namespace interlock
