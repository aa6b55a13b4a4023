#include "interlock/two_tier/port_swaps.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "interlock/errors.hpp"

namespace interlock {
namespace {

constexpr int kMostSwaps = 256;
constexpr std::size_t kMostTries = std::size_t{1} << 20U;  // of two loads, over all swaps: some 20 ms
constexpr std::int64_t kLeastGain = 1000;  // a swap relieves a port by at least this part of what it may pass on

/// Bytes of one pair on one lane.
struct Load {
    std::size_t lane;
    Parcel parcel;
};

/// The two servers' ports under one numbering: up and down of the sending server's GPUs, then of the receiving one's.
class Ports {
public:
    Ports(PortLoads& loads, const TileLoads& tile, std::size_t width) : loads_(loads), tile_(tile), width_(width) {}
    [[nodiscard]] std::size_t size() const { return 4 * width_; }
    [[nodiscard]] std::size_t up_src(std::int32_t gpu) const { return static_cast<std::size_t>(gpu); }
    [[nodiscard]] std::size_t down_src(std::int32_t gpu) const { return width_ + static_cast<std::size_t>(gpu); }
    [[nodiscard]] std::size_t up_dst(std::int32_t gpu) const { return 2 * width_ + static_cast<std::size_t>(gpu); }
    [[nodiscard]] std::size_t down_dst(std::int32_t gpu) const { return 3 * width_ + static_cast<std::size_t>(gpu); }
    std::int64_t& operator[](std::size_t port) {
        const std::size_t rank = port % width_ + (port < 2 * width_ ? tile_.src_first : tile_.dst_first);
        return (port / width_ % 2 == 0 ? loads_.up : loads_.down)[rank];
    }

private:
    PortLoads& loads_;
    const TileLoads& tile_;
    std::size_t width_;
};

/// By how many times the bytes of a swap the load of each port it touches would change.
class Change {
public:
    void add(const Ports& ports, const Parcel& parcel, const Lane& lane, std::int32_t by) {
        if (parcel.sender != lane.out_gpu) {
            add(ports.up_src(parcel.sender), by);
            add(ports.down_src(lane.out_gpu), by);
        }
        if (parcel.receiver != lane.in_gpu) {
            add(ports.up_dst(lane.in_gpu), by);
            add(ports.down_dst(parcel.receiver), by);
        }
    }
    struct Entry {
        std::size_t port;
        std::int32_t times;
    };
    [[nodiscard]] std::span<const Entry> entries() const { return std::span(entries_).first(count_); }
    [[nodiscard]] std::int32_t of(std::size_t port) const {
        for (const Entry& entry : entries()) {
            if (entry.port == port) return entry.times;
        }
        return 0;
    }

private:
    void add(std::size_t port, std::int32_t by) {
        for (Entry& entry : std::span(entries_).first(count_)) {
            if (entry.port == port) {
                entry.times += by;
                return;
            }
        }
        entries_[count_++] = {port, by};
    }
    std::array<Entry, 16> entries_{};
    std::size_t count_ = 0;
};

class Evener {
public:
    Evener(const TileLoads& tile, PortLoads& ports, std::size_t width, std::int64_t most)
        : tile_(tile), ports_(ports, tile, width), most_(most), is_stuck_(4 * width, false) {
        for (std::size_t lane = 0; lane < tile.lanes.size(); ++lane) {
            for (const auto* parcels : {&tile.loads[lane].own, &tile.loads[lane].helped}) {
                for (const Parcel& parcel : *parcels) loads_.push_back({lane, parcel});
            }
        }
    }

    /// Whether anything was swapped.
    bool run() {
        bool has_swapped = false;
        for (int swaps = 0; swaps < kMostSwaps && tries_ < kMostTries; ++swaps) {
            std::size_t fullest = ports_.size();
            for (std::size_t port = 0; port < ports_.size(); ++port) {
                if (is_stuck_[port] || ports_[port] <= most_) continue;
                if (fullest == ports_.size() || ports_[port] > ports_[fullest]) fullest = port;
            }
            if (fullest == ports_.size()) break;
            if (relieve(fullest)) {
                has_swapped = true;
            } else {
                is_stuck_[fullest] = true;
            }
        }
        return has_swapped;
    }

    [[nodiscard]] std::span<const Load> loads() const { return loads_; }

private:
    [[nodiscard]] const Lane& lane_of(const Load& load) const { return tile_.lanes[load.lane]; }

    [[nodiscard]] Change change_of(const Load& a, const Load& b) const {
        Change change;
        change.add(ports_, a.parcel, lane_of(a), -1);
        change.add(ports_, b.parcel, lane_of(b), -1);
        change.add(ports_, a.parcel, lane_of(b), 1);
        change.add(ports_, b.parcel, lane_of(a), 1);
        return change;
    }

    /// Most bytes that two loads can swap for the good of a port: no other one may end above it, nor above the limit.
    [[nodiscard]] std::int64_t most_swapped(const Change& change, std::size_t port, std::int64_t bytes) {
        const std::int64_t relief = -change.of(port), load = ports_[port];
        std::int64_t most = std::min(bytes, (load - most_ + relief - 1) / relief);
        for (const auto& [other, times] : change.entries()) {
            if (times <= 0) continue;
            const std::int64_t room =
                std::max((load - ports_[other]) / (times + relief), (most_ - ports_[other]) / times);
            most = std::min(most, room);
        }
        return most;
    }

    bool relieve(std::size_t port) {
        std::int64_t best = most_ / kLeastGain, swapped = 0;
        std::size_t first = 0, second = 0;
        for (std::size_t a = 0; a < loads_.size(); ++a) {
            Change own;
            own.add(ports_, loads_[a].parcel, lane_of(loads_[a]), -1);
            if (own.of(port) == 0 || tries_ >= kMostTries) continue;
            tries_ += loads_.size();
            for (std::size_t b = 0; b < loads_.size(); ++b) {
                const std::int64_t bytes = std::min(loads_[a].parcel.bytes, loads_[b].parcel.bytes);
                if (loads_[a].lane == loads_[b].lane || 2 * bytes <= best) continue;
                const Change change = change_of(loads_[a], loads_[b]);
                if (change.of(port) >= 0) continue;
                const std::int64_t most = most_swapped(change, port, bytes);
                if (-change.of(port) * most <= best) continue;
                best = -change.of(port) * most;
                swapped = most;
                first = a;
                second = b;
            }
        }
        if (swapped <= 0) return false;
        const Change change = change_of(loads_[first], loads_[second]);
        for (const auto& [other, times] : change.entries()) ports_[other] += times * swapped;
        exchange(first, second, swapped);
        return true;
    }

    void exchange(std::size_t first, std::size_t second, std::int64_t bytes) {
        const std::size_t lanes[2] = {loads_[second].lane, loads_[first].lane};
        const std::size_t places[2] = {first, second};
        for (std::size_t n = 0; n < 2; ++n) {
            Parcel part = loads_[places[n]].parcel;
            part.bytes = bytes;
            loads_[places[n]].parcel.offset += bytes;
            loads_[places[n]].parcel.bytes -= bytes;
            loads_.push_back({lanes[n], part});
        }
        std::erase_if(loads_, [](const Load& load) { return load.parcel.bytes == 0; });
    }

    const TileLoads& tile_;
    Ports ports_;
    std::int64_t most_;
    std::vector<bool> is_stuck_;
    std::vector<Load> loads_;
    std::size_t tries_ = 0;
};

/// Puts loads back on their lanes; what goes straight leaves last.
void write_back(std::span<const Load> loads, const TileLoads& tile) {
    for (LaneLoad& load : tile.loads) load = {};
    for (const bool is_straight : {false, true}) {
        for (const auto& [lane, parcel] : loads) {
            if ((parcel.receiver == tile.lanes[lane].in_gpu) != is_straight) continue;
            LaneLoad& load = tile.loads[lane];
            const bool is_own = parcel.sender == tile.lanes[lane].out_gpu;
            (is_own ? load.own : load.helped).push_back(parcel);
            (is_own ? load.own_bytes : load.helped_bytes) += parcel.bytes;
        }
    }
}

}  // namespace

void count_moves(const TileLoads& tile, PortLoads& ports) {
    for (std::size_t lane = 0; lane < tile.lanes.size(); ++lane) {
        for (const auto* parcels : {&tile.loads[lane].own, &tile.loads[lane].helped}) {
            for (const auto& [sender, receiver, offset, bytes] : *parcels) {
                const auto at = [](std::size_t first, std::int32_t gpu) {
                    return first + static_cast<std::size_t>(gpu);
                };
                if (sender != tile.lanes[lane].out_gpu) {
                    ports.up[at(tile.src_first, sender)] += bytes;
                    ports.down[at(tile.src_first, tile.lanes[lane].out_gpu)] += bytes;
                }
                if (receiver != tile.lanes[lane].in_gpu) {
                    ports.up[at(tile.dst_first, tile.lanes[lane].in_gpu)] += bytes;
                    ports.down[at(tile.dst_first, receiver)] += bytes;
                }
            }
        }
    }
}

void even_ports(const TileLoads& tile, PortLoads& ports, std::int64_t most_bytes) {
    const std::size_t width =
        tile.src_first > tile.dst_first ? tile.src_first - tile.dst_first : tile.dst_first - tile.src_first;
    Evener evener(tile, ports, width, most_bytes);
    if (evener.run()) write_back(evener.loads(), tile);
}

PairLoads even_pair(std::span<const std::int64_t> demand_bytes, const TwoTierPlan& plan, LaneAssigner& assigner) {
    const std::size_t width = plan.width, ranks = plan.servers * width;
    require(plan.servers == 2 && demand_bytes.size() == ranks * ranks, "a pair is two servers");
    PortLoads ports{std::vector<std::int64_t>(ranks, 0), std::vector<std::int64_t>(ranks, 0)};
    for (std::size_t src = 0; src < ranks; ++src) {
        for (std::size_t dst = src / width * width; dst < (src / width + 1) * width; ++dst) {
            if (src == dst) continue;
            ports.up[src] += demand_bytes[src * ranks + dst];
            ports.down[dst] += demand_bytes[src * ranks + dst];
        }
    }
    for (const HeavyPair& pair : plan.heavy_pairs) {
        ports.up[static_cast<std::size_t>(pair.src)] -= pair.nic_bytes;
        ports.down[static_cast<std::size_t>(pair.dst)] -= pair.nic_bytes;
    }
    std::array<std::vector<Lane>, 2> lanes;
    PairLoads loads(2);
    const auto tile = [&](std::size_t src) {
        return TileLoads{lanes[src], loads[src], src * width, (1 - src) * width};
    };
    for (std::size_t src = 0; src < 2; ++src) {
        const std::int64_t* bytes = demand_bytes.data() + src * width * ranks + (1 - src) * width;
        std::int64_t tile_bytes = 0;
        for (std::size_t gpu = 0; gpu < width; ++gpu) {
            tile_bytes = std::accumulate(bytes + gpu * ranks, bytes + gpu * ranks + width, tile_bytes);
        }
        if (tile_bytes == 0) continue;
        std::vector<Lane> scratch;
        const auto of_tile = plan.lanes.of(src, 1 - src, tile_bytes, scratch);
        lanes[src].assign(of_tile.begin(), of_tile.end());
        const auto assigned = assigner.assign(bytes, ranks, lanes[src], plan.lanes.hot(src, 1 - src));
        loads[src].assign(assigned.begin(), assigned.end());
        count_moves(tile(src), ports);
    }
    for (std::size_t src = 0; src < 2; ++src) even_ports(tile(src), ports, plan.most_port_bytes);
    for (std::size_t src = 0; src < 2; ++src) assigner.interleave(loads[src], plan.lanes.hot(src, 1 - src));
    return loads;
}

}  // namespace interlock
