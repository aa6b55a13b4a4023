#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "interlock/simulate/flow_waits.hpp"

namespace interlock {

/// When all can end at the earliest: a channel has yet to carry all that has not started, what has the longest tail
/// first. Bytes under way count as there, so this is never too late.
class EarliestEnd {
public:
    EarliestEnd(const FlowProblem& problem, const Rows<std::int32_t>& channels)
        : problem_(problem), channels_(channels) {
        if (!is_asked()) return;
        tails_s_.assign(problem.tail_s.begin(), problem.tail_s.end());
        std::sort(tails_s_.begin(), tails_s_.end(), std::greater<>());
        tails_s_.erase(std::unique(tails_s_.begin(), tails_s_.end()), tails_s_.end());
        left_s_.assign(problem.capacity_bytes_per_s.size() * tails_s_.size(), 0.0);
        tail_.resize(problem.tail_s.size());
        for (std::size_t m = 0; m < tail_.size(); ++m) {
            const auto place = std::lower_bound(tails_s_.begin(), tails_s_.end(), problem.tail_s[m], std::greater<>());
            tail_[m] = at(place - tails_s_.begin());
            each_left(m, [](double& left_s, double own_s, double) { left_s += own_s; });
        }
    }

    /// Whether anybody asks.
    [[nodiscard]] bool is_asked() const { return !problem_.tail_s.empty(); }

    /// A message starts: the earliest end by the channels it takes.
    double start(std::int32_t message, double now_s) {
        double longest_s = 0;
        each_left(at(message), [&](double& left_s, double own_s, double tail_s) {
            longest_s = std::max(longest_s, left_s + tail_s);
            left_s -= own_s;
        });
        return now_s + longest_s;
    }

private:
    /// What its channels have left of tails as long as a message's, or longer than each of those shorter.
    template <typename Use>
    void each_left(std::size_t message, Use use) {
        for (const std::int32_t channel : channels_[static_cast<std::int32_t>(message)]) {
            const auto c = at(channel);
            const double own_s = static_cast<double>(problem_.size_bytes[message]) / problem_.capacity_bytes_per_s[c];
            for (std::size_t k = tail_[message]; k < tails_s_.size(); ++k)
                use(left_s_[c * tails_s_.size() + k], own_s, tails_s_[k]);
        }
    }

    const FlowProblem& problem_;
    const Rows<std::int32_t>& channels_;
    std::vector<double> tails_s_;    // all there are, descending
    std::vector<std::size_t> tail_;  // [messages]: which of them
    // [channels, tails]: seconds of what has not started and has this tail or a longer one
    std::vector<double> left_s_;
};

}  // namespace interlock
