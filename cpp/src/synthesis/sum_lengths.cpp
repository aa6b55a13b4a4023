#include "interlock/synthesis/sum_lengths.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/limits.hpp"
#include "interlock/synthesis/arborescence.hpp"

namespace interlock {
namespace {

/// Links turned round, for trees towards a node, and one more node, the hub, with an arc to every other: the node that
/// the tree out of the hub enters first is the one that knows the sum first.
struct HubArcs {
    explicit HubArcs(const SumNetwork& network)
        : tail(network.dst.begin(), network.dst.end()), head(network.src.begin(), network.src.end()) {
        for (std::int32_t node = 0; node < network.num_nodes; ++node) {
            tail.push_back(network.num_nodes);
            head.push_back(node);
        }
    }
    std::vector<std::int32_t> tail, head;
};

/// The shortest way of one byte under given shares.
class ShortestSum {
public:
    explicit ShortestSum(const SumNetwork& network) : ShortestSum(network, HubArcs(network)) {}

    /// Writes the seconds that a byte takes of each channel, and returns its length; infinite where there is no way.
    double run(std::span<const double> share, std::span<double> taken) {
        const std::size_t links = network_.src.size(), nodes = nearest_.size();
        std::fill(nearest_.begin(), nearest_.end(), links);
        for (std::size_t link = 0; link < links; ++link) {
            length_[link] = share[at(network_.channel[link])] / network_.rate[link];
            std::size_t& nearest = nearest_[at(network_.dst[link])];
            if (nearest == links || length_[link] < length_[nearest]) nearest = link;
        }
        if (std::ranges::find(nearest_, links) != nearest_.end()) return std::numeric_limits<double>::infinity();
        // So long that one arc of the hub is taken and no more.
        const std::span<const double> of_links(length_.data(), links);
        const double far = 2.0 * std::accumulate(of_links.begin(), of_links.end(), 0.0);
        for (std::size_t node = 0; node < nodes; ++node) length_[links + node] = far - length_[nearest_[node]];
        if (!trees_.cheapest(network_.num_nodes, length_, arc_of_)) return std::numeric_limits<double>::infinity();
        std::fill(taken.begin(), taken.end(), 0.0);
        double sum = 0.0;
        for (std::size_t node = 0; node < nodes; ++node) {
            if (at(arc_of_[node]) >= links) continue;
            for (const std::size_t link : {at(arc_of_[node]), nearest_[node]}) {
                taken[at(network_.channel[link])] += 1.0 / network_.rate[link];
                sum += length_[link];
            }
        }
        return sum;
    }

private:
    ShortestSum(const SumNetwork& network, const HubArcs& arcs)
        : network_(network),
          trees_(network.num_nodes + 1, arcs.tail, arcs.head),
          length_(arcs.tail.size()),
          nearest_(at(network.num_nodes)),
          arc_of_(at(network.num_nodes) + 1) {}

    const SumNetwork& network_;
    Arborescence trees_;
    std::vector<double> length_;  // of links, then of the hub's arcs
    std::vector<std::size_t> nearest_;
    std::vector<std::int32_t> arc_of_;
};

void check(const SumNetwork& network, std::int32_t rounds) {
    const std::size_t links = network.src.size();
    require(network.num_nodes >= 1 && network.num_nodes <= kMostNodes && rounds >= 0 && rounds <= kMostRounds,
            "between 1 and 1,000,000 nodes, and between 0 and 100000 rounds");
    require(network.num_channels >= 0 && network.num_channels <= 50'000'000, "there are at most 50,000,000 channels");
    require(network.dst.size() == links && network.rate.size() == links && network.channel.size() == links,
            "src, dst, rate and channel must have one entry per link");
    require_ends(network.src, network.dst, network.num_nodes, "a link names a node that does not exist");
    require_ids(network.channel, network.num_channels, "a link names a channel that does not exist");
    for (const double rate : network.rate) require(rate > 0.0 && rate < 1e300, "rates must be above zero and finite");
}

void normalise(std::vector<double>& share) {
    const double total = std::accumulate(share.begin(), share.end(), 0.0);
    for (double& value : share) value /= total;
}

}  // namespace

SumBound crowded_sum(const SumNetwork& network, double known, std::int32_t rounds) {
    check(network, rounds);
    ShortestSum shortest(network);
    constexpr double close_enough = 0.998, worth_it = 1.0005;
    constexpr std::int32_t patience = 100;
    SumBound best{0.0, std::vector<double>(at(network.num_channels), 1.0 / std::max(1, network.num_channels))};
    std::vector<double> share = best.share, taken(share.size()), mean(share.size(), 0.0), average = share;
    double least_peak = std::numeric_limits<double>::infinity(), weights = 0.0, best_before = 0.0;
    const auto consider = [&](const std::vector<double>& candidate) {
        const double seconds = shortest.run(candidate, taken);
        if (std::isfinite(seconds) && seconds > best.seconds_per_byte) best = {seconds, candidate};
        return seconds;
    };
    for (std::int32_t round = 0; round < rounds; ++round) {
        const double seconds = consider(share);
        if (!std::isfinite(seconds)) return best;
        // A mix of ways is one that a fluid could take: its busiest channel bounds from above what shares can prove.
        const double weight = 1.0 + round;
        weights += weight;
        double peak = 0.0, fullest = 0.0;
        for (std::size_t channel = 0; channel < share.size(); ++channel) {
            mean[channel] += weight / weights * (taken[channel] - mean[channel]);
            average[channel] += weight / weights * (share[channel] - average[channel]);
            peak = std::max(peak, mean[channel]);
            fullest = std::max(fullest, taken[channel]);
        }
        least_peak = std::min(least_peak, peak);
        if (std::max(known, best.seconds_per_byte) >= close_enough * least_peak) break;
        // Polyak's step towards a bound between the best so far and what is possible.
        const double aim = 0.5 * (best.seconds_per_byte + least_peak);
        const double step = std::max(0.0, aim - seconds) / (fullest * fullest);
        for (std::size_t channel = 0; channel < share.size(); ++channel) {
            share[channel] *= std::exp(step * taken[channel]);
        }
        normalise(share);
        if (round % 10 == 9) consider(average);
        if (round % patience == patience - 1) {
            if (best.seconds_per_byte <= worth_it * best_before) break;
            best_before = best.seconds_per_byte;
        }
    }
    return best;
}

}  // namespace interlock
