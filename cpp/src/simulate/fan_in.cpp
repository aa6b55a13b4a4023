#include "interlock/simulate/fan_in.hpp"

#include <algorithm>
#include <cmath>

namespace interlock {

double Congestion::goodput(std::int32_t num_senders, double bytes_per_sender) const {
    const double relative_size = bytes_per_sender / reference_bytes;
    double loss = 0;
    for (const LossTerm& term : {mild, collapse}) {
        const double beyond = num_senders - term.senders;
        if (term.per_sender == 0 || beyond <= 0) continue;
        loss += term.per_sender * std::pow(beyond, term.sender_exponent) * std::pow(relative_size, term.size_exponent);
    }
    return 1.0 / (1.0 + std::min(loss, max_loss));
}

FanIn::FanIn(const FlowProblem& problem, const Rows<std::int32_t>& channels)
    : problem_(problem),
      channels_(channels),
      pair_by_hop_(channels.values.size(), -1),
      senders_(problem.capacity_bytes_per_s.size(), 0),
      bytes_(problem.capacity_bytes_per_s.size(), 0.0),
      peak_(problem.capacity_bytes_per_s.size(), 0) {
    struct Hop {
        std::int32_t port, sender;
        std::size_t place;
    };
    std::vector<Hop> hops;
    for (std::size_t m = 0; m < problem.size_bytes.size(); ++m) {
        const std::int32_t sender = problem.senders[m].empty() ? -1 : problem.senders[m].front();
        const auto last = at(channels.offsets[m + 1]);
        for (auto h = at(channels.offsets[m]); h < last; ++h) {
            const std::int32_t channel = channels.values[h];
            if (problem.is_receiving_port[at(channel)] != 0) hops.push_back({channel, sender, h});
        }
    }
    std::sort(hops.begin(), hops.end(), [](const Hop& a, const Hop& b) {
        return a.port != b.port ? a.port < b.port : a.sender != b.sender ? a.sender < b.sender : a.place < b.place;
    });
    std::int32_t pair = -1;
    for (std::size_t k = 0; k < hops.size(); ++k) {
        if (k == 0 || hops[k].port != hops[k - 1].port || hops[k].sender != hops[k - 1].sender) ++pair;
        pair_by_hop_[hops[k].place] = pair;
    }
    messages_of_pair_.assign(at(pair + 1), 0);
}

void FanIn::change(std::int32_t message, std::int32_t by, MaxMinShare& shares) {
    const auto m = at(message);
    const auto last = at(channels_.offsets[m + 1]);
    for (auto h = at(channels_.offsets[m]); h < last; ++h) {
        if (pair_by_hop_[h] < 0) continue;
        const std::int32_t channel = channels_.values[h];
        const auto c = at(channel);
        std::int32_t& in_flight = messages_of_pair_[at(pair_by_hop_[h])];
        in_flight += by;
        if (in_flight == (by > 0 ? 1 : 0)) senders_[c] += by;
        peak_[c] = std::max(peak_[c], senders_[c]);
        bytes_[c] += by * static_cast<double>(problem_.size_bytes[m]);
        if (!problem_.congestion.is_modelled) continue;
        const double bytes_per_sender = senders_[c] > 0 ? bytes_[c] / senders_[c] : 0.0;
        const double goodput = problem_.congestion.goodput(senders_[c], bytes_per_sender);
        shares.change_capacity(channel, problem_.capacity_bytes_per_s[c] * goodput);
    }
}

}  // namespace interlock
