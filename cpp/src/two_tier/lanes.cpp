#include "interlock/two_tier/lanes.hpp"

#include <algorithm>
#include <numeric>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"

namespace interlock {

LaneAssigner::LaneAssigner(std::int32_t width)
    : width_(static_cast<std::size_t>(width)),
      left_(width_ * width_),
      used_(width_ * width_),
      surplus_(width_),
      wanted_(width_) {}

std::span<const LaneLoad> LaneAssigner::assign(const std::int64_t* tile, std::size_t stride,
                                               std::span<const Lane> lanes) {
    start(tile, stride, lanes);
    help_straight(lanes);
    help_rest();
    keep_own(lanes);
    return std::span(loads_).first(lanes.size());
}

/// Lanes of receivers that want them for themselves are filled first. What senders keep is set aside before anything
/// else is moved, so that helpers see how much room is truly left.
void LaneAssigner::start(const std::int64_t* tile, std::size_t stride, std::span<const Lane> lanes) {
    for (std::size_t gpu = 0; gpu < width_; ++gpu) {
        const std::span row(tile + gpu * stride, width_);
        std::ranges::copy(row, left_.begin() + static_cast<std::ptrdiff_t>(gpu * width_));
        surplus_[gpu] = std::accumulate(row.begin(), row.end(), std::int64_t{0});
    }
    find_hot();
    std::ranges::fill(used_, 0);
    if (loads_.size() < lanes.size()) loads_.resize(lanes.size());
    room_.resize(lanes.size());
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        loads_[lane].clear();
        room_[lane] = lanes[lane].bytes;
        const std::size_t own = to_size(lanes[lane].out_gpu);
        for (std::size_t turn = 0; lanes[lane].is_own && turn < width_; ++turn)
            help(lane, (own + turn) % width_, to_size(lanes[lane].in_gpu));
    }
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        std::int64_t& owed = surplus_[to_size(lanes[lane].out_gpu)];
        const std::int64_t kept = std::min(owed, room_[lane]);
        room_[lane] -= kept;
        owed -= kept;
    }
    require(std::accumulate(surplus_.begin(), surplus_.end(), std::int64_t{0}) ==
                std::accumulate(room_.begin(), room_.end(), std::int64_t{0}),
            "the lanes of a tile must hold exactly its bytes");
}

void LaneAssigner::find_hot() {
    std::ranges::fill(wanted_, 0);
    for (std::size_t pair = 0; pair < left_.size(); ++pair) wanted_[pair % width_] += left_[pair];
    const auto most = std::ranges::max_element(wanted_);
    const std::int64_t others = std::accumulate(wanted_.begin(), wanted_.end(), -*most);
    hot_ = *most > others ? static_cast<std::size_t>(most - wanted_.begin()) : width_;
}

std::int64_t LaneAssigner::take(LaneLoad& load, std::size_t sender, std::size_t receiver, std::int64_t most) {
    const std::size_t pair = sender * width_ + receiver;
    const std::int64_t bytes = std::min(left_[pair], most);
    if (bytes > 0) load.push_back({to_int32(sender), to_int32(receiver), used_[pair], bytes});
    used_[pair] += bytes;
    left_[pair] -= bytes;
    return bytes;
}

void LaneAssigner::help(std::size_t lane, std::size_t sender, std::size_t receiver) {
    const std::int64_t bytes = take(loads_[lane], sender, receiver, std::min(surplus_[sender], room_[lane]));
    surplus_[sender] -= bytes;
    room_[lane] -= bytes;
}

/// Bytes for the lane's own receiver: moved once, before the wire, and not again.
void LaneAssigner::help_straight(std::span<const Lane> lanes) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        for (std::size_t sender = 0; sender < width_ && room_[lane] > 0; ++sender)
            help(lane, sender, to_size(lanes[lane].in_gpu));
    }
}

/// The rest of each surplus, to lanes with room in order; the fullest pair first, so that few pieces are cut.
void LaneAssigner::help_rest() {
    std::size_t sender = 0;
    for (std::size_t lane = 0; lane < room_.size(); ++lane) {
        const auto straight = static_cast<std::ptrdiff_t>(loads_[lane].size());
        while (room_[lane] > 0) {
            while (surplus_[sender] == 0) ++sender;
            const auto row = std::span(left_).subspan(sender * width_, width_);
            help(lane, sender, static_cast<std::size_t>(std::ranges::max_element(row) - row.begin()));
        }
        std::ranges::rotate(loads_[lane], loads_[lane].begin() + straight);
    }
}

/// What a GPU did not give away: first for a receiver of more than half of the tile, whose port is needed all the time;
/// then receivers in turn from the lane's own on, so that lanes converge on none.
void LaneAssigner::keep_own(std::span<const Lane> lanes) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        const std::size_t own = to_size(lanes[lane].out_gpu);
        const auto helped = static_cast<std::ptrdiff_t>(loads_[lane].size());
        const auto keep = [&](std::size_t receiver) {
            take(loads_[lane], own, receiver, left_[own * width_ + receiver]);
        };
        if (hot_ < width_ && hot_ != own) keep(hot_);
        for (std::size_t turn = 1; turn <= width_; ++turn) keep((own + turn) % width_);
        std::ranges::rotate(loads_[lane], loads_[lane].begin() + helped);
    }
}

}  // namespace interlock
