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
};

/// Bytes of one (sender, receiver) pair that take one lane.
struct Parcel {
    std::int32_t sender;    ///< GPU index at the source server
    std::int32_t receiver;  ///< GPU index at the destination server
    std::int64_t offset;    ///< first byte within the pair
    std::int64_t bytes;
};

/// What one lane carries, in the order it should leave.
struct LaneLoad {
    std::vector<Parcel> own;     ///< already at the lane's NIC; those for the lane's own receiver last
    std::vector<Parcel> helped;  ///< moved there from other GPUs; those for the lane's own receiver last
    std::int64_t own_bytes = 0;
    std::int64_t helped_bytes = 0;
};

/// The GPUs at both ends of a tile with a port inside that has hardly any time left; empty where there are none.
struct HotEnds {
    std::span<const std::uint8_t> of_senders, of_receivers;  ///< [width] whether a GPU is one
    /// Whether a sender's own port has no time to receive what its lanes might lack.
    [[nodiscard]] bool is_short(std::int32_t gpu) const {
        return of_senders[static_cast<std::size_t>(gpu)] != 0;
    }
    [[nodiscard]] bool receives(std::int32_t gpu) const {
        return of_receivers[static_cast<std::size_t>(gpu)] != 0;
    }
    [[nodiscard]] bool is_any() const;  ///< whether any receiver is hot
};

/// Decides which bytes of a tile take which lane, moving as few as possible between the GPUs of the sending server.
///
/// A GPU keeps as much as its own lanes hold. What is above goes to lanes with room: first bytes whose final GPU is the
/// lane's receiver, which then need no second move, then the pair with most bytes left. Own bytes that can land on
/// their final GPU stay. Lanes to a receiver that is short of scale-up bandwidth carry its own bytes before any others,
/// and all lanes to its server serve receivers in rounds.
class LaneAssigner {
public:
    /// @param least_part_bytes that rounds do not go below: less would cost more than it moves
    explicit LaneAssigner(std::int32_t width, std::int64_t least_part_bytes = 1);

    /// @param tile row-major with `stride` between rows: bytes from GPU i to GPU j, [width, width]
    /// @param lanes whose bytes add up to the tile's
    /// @param hot receivers' lanes are for their own bytes
    /// @returns loads per lane, valid until the next call
    std::span<LaneLoad> assign(const std::int64_t* tile, std::size_t stride, std::span<const Lane> lanes,
                               const HotEnds& hot);

    /// Puts what lanes carry into the order in which receivers that are short of time are served best.
    void interleave(std::span<LaneLoad> loads, const HotEnds& hot) const;

private:
    [[nodiscard]] std::size_t cell(std::int32_t sender, std::int32_t receiver) const {
        return static_cast<std::size_t>(sender) * width_ + static_cast<std::size_t>(receiver);
    }
    void start(const std::int64_t* tile, std::size_t stride, std::span<const Lane> lanes);
    Parcel take(std::int32_t sender, std::int32_t receiver, std::int64_t most);
    void take_own(std::size_t lane, std::int32_t sender, std::int32_t receiver, std::int64_t most);
    void take_helped(std::size_t lane, std::int32_t sender, std::int32_t receiver, std::int64_t most);
    void fill_hot_lanes(std::span<const Lane> lanes, const HotEnds& hot);
    void reserve_own(std::span<const Lane> lanes);
    void help_straight(std::span<const Lane> lanes);
    void help_rest(std::span<const Lane> lanes);
    void keep_own(std::span<const Lane> lanes);
    [[nodiscard]] std::int64_t round_start(std::int64_t bytes, std::int64_t round) const;

    std::size_t width_;
    std::int64_t least_part_;
    std::vector<std::int64_t> left_, used_;     // [width, width] bytes not assigned yet, and first such byte
    std::vector<std::int64_t> surplus_, room_;  // per sender what its lanes cannot hold; per lane what it still takes
    std::vector<std::int64_t> reserved_;        // per lane, own bytes still to be chosen
    std::vector<LaneLoad> loads_;
};

}  // namespace interlock
