#include "interlock/two_tier/lane_table.hpp"

#include <algorithm>
#include <numeric>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"

namespace interlock {
namespace {

/// Whole bytes in proportion to shares; what rounding leaves goes to the largest share.
void round_to_bytes(std::int64_t tile_bytes, std::span<const double> share, std::span<std::int64_t> bytes) {
    double sum = 0;
    for (const double part : share) sum += part;
    std::int64_t given = 0;
    for (std::size_t lane = 0; lane < share.size(); ++lane) {
        bytes[lane] = static_cast<std::int64_t>(static_cast<double>(tile_bytes) * (share[lane] / sum));
        bytes[lane] = std::clamp<std::int64_t>(bytes[lane], 0, tile_bytes - given);
        given += bytes[lane];
    }
    const auto largest = std::max_element(share.begin(), share.end()) - share.begin();
    bytes[static_cast<std::size_t>(largest)] += tile_bytes - given;
}

/// Starts from shares by the lesser target of each rail's two ends. Then servers scale the shares of their tiles to
/// meet their targets: senders, then receivers, then both again.
class RailShares {
public:
    RailShares(const Tiles& tiles, const NicTargets& targets, ShareRule rule)
        : tiles_(tiles), servers_(tiles.servers), width_(tiles.width) {
        share_.resize(servers_ * servers_ * width_);
        for (std::size_t src = 0; src < servers_; ++src) {
            for (std::size_t dst = 0; dst < servers_; ++dst) {
                for (std::size_t rail = 0; rail < width_; ++rail) {
                    at(src, dst)[rail] = static_cast<double>(
                        std::min(targets.out_bytes[src * width_ + rail], targets.in_bytes[dst * width_ + rail]));
                }
                normalise(at(src, dst));
            }
        }
        if (rule == ShareRule::kTile) return;
        for (int pass = 0; pass < 2; ++pass) {
            for (std::size_t server = 0; server < servers_; ++server) {
                scale(server, targets.out_bytes, [&](std::size_t other) { return std::pair{server, other}; });
            }
            for (std::size_t server = 0; server < servers_; ++server) {
                scale(server, targets.in_bytes, [&](std::size_t other) { return std::pair{other, server}; });
            }
        }
    }

    [[nodiscard]] std::span<const double> of(std::size_t src, std::size_t dst) const {
        return std::span(share_).subspan((src * servers_ + dst) * width_, width_);
    }

private:
    std::span<double> at(std::size_t src, std::size_t dst) {
        return std::span(share_).subspan((src * servers_ + dst) * width_, width_);
    }
    static void normalise(std::span<double> share) {
        const double sum = std::accumulate(share.begin(), share.end(), 0.0);
        if (sum <= 0) return;
        for (double& part : share) part /= sum;
    }

    template <typename TileOf>
    void scale(std::size_t server, std::span<const std::int64_t> targets, TileOf tile_of) {
        std::vector<double> load(width_, 0.0), factor(width_, 1.0);
        double bytes = 0, wanted = 0;
        for (std::size_t other = 0; other < servers_; ++other) {
            const auto [src, dst] = tile_of(other);
            if (src == dst) continue;
            const auto tile = static_cast<double>(tiles_.bytes[src * servers_ + dst]);
            bytes += tile;
            for (std::size_t rail = 0; rail < width_; ++rail) load[rail] += tile * at(src, dst)[rail];
        }
        for (std::size_t rail = 0; rail < width_; ++rail)
            wanted += static_cast<double>(targets[server * width_ + rail]);
        for (std::size_t rail = 0; rail < width_; ++rail) {
            if (load[rail] > 0)
                factor[rail] = static_cast<double>(targets[server * width_ + rail]) * bytes / wanted / load[rail];
        }
        for (std::size_t other = 0; other < servers_; ++other) {
            const auto [src, dst] = tile_of(other);
            if (src == dst) continue;
            for (std::size_t rail = 0; rail < width_; ++rail) at(src, dst)[rail] *= factor[rail];
            normalise(at(src, dst));
        }
    }

    const Tiles& tiles_;
    std::size_t servers_, width_;
    std::vector<double> share_;
};

}  // namespace

std::span<const Lane> LaneTable::of(std::size_t src_server, std::size_t dst_server, std::int64_t tile_bytes,
                                    std::vector<Lane>& scratch) const {
    if (!offsets.empty()) {
        const std::size_t tile = src_server * servers + dst_server;
        const auto first = static_cast<std::size_t>(offsets[tile]);
        return std::span(lanes).subspan(first, static_cast<std::size_t>(offsets[tile + 1]) - first);
    }
    // Remainders rotate from tile to tile, so that no GPU gets all of them.
    const auto shares = static_cast<std::int64_t>(width);
    scratch.resize(width);
    for (std::size_t gpu = 0; gpu < width; ++gpu) {
        const auto turn = static_cast<std::int64_t>((gpu + src_server + dst_server) % width);
        const auto index = static_cast<std::int32_t>(gpu);
        scratch[gpu] = {index, index, tile_bytes / shares + (turn < tile_bytes % shares)};
    }
    return scratch;
}

LaneTable rail_lanes(const Tiles& tiles, const NicTargets& targets, ShareRule rule) {
    const std::size_t servers = tiles.servers, width = tiles.width;
    LaneTable table{servers, width, {0}, {}};
    std::vector<std::int64_t> bytes(width);
    const RailShares shares(tiles, targets, rule);
    for (std::size_t tile = 0; tile < servers * servers; ++tile) {
        const std::int64_t tile_bytes = tile / servers == tile % servers ? 0 : tiles.bytes[tile];
        if (tile_bytes > 0) {
            round_to_bytes(tile_bytes, shares.of(tile / servers, tile % servers), bytes);
            for (std::size_t rail = 0; rail < width; ++rail) {
                const auto index = static_cast<std::int32_t>(rail);
                const bool is_own = targets.is_for_own(tile % servers * width + rail);
                if (bytes[rail] > 0) table.lanes.push_back({index, index, bytes[rail], is_own});
            }
        }
        table.offsets.push_back(static_cast<std::int64_t>(table.lanes.size()));
    }
    return table;
}

}  // namespace interlock
