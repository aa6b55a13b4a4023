#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// A way between two servers: out by one GPU's NIC, in by another's, for `bytes` of the tile.
struct Lane {
    std::int32_t out_gpu;
    std::int32_t in_gpu;
    std::int64_t bytes;
    bool is_own = false;  ///< for bytes of its receiver, as far as there are any
};

/// Bytes of one (sender, receiver) pair that take one lane.
struct Parcel {
    std::int32_t sender;    ///< GPU index at the source server
    std::int32_t receiver;  ///< GPU index at the destination server
    std::int64_t offset;    ///< first byte within the pair
    std::int64_t bytes;
};

/// What one lane carries, in the order in which it leaves: bytes that are at its NIC already, then those that come from
/// other GPUs; of both, those for the lane's own receiver last, since they have no hop to go.
using LaneLoad = std::vector<Parcel>;

/// Decides which bytes of a tile take which rail, moving as few as possible between the GPUs of the sending server, but
/// for lanes that bring their receiver its own: a GPU keeps as much as its lane holds. What is above goes to lanes with
/// room, first bytes whose final GPU is the lane's receiver, which then need no second move, then the pair with most
/// bytes left.
class LaneAssigner {
public:
    explicit LaneAssigner(std::int32_t width);

    /// @param tile row-major with `stride` between rows: bytes from GPU i to GPU j, [width, width]
    /// @param lanes each between equal GPU indices, whose bytes add up to the tile's
    /// @returns loads per lane, valid until the next call
    std::span<const LaneLoad> assign(const std::int64_t* tile, std::size_t stride, std::span<const Lane> lanes);

private:
    void start(const std::int64_t* tile, std::size_t stride, std::span<const Lane> lanes);
    void find_hot();
    std::int64_t take(LaneLoad& load, std::size_t sender, std::size_t receiver, std::int64_t most);
    void help(std::size_t lane, std::size_t sender, std::size_t receiver);
    void help_straight(std::span<const Lane> lanes);
    void help_rest();
    void keep_own(std::span<const Lane> lanes);

    std::size_t width_;
    std::vector<std::int64_t> left_, used_;  // [width, width] bytes not assigned yet, and first such byte
    std::vector<std::int64_t> surplus_;      // per sender what its lane cannot hold
    std::vector<std::int64_t> room_;         // per lane what others may give it
    std::vector<std::int64_t> wanted_;       // per receiver, of the tile
    std::size_t hot_ = 0;                    // receiver of more than half of the tile; width_: none
    std::vector<LaneLoad> loads_;
};

}  // namespace interlock
