#include "interlock/synthesis/lengths.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/limits.hpp"
#include "interlock/synthesis/shortest_tree.hpp"

namespace interlock {
namespace {

/// Routes all bytes along shortest ways under the current lengths.
class ShortestRouting {
public:
    explicit ShortestRouting(const PairTraffic& traffic)
        : traffic_(traffic), num_nodes_(at(traffic.num_nodes)), ways_(traffic.num_nodes, traffic.src, traffic.dst) {}

    /// Bytes on each link; returns the sum of bytes * distance.
    double run(std::span<const double> length, std::span<double> load) {
        std::ranges::fill(load, 0.0);
        double volume = 0.0;
        for (std::int32_t source = 0; source < traffic_.num_nodes; ++source) {
            const std::span<const double> bytes = traffic_.bytes.subspan(at(source) * num_nodes_, num_nodes_);
            if (std::ranges::all_of(bytes, [](double b) { return b == 0.0; })) continue;
            ways_.search(source, length);
            carried_.assign(bytes.begin(), bytes.end());
            const std::span<const std::int32_t> order = ways_.order();
            for (std::size_t k = order.size(); k-- > 1;) {  // farthest first: children before parents
                const std::size_t node = at(order[k]), link = at(ways_.arc_into()[node]);
                volume += bytes[node] * ways_.distance()[node];
                load[link] += carried_[node];
                carried_[at(traffic_.src[link])] += carried_[node];
            }
        }
        return volume;
    }

private:
    const PairTraffic& traffic_;
    std::size_t num_nodes_;
    ShortestTree ways_;
    std::vector<double> carried_;
};

/// So that rate * length adds up to 1.
void normalise(std::span<const double> rate, std::span<double> length) {
    const double total = std::inner_product(rate.begin(), rate.end(), length.begin(), 0.0);
    for (double& value : length) value /= total;
}

void check(const PairTraffic& traffic, std::int32_t rounds) {
    const auto nodes = static_cast<std::size_t>(std::max(traffic.num_nodes, 0));
    require(nodes >= 1 && nodes <= 4096 && rounds >= 0 && rounds <= kMostRounds,
            "between 1 and 4096 nodes, and between 0 and 100000 rounds");
    require(traffic.src.size() == traffic.dst.size() && traffic.src.size() == traffic.rate.size(),
            "src, dst and rate must have one entry per link");
    require(traffic.bytes.size() == nodes * nodes, "bytes must be square, a row per node");
    require_ends(traffic.src, traffic.dst, traffic.num_nodes, "a link names a node that does not exist");
    for (const double rate : traffic.rate) require(rate > 0.0 && rate < 1e300, "rates must be above zero and finite");
    for (const double bytes : traffic.bytes)
        require(bytes >= 0.0 && bytes < 1e300, "bytes must be finite and not negative");
}

}  // namespace

std::vector<double> crowded_lengths(const PairTraffic& traffic, std::int32_t rounds) {
    check(traffic, rounds);
    const std::size_t num_links = traffic.src.size();
    std::vector<double> length(num_links), load(num_links), best, mean(num_links, 0.0);
    for (std::size_t link = 0; link < num_links; ++link) length[link] = 1.0 / traffic.rate[link];
    if (num_links == 0) return length;
    normalise(traffic.rate, length);
    ShortestRouting routing(traffic);
    double best_s = -1.0;
    auto consider = [&](const std::vector<double>& candidate, double seconds) {
        if (seconds <= best_s) return;
        best_s = seconds;
        best = candidate;
    };
    for (std::int32_t round = 0; round <= rounds; ++round) {
        consider(length, routing.run(length, load));
        double fullest = 0.0;
        for (std::size_t link = 0; link < num_links; ++link)
            fullest = std::max(fullest, load[link] / traffic.rate[link]);
        if (fullest == 0.0) break;
        // Later rounds count more: the mean follows the lengths as they settle.
        const double weight = 2.0 / (round + 2.0);
        const double step = 1.0 / std::sqrt(1.0 + round / 10.0);
        for (std::size_t link = 0; link < num_links; ++link) {
            mean[link] += weight * (length[link] - mean[link]);
            length[link] *= std::exp(step * load[link] / traffic.rate[link] / fullest);
        }
        normalise(traffic.rate, length);
        if (round % 10 == 9) consider(mean, routing.run(mean, load));
    }
    return best;
}

}  // namespace interlock
