#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// A demand matrix summed over servers of `width` ranks each. A tile is what one server owes another; what a rank keeps
/// for itself is left out.
struct Tiles {
    std::size_t servers = 0, width = 0;
    std::vector<std::int64_t> bytes;     ///< [servers, servers] of each tile
    std::vector<std::int64_t> sent;      ///< [ranks, servers] what a rank owes a server
    std::vector<std::int64_t> received;  ///< [servers, ranks] what a server owes a rank
    std::vector<std::int32_t> num_far;   ///< [ranks] ranks of other servers that a rank sends to
    std::int64_t largest_far = 0;        ///< bytes of the largest pair of ranks of unlike servers

    [[nodiscard]] bool has_far() const;  ///< whether any two servers talk
};

/// One pass over the demand.
/// @param demand_bytes row-major [ranks, ranks], nowhere negative, at most 2^62 in all
Tiles sum_tiles(std::span<const std::int64_t> demand_bytes, std::size_t servers, std::size_t width);

/// Items of a demand [ranks, ranks]: pairs with bytes to move are numbered row by row; what a rank keeps is none.
std::vector<std::int32_t> number_items(std::span<const std::int64_t> demand_bytes, std::size_t ranks);

/// Change of what the server that changed most sends, over its bytes before; from a sample, a cache line here and
/// there, that touches every row and every column.
double sampled_drift(std::span<const std::int64_t> before, std::span<const std::int64_t> now, std::size_t servers,
                     std::size_t width);

/// What each rank sends and receives, far (to other servers) and near (inside its own), [ranks] each.
struct RankLoads {
    std::vector<std::int64_t> out_far, in_far, out_near, in_near;
};
RankLoads rank_loads(const Tiles& tiles);

}  // namespace interlock
