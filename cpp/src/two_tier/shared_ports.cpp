#include "interlock/two_tier/shared_ports.hpp"

#include <algorithm>
#include <limits>

#include "interlock/arithmetic.hpp"

namespace interlock {
namespace {

constexpr double kAlike = 0.02;     // ports whose flows get shares that differ by less are full at once
constexpr double kStep = 0.03;  // of the busiest port's time, within which lanes may end before shares are made again

/// Rates of many lanes at once. The simulator's `MaxMinShare` goes from flow to flow, exactly: for the lanes of a
/// detour between 16 servers that took twice as long, and prices need no such digits.
class Fluid {
public:
    Fluid(std::span<const SharingLane> lanes, std::span<const double> rate)
        : lanes_(lanes),
          rate_(rate.begin(), rate.end()),
          left_(rate_.size()),
          flows_(rate_.size()),
          share_(rate_.size()),
          lane_rate_(lanes.size()) {}

    std::vector<double>& port_rates() { return left_; }
    void reset() { left_ = rate_; }
    [[nodiscard]] double lane_rate(std::int32_t lane) const { return lane_rate_[to_size(lane)]; }

    /// Rates of these lanes, from what ports have left: the fullest port's lanes first.
    void fill(std::vector<std::int32_t> open) {
        std::ranges::fill(flows_, 0.0);
        for (const std::int32_t lane : open) {
            for (const std::int32_t port : lanes_[to_size(lane)].ports())
                flows_[to_size(port)] += lanes_[to_size(lane)].flows;
        }
        while (!open.empty()) {
            double least = std::numeric_limits<double>::infinity();
            for (std::size_t port = 0; port < share_.size(); ++port) {
                if (flows_[port] <= 0) continue;
                share_[port] = std::max(0.0, left_[port]) / flows_[port];
                least = std::min(least, share_[port]);
            }
            const auto share_of = [&](const SharingLane& lane) {
                double share = std::numeric_limits<double>::infinity();
                for (const std::int32_t port : lane.ports()) share = std::min(share, share_[to_size(port)]);
                return share;
            };
            const auto close = [&](std::int32_t id, double share) {
                const SharingLane& lane = lanes_[to_size(id)];
                lane_rate_[to_size(id)] = share * lane.flows;
                for (const std::int32_t port : lane.ports()) {
                    left_[to_size(port)] -= share * lane.flows;
                    flows_[to_size(port)] -= lane.flows;
                }
                return true;
            };
            // Lanes that cannot take their share leave more to the others.
            const auto num_limited = std::erase_if(open, [&](std::int32_t id) {
                const SharingLane& lane = lanes_[to_size(id)];
                return lane.most_rate < share_of(lane) * lane.flows && close(id, lane.most_rate / lane.flows);
            });
            if (num_limited > 0) continue;
            std::erase_if(open, [&](std::int32_t id) {
                const double share = share_of(lanes_[to_size(id)]);
                return share <= least * (1 + kAlike) && close(id, share);
            });
        }
    }

private:
    std::span<const SharingLane> lanes_;
    std::vector<double> rate_, left_, flows_, share_, lane_rate_;
};

}  // namespace

std::vector<Span> share_ports(std::span<const SharingLane> lanes, std::span<const double> rate, double latency_s,
                              const std::function<void(std::span<const std::int32_t>, std::span<double>)>& lose) {
    std::vector<Span> spans(lanes.size());
    std::vector<double> left(lanes.size());
    std::vector<std::int32_t> active, waiting;
    for (std::size_t id = 0; id < lanes.size(); ++id) {
        left[id] = lanes[id].bytes;
        spans[id].end_s = std::numeric_limits<double>::infinity();
        const bool waits = lanes[id].after[0] >= 0 || lanes[id].after[1] >= 0;
        (waits ? waiting : active).push_back(to_int32(id));
    }
    std::vector<double> load(rate.size(), 0.0);
    double step_s = 0;
    for (const SharingLane& lane : lanes) {
        for (const std::int32_t port : lane.ports())
            step_s = std::max(step_s, kStep * (load[to_size(port)] += lane.bytes) / rate[to_size(port)]);
    }
    Fluid fluid(lanes, rate);
    std::vector<double> ends;
    double now = 0;
    while (!active.empty() || !waiting.empty()) {
        // Those that may begin by now do.
        double next = std::numeric_limits<double>::infinity();
        std::erase_if(waiting, [&](std::int32_t id) {
            double start = 0;
            for (const std::int32_t before : lanes[to_size(id)].after) {
                if (before >= 0) start = std::max(start, spans[to_size(before)].end_s + latency_s);
            }
            if (start > now) {
                next = std::min(next, start);
                return false;
            }
            spans[to_size(id)].start_s = start;
            active.push_back(id);
            return true;
        });
        if (active.empty() && next == std::numeric_limits<double>::infinity()) break;
        fluid.reset();
        lose(active, fluid.port_rates());
        fluid.fill(active);
        ends.clear();
        for (const std::int32_t id : active)
            ends.push_back(now + left[to_size(id)] / std::max(fluid.lane_rate(id), 1e-9));
        // Those that end within a step end in the middle of it: what some lose others gain.
        const double first = ends.empty() ? next : std::ranges::min(ends), until = std::min(next, first + step_s / 2);
        std::size_t n = 0;
        std::erase_if(active, [&](std::int32_t id) {
            const double end = ends[n++];
            left[to_size(id)] -= (until - now) * fluid.lane_rate(id);
            if (end > until + (until == next ? 0 : step_s / 2)) return false;
            spans[to_size(id)].end_s = end;
            return true;
        });
        now = until;
    }
    return spans;
}

}  // namespace interlock
