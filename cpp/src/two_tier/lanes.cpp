#include "interlock/two_tier/lanes.hpp"

#include <algorithm>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"

namespace interlock {
namespace {

constexpr std::int64_t kRounds = 8;  // in which lanes to a server with a short receiver serve every receiver

}  // namespace

bool HotEnds::is_any() const {
    return std::ranges::any_of(of_receivers, [](std::uint8_t is_hot) { return is_hot != 0; });
}

LaneAssigner::LaneAssigner(std::int32_t width, std::int64_t least_part_bytes)
    : width_(static_cast<std::size_t>(width)), least_part_(std::max<std::int64_t>(least_part_bytes, 1)) {
    left_.resize(width_ * width_);
    used_.resize(width_ * width_);
    surplus_.resize(width_);
}

std::span<LaneLoad> LaneAssigner::assign(const std::int64_t* tile, std::size_t stride, std::span<const Lane> lanes,
                                         const HotEnds& hot) {
    start(tile, stride, lanes);
    if (hot.is_any()) fill_hot_lanes(lanes, hot);
    // What senders keep is set aside before anything is moved, so that helpers see how much room is truly left.
    reserve_own(lanes);
    help_straight(lanes);
    help_rest(lanes);
    keep_own(lanes);
    return std::span(loads_).first(lanes.size());
}

/// Where a round begins in a parcel: after whole parts, so that small parcels leave in the first rounds.
std::int64_t LaneAssigner::round_start(std::int64_t bytes, std::int64_t round) const {
    const std::int64_t start = portion(bytes, round, kRounds);
    return std::min(bytes, (start + least_part_ - 1) / least_part_ * least_part_);
}

/// Receivers in rounds, those whose port is short before all others: such a port should receive all the time, not in a
/// block, and what waits for it at its neighbours keeps it busy to the end.
void LaneAssigner::interleave(std::span<LaneLoad> loads, const HotEnds& hot) const {
    if (!hot.is_any()) return;
    std::vector<Parcel> mixed;
    for (LaneLoad& load : loads) {
        for (auto* parcels : {&load.own, &load.helped}) {
            if (parcels->size() < 2) continue;
            mixed.clear();
            for (const bool is_first : {true, false}) {
                for (std::int64_t round = 0; round < kRounds; ++round) {
                    for (const Parcel& whole : *parcels) {
                        if (hot.receives(whole.receiver) != is_first) continue;
                        const std::int64_t first = round_start(whole.bytes, round);
                        const std::int64_t bytes = round_start(whole.bytes, round + 1) - first;
                        if (bytes > 0) mixed.push_back({whole.sender, whole.receiver, whole.offset + first, bytes});
                    }
                }
            }
            parcels->swap(mixed);
        }
    }
}

void LaneAssigner::start(const std::int64_t* tile, std::size_t stride, std::span<const Lane> lanes) {
    room_.resize(lanes.size());
    reserved_.assign(lanes.size(), 0);
    while (loads_.size() < lanes.size()) {
        for (auto* parcels : {&loads_.emplace_back().own, &loads_.back().helped}) parcels->reserve(width_);
    }
    std::int64_t owed = 0, offered = 0;
    for (std::size_t i = 0; i < width_; ++i) {
        surplus_[i] = 0;
        for (std::size_t j = 0; j < width_; ++j) {
            left_[i * width_ + j] = tile[i * stride + j];
            surplus_[i] += tile[i * stride + j];
        }
        owed += surplus_[i];
    }
    std::fill(used_.begin(), used_.end(), 0);
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        room_[lane] = lanes[lane].bytes;
        offered += lanes[lane].bytes;
        loads_[lane].own.clear();
        loads_[lane].helped.clear();
        loads_[lane].own_bytes = loads_[lane].helped_bytes = 0;
    }
    require(owed == offered, "the lanes of a tile must hold exactly its bytes");
}

Parcel LaneAssigner::take(std::int32_t sender, std::int32_t receiver, std::int64_t most) {
    const std::size_t at = cell(sender, receiver);
    const Parcel parcel{sender, receiver, used_[at], std::min(left_[at], most)};
    used_[at] += parcel.bytes;
    left_[at] -= parcel.bytes;
    return parcel;
}

void LaneAssigner::take_own(std::size_t lane, std::int32_t sender, std::int32_t receiver, std::int64_t most) {
    const Parcel parcel = take(sender, receiver, most);
    if (parcel.bytes > 0) loads_[lane].own.push_back(parcel);
    loads_[lane].own_bytes += parcel.bytes;
}

void LaneAssigner::take_helped(std::size_t lane, std::int32_t sender, std::int32_t receiver, std::int64_t most) {
    const Parcel parcel =
        take(sender, receiver, std::min({most, surplus_[static_cast<std::size_t>(sender)], room_[lane]}));
    if (parcel.bytes > 0) loads_[lane].helped.push_back(parcel);
    loads_[lane].helped_bytes += parcel.bytes;
    surplus_[static_cast<std::size_t>(sender)] -= parcel.bytes;
    room_[lane] -= parcel.bytes;
}

void LaneAssigner::fill_hot_lanes(std::span<const Lane> lanes, const HotEnds& hot) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        const auto [sender, receiver, bytes] = lanes[lane];
        if (!hot.receives(receiver)) continue;
        take_own(lane, sender, receiver, room_[lane]);
        room_[lane] -= loads_[lane].own_bytes;
        surplus_[static_cast<std::size_t>(sender)] -= loads_[lane].own_bytes;
    }
    // Helpers give first what their own lanes cannot hold: those of a GPU that gave more would wait for others in turn,
    // and where its port has no time to receive more, it must not give more.
    for (const bool keeps_own : {true, false}) {
        std::vector<std::int64_t> kept(width_, 0);
        for (std::size_t lane = 0; keeps_own && lane < lanes.size(); ++lane) {
            kept[static_cast<std::size_t>(lanes[lane].out_gpu)] += room_[lane];
        }
        for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
            const auto [own, receiver, bytes] = lanes[lane];
            if (!hot.receives(receiver)) continue;
            const auto width = static_cast<std::int32_t>(width_);
            for (std::int32_t turn = 1; turn < width && room_[lane] > 0; ++turn) {
                const std::int32_t helper = (own + turn) % width;
                const auto at = static_cast<std::size_t>(helper);
                if (!keeps_own && hot.is_short(helper)) continue;
                take_helped(lane, helper, receiver, std::max<std::int64_t>(0, surplus_[at] - kept[at]));
            }
        }
    }
}

void LaneAssigner::reserve_own(std::span<const Lane> lanes) {
    const auto reserve = [&](std::size_t lane, std::int64_t most) {
        std::int64_t& surplus = surplus_[static_cast<std::size_t>(lanes[lane].out_gpu)];
        const std::int64_t bytes = std::min({surplus, room_[lane], most});
        reserved_[lane] += bytes;
        surplus -= bytes;
        room_[lane] -= bytes;
    };
    // First for bytes that go straight, so that lanes of one sender to many receivers leave room for helped ones.
    for (std::size_t lane = 0; lane < lanes.size(); ++lane)
        reserve(lane, left_[cell(lanes[lane].out_gpu, lanes[lane].in_gpu)]);
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) reserve(lane, room_[lane]);
}

/// Bytes for the lane's own receiver: moved once, before the wire, and not again.
void LaneAssigner::help_straight(std::span<const Lane> lanes) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        for (std::size_t sender = 0; sender < width_ && room_[lane] > 0; ++sender) {
            if (surplus_[sender] > 0) {
                take_helped(lane, static_cast<std::int32_t>(sender), lanes[lane].in_gpu, room_[lane]);
            }
        }
    }
}

/// The rest of each surplus, to lanes with room in order; the fullest pair first, so that few pieces are cut.
void LaneAssigner::help_rest(std::span<const Lane> lanes) {
    std::size_t sender = 0;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        auto& helped = loads_[lane].helped;
        const std::size_t straight = helped.size();
        while (room_[lane] > 0) {
            while (surplus_[sender] == 0) ++sender;
            const std::int64_t* row = left_.data() + sender * width_;
            std::size_t fullest = 0;
            for (std::size_t receiver = 1; receiver < width_; ++receiver) {
                if (row[receiver] > row[fullest]) fullest = receiver;
            }
            take_helped(lane, static_cast<std::int32_t>(sender), static_cast<std::int32_t>(fullest), room_[lane]);
        }
        // Twice-moved bytes leave first: they still have a hop to go.
        std::rotate(helped.begin(), helped.begin() + static_cast<std::ptrdiff_t>(straight), helped.end());
    }
}

/// Bytes for the lane's own receiver wherever they fit; then receivers in turn from the lane's own on, so that lanes
/// converge on no receiver at the same time. What is straight leaves last: it has no hop to go.
void LaneAssigner::keep_own(std::span<const Lane> lanes) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        const std::int64_t before = loads_[lane].own_bytes;
        take_own(lane, lanes[lane].out_gpu, lanes[lane].in_gpu, reserved_[lane]);
        reserved_[lane] -= loads_[lane].own_bytes - before;
    }
    const auto width = static_cast<std::int32_t>(width_);
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        auto& own = loads_[lane].own;
        const std::size_t straight = own.size();
        for (std::int32_t turn = 1; turn < width && reserved_[lane] > 0; ++turn) {
            const std::int64_t before = loads_[lane].own_bytes;
            take_own(lane, lanes[lane].out_gpu, (lanes[lane].in_gpu + turn) % width, reserved_[lane]);
            reserved_[lane] -= loads_[lane].own_bytes - before;
        }
        std::rotate(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(straight), own.end());
    }
}

}  // namespace interlock
