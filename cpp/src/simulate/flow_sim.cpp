#include "interlock/simulate/flow_sim.hpp"

#include <algorithm>
#include <utility>

#include "interlock/errors.hpp"
#include "interlock/simulate/flow_run.hpp"

namespace interlock {
namespace {

class RateRecorder final : public FlowObserver {
public:
    explicit RateRecorder(std::size_t num_messages) : last_(num_messages, 0.0) {}

    void on_refill(double now_s, const MaxMinShare& shares) override {
        for (const std::int32_t channel : shares.refilled_channels()) {
            shares.for_each_flow_held_by(channel, [&](std::int32_t flow) { note(now_s, flow, shares.rate(flow)); });
        }
    }
    void on_departure(double now_s, std::int32_t message, const MaxMinShare&) override { note(now_s, message, 0.0); }

    RateChanges take() { return std::move(changes_); }

private:
    void note(double now_s, std::int32_t message, double rate) {
        double& last = last_[static_cast<std::size_t>(message)];
        if (rate == last) return;
        last = rate;
        changes_.time_s.push_back(now_s);
        changes_.message.push_back(message);
        changes_.rate_bytes_per_s.push_back(rate);
    }

    std::vector<double> last_;
    RateChanges changes_;
};

/// Adds up what each channel carries, span by span.
class UtilisationMeter final : public FlowObserver {
public:
    UtilisationMeter(const FlowProblem& problem, std::size_t num_bins, double horizon_s)
        : capacity_(problem.capacity_bytes_per_s),
          num_bins_(num_bins),
          bin_s_(horizon_s / static_cast<double>(num_bins)),
          channels_(channel_paths(problem)),
          used_(capacity_.size(), 0.0),
          since_s_(capacity_.size(), 0.0),
          share_(capacity_.size() * num_bins, 0.0) {}

    void on_refill(double now_s, const MaxMinShare& shares) override {
        for (const std::int32_t channel : shares.refilled_channels()) update(channel, now_s, shares);
    }
    void on_departure(double now_s, std::int32_t message, const MaxMinShare& shares) override {
        for (const std::int32_t channel : channels_[message]) update(channel, now_s, shares);
    }

    std::vector<double> take() { return std::move(share_); }

private:
    void update(std::int32_t channel, double now_s, const MaxMinShare& shares) {
        const auto c = static_cast<std::size_t>(channel);
        if (used_[c] > 0) spread(c, since_s_[c], now_s);
        used_[c] = shares.used_bytes_per_s(channel);
        since_s_[c] = now_s;
    }
    void spread(std::size_t c, double from_s, double to_s) {
        const double part = used_[c] / capacity_[c];
        for (auto bin = static_cast<std::size_t>(from_s / bin_s_); from_s < to_s && bin < num_bins_; ++bin) {
            const double end_s = std::min(to_s, static_cast<double>(bin + 1) * bin_s_);
            if (end_s <= from_s) continue;
            share_[c * num_bins_ + bin] += part * (end_s - from_s) / bin_s_;
            from_s = end_s;
        }
    }

    std::span<const double> capacity_;
    std::size_t num_bins_;
    double bin_s_;
    Rows<std::int32_t> channels_;
    std::vector<double> used_;
    std::vector<double> since_s_;
    std::vector<double> share_;  // [channels, bins]
};

}  // namespace

FlowTimes simulate_flows(const FlowProblem& problem) { return FlowRun(problem).run(); }

RateChanges record_rates(const FlowProblem& problem) {
    RateRecorder recorder(problem.size_bytes.size());
    FlowRun(problem, &recorder).run();
    return recorder.take();
}

std::vector<double> channel_utilisation(const FlowProblem& problem, std::size_t num_bins, double horizon_s) {
    check_flow_problem(problem);
    require(num_bins > 0 && num_bins <= 1'000'000, "num_bins must be between 1 and 1000000");
    if (!(horizon_s > 0)) return std::vector<double>(problem.capacity_bytes_per_s.size() * num_bins, 0.0);
    UtilisationMeter meter(problem, num_bins, horizon_s);
    FlowRun(problem, &meter).run();
    return meter.take();
}

}  // namespace interlock
