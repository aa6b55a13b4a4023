#include "interlock/synthesis/lengths.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "interlock/errors.hpp"
#include "interlock/limits.hpp"

namespace interlock {
namespace {

constexpr double unreached = std::numeric_limits<double>::infinity();

/// Routes all bytes along shortest ways under the current lengths; small networks, so nodes are scanned, not queued.
class ShortestRouting {
public:
    explicit ShortestRouting(const PairTraffic& traffic)
        : traffic_(traffic), num_nodes_(static_cast<std::size_t>(traffic.num_nodes)), out_(num_nodes_) {
        for (std::size_t link = 0; link < traffic.src.size(); ++link) {
            out_[static_cast<std::size_t>(traffic.src[link])].push_back(link);
        }
    }

    /// Bytes on each link; returns the sum of bytes * distance.
    double run(std::span<const double> length, std::span<double> load) {
        std::fill(load.begin(), load.end(), 0.0);
        double volume = 0.0;
        for (std::size_t source = 0; source < num_nodes_; ++source) {
            const double* bytes = traffic_.bytes.data() + source * num_nodes_;
            if (std::all_of(bytes, bytes + num_nodes_, [](double b) { return b == 0.0; })) continue;
            settle(source, length);
            carried_.assign(bytes, bytes + num_nodes_);
            for (std::size_t k = settled_.size(); k-- > 1;) {  // farthest first: children before parents
                const std::size_t node = settled_[k];
                volume += bytes[node] * distance_[node];
                load[parent_[node]] += carried_[node];
                carried_[static_cast<std::size_t>(traffic_.src[parent_[node]])] += carried_[node];
            }
        }
        return volume;
    }

private:
    void settle(std::size_t source, std::span<const double> length) {
        distance_.assign(num_nodes_, unreached);
        parent_.assign(num_nodes_, 0);
        is_settled_.assign(num_nodes_, 0);
        settled_.clear();
        distance_[source] = 0.0;
        while (true) {
            std::size_t nearest = num_nodes_;
            for (std::size_t v = 0; v < num_nodes_; ++v) {
                if (is_settled_[v] || distance_[v] == unreached) continue;
                if (nearest == num_nodes_ || distance_[v] < distance_[nearest]) nearest = v;
            }
            if (nearest == num_nodes_) return;
            is_settled_[nearest] = 1;
            settled_.push_back(nearest);
            for (const std::size_t link : out_[nearest]) {
                const auto next = static_cast<std::size_t>(traffic_.dst[link]);
                const double through = distance_[nearest] + length[link];
                if (!is_settled_[next] && through < distance_[next]) {
                    distance_[next] = through;
                    parent_[next] = link;
                }
            }
        }
    }

    const PairTraffic& traffic_;
    std::size_t num_nodes_;
    std::vector<std::vector<std::size_t>> out_;
    std::vector<double> distance_, carried_;
    std::vector<std::size_t> parent_, settled_;
    std::vector<std::uint8_t> is_settled_;
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
    for (std::size_t link = 0; link < traffic.src.size(); ++link) {
        require(traffic.src[link] >= 0 && traffic.src[link] < traffic.num_nodes && traffic.dst[link] >= 0 &&
                    traffic.dst[link] < traffic.num_nodes,
                "a link names a node that does not exist");
        require(traffic.rate[link] > 0.0 && traffic.rate[link] < 1e300, "rates must be above zero and finite");
    }
    for (const double bytes : traffic.bytes) require(bytes >= 0.0 && bytes < 1e300, "bytes must be finite and not negative");
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
        for (std::size_t link = 0; link < num_links; ++link) fullest = std::max(fullest, load[link] / traffic.rate[link]);
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
