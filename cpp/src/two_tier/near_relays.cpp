#include "interlock/two_tier/near_relays.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace interlock {
namespace {

constexpr double kLeastPart = 1.0 / 256;  // of the busiest link's load, that is worth going around
constexpr int kMostMoves = 1024;         // per server

/// The links between the GPUs of one server.
class Mesh {
public:
    Mesh(std::span<const std::uint8_t> present, std::size_t first, std::size_t width)
        : present_(present), first_(first), width_(width), load_(width * width), movable_(width * width) {}

    void add(std::size_t from, std::size_t to, double bytes) { load_[from * width_ + to] += bytes; }
    void add_movable(std::size_t from, std::size_t to, double bytes) {
        add(from, to, bytes);
        movable_[from * width_ + to] += bytes;
    }

    /// Takes bytes off the busiest link until it is no busier than `most`, or nothing is left that would help.
    void spread(double most, std::int64_t least_bytes, std::vector<NearRelay>& relays) {
        std::map<std::tuple<std::size_t, std::size_t, std::size_t>, double> around;
        for (int move = 0; move < kMostMoves; ++move) {
            const auto busiest = static_cast<std::size_t>(std::ranges::max_element(load_) - load_.begin());
            const std::size_t from = busiest / width_, to = busiest % width_;
            if (load_[busiest] <= most) break;
            const std::size_t relay = best_relay(from, to);
            if (relay == width_) break;
            const double least = kLeastPart * load_[busiest];
            const double bytes = std::min({movable_[busiest], (load_[busiest] - busier(from, to, relay)) / 2, 4 * least,
                                           std::max(load_[busiest] - most, least)});
            if (bytes < least) break;
            for (const std::size_t link : {from * width_ + relay, relay * width_ + to}) load_[link] += bytes;
            load_[busiest] -= bytes;
            movable_[busiest] -= bytes;
            around[{from, to, relay}] += bytes;
        }
        const auto rank = [&](std::size_t gpu) { return static_cast<std::int32_t>(first_ + gpu); };
        for (const auto& [way, bytes] : around) {
            const auto [from, to, relay] = way;
            const auto whole = static_cast<std::int64_t>(bytes);
            if (whole >= least_bytes) relays.push_back({rank(from), rank(to), rank(relay), whole});
        }
    }

private:
    [[nodiscard]] double busier(std::size_t from, std::size_t to, std::size_t relay) const {
        return std::max(load_[from * width_ + relay], load_[relay * width_ + to]);
    }
    [[nodiscard]] std::size_t best_relay(std::size_t from, std::size_t to) const {
        std::size_t best = width_;
        for (std::size_t relay = 0; relay < width_; ++relay) {
            if (relay == from || relay == to || present_[first_ + relay] == 0) continue;
            if (best == width_ || busier(from, to, relay) < busier(from, to, best)) best = relay;
        }
        return best;
    }

    std::span<const std::uint8_t> present_;
    std::size_t first_, width_;
    std::vector<double> load_, movable_;  // [width, width]
};

}  // namespace

std::vector<NearRelay> near_relays(std::span<const std::int64_t> demand_bytes, const RankLoads& loads, const Rates& rates,
                                   double seconds, std::int64_t least_bytes, std::span<const HeavyPair> pairs,
                                   std::span<const std::uint8_t> present) {
    std::vector<NearRelay> relays;
    const std::size_t width = rates.width, ranks = rates.nic.size();
    if (width < 3) return relays;
    const auto gpus = static_cast<double>(width);
    const double most = seconds * rates.scale_up / (gpus - 1);
    for (std::size_t first = 0; first < ranks; first += width) {
        Mesh mesh(present, first, width);
        double out = 0;
        for (std::size_t gpu = 0; gpu < width; ++gpu) out += static_cast<double>(loads.out_far[first + gpu]) / gpus;
        for (std::size_t from = 0; from < width; ++from) {
            const double given = std::max(0.0, static_cast<double>(loads.out_far[first + from]) - out) / (gpus - 1);
            for (std::size_t to = 0; to < width; ++to) {
                if (from == to) continue;
                mesh.add_movable(from, to, static_cast<double>(demand_bytes[(first + from) * ranks + first + to]));
                mesh.add(from, to, given + static_cast<double>(loads.in_far[first + to]) / gpus);
            }
        }
        for (const HeavyPair& pair : pairs) {
            const auto src = static_cast<std::size_t>(pair.src), dst = static_cast<std::size_t>(pair.dst);
            if (src / width == first / width) mesh.add_movable(src - first, dst - first, -static_cast<double>(pair.nic_bytes));
        }
        mesh.spread(most, least_bytes, relays);
    }
    return relays;
}

}  // namespace interlock
