#include "interlock/flow_sim.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "interlock/errors.hpp"
#include "interlock/fan_in.hpp"
#include "interlock/flow_waits.hpp"
#include "interlock/max_min.hpp"

namespace interlock {
namespace {

// Departures this close together, next to a message's own duration, are one event even in exact mode.
constexpr double kExactTolerance = 1e-12;
// Timed events this close, next to the time itself, are one instant.
constexpr double kSameInstant = 1e-14;

/// Watches a run from outside; the plain run has none.
class Observer {
public:
    virtual ~Observer() = default;
    virtual void on_refill(double now_s, const MaxMinShare& shares) = 0;
    virtual void on_departure(double now_s, std::int32_t flow, const MaxMinShare& shares) = 0;
};

/// When each sending rank opens each stage. A rank opens one stage at a time, each taking the stage overhead.
class StageDoors {
public:
    explicit StageDoors(const FlowProblem& problem) : problem_(problem) {
        if (problem.stage_overhead_s == 0) return;
        std::vector<std::tuple<std::int32_t, std::int32_t, std::size_t>> uses;  // rank, stage, place in senders
        std::int32_t num_ranks = 0;
        for (std::size_t m = 0; m < problem.size_bytes.size(); ++m) {
            for (auto place = problem.senders.offsets[m]; place < problem.senders.offsets[m + 1]; ++place) {
                const std::int32_t rank = problem.senders.values[static_cast<std::size_t>(place)];
                num_ranks = std::max(num_ranks, rank + 1);
                uses.emplace_back(rank, problem.stage[m], static_cast<std::size_t>(place));
            }
        }
        std::sort(uses.begin(), uses.end());
        door_by_sender_.resize(uses.size());
        std::int32_t door = -1;
        for (std::size_t k = 0; k < uses.size(); ++k) {
            const bool is_new = k == 0 || std::get<0>(uses[k]) != std::get<0>(uses[k - 1]) ||
                                std::get<1>(uses[k]) != std::get<1>(uses[k - 1]);
            if (is_new) ++door;
            door_by_sender_[std::get<2>(uses[k])] = door;
        }
        open_at_s_.assign(static_cast<std::size_t>(door + 1), -1.0);
        rank_free_at_s_.assign(static_cast<std::size_t>(num_ranks), 0.0);
    }

    /// When a message that is ready now may start.
    double pass(std::int32_t message, double now_s) {
        double start_s = now_s;
        if (problem_.stage_overhead_s == 0) return start_s;
        const auto m = static_cast<std::size_t>(message);
        for (auto place = problem_.senders.offsets[m]; place < problem_.senders.offsets[m + 1]; ++place) {
            const auto p = static_cast<std::size_t>(place);
            double& open_at_s = open_at_s_[static_cast<std::size_t>(door_by_sender_[p])];
            if (open_at_s < 0) {
                double& free_at_s = rank_free_at_s_[static_cast<std::size_t>(problem_.senders.values[p])];
                free_at_s = std::max(free_at_s, now_s) + problem_.stage_overhead_s;
                open_at_s = free_at_s;
            }
            start_s = std::max(start_s, open_at_s);
        }
        return start_s;
    }

private:
    const FlowProblem& problem_;
    std::vector<std::int32_t> door_by_sender_;
    std::vector<double> open_at_s_;  // negative while shut
    std::vector<double> rank_free_at_s_;
};

class Simulation {
public:
    explicit Simulation(const FlowProblem& problem, Observer* observer = nullptr)
        : problem_(problem),
          observer_(observer),
          num_messages_(problem.size_bytes.size()),
          channels_((check_flow_problem(problem), channel_paths(problem))),
          waits_(problem),
          doors_(problem),
          fan_in_(problem, channels_),
          shares_(problem.capacity_bytes_per_s, channels_.view()),
          is_in_overhead_(num_messages_, 0),
          epoch_left_(waits_.in_epoch.offsets.size() - 1, 0),
          tolerance_(std::max(problem.tolerance, kExactTolerance)) {
        times_.start_s.assign(num_messages_, 0.0);
        times_.sent_s.assign(num_messages_, 0.0);
        times_.finish_s.assign(num_messages_, 0.0);
        times_.wait.assign(num_messages_, static_cast<std::uint8_t>(Wait::nothing));
        times_.waited_for.assign(num_messages_, -1);
        times_.bottleneck.assign(num_messages_, -1);
        if (observer != nullptr) shares_.keep_refilled_channels(true);
    }

    FlowTimes run() {
        release_first();
        while (true) {
            double next_s = next_event_s();
            if (shares_.needs_refill_before(next_s)) {
                shares_.refill_before(next_s, now_s_);
                if (observer_ != nullptr) observer_->on_refill(now_s_, shares_);
                next_s = next_event_s();
            }
            if (next_s == MaxMinShare::kNever) break;
            step(next_s);
        }
        require(num_arrived_ == num_messages_, "messages wait for each other in a circle");
        times_.peak_fan_in = fan_in_.take_peaks();
        times_.largest_idle_share = shares_.largest_idle_share();
        return std::move(times_);
    }

private:
    enum class Moment : std::uint8_t { start, arrive };
    using Timed = std::tuple<double, Moment, std::int32_t>;

    [[nodiscard]] double next_event_s() const {
        const double timed_s = timed_.empty() ? MaxMinShare::kNever : std::get<0>(timed_.front());
        return std::min(timed_s, shares_.next_departure_s());
    }

    void step(double next_s) {
        now_s_ = next_s;
        const double limit_s = now_s_ * (1 + kSameInstant);
        // All that leave now, before anything new joins: a mark of a newcomer must not be taken for one of theirs.
        departed_.clear();
        while (shares_.next_departure_s() <= limit_s) {
            const std::int32_t channel = shares_.next_channel();
            const auto departure = shares_.depart(tolerance_);
            times_.bottleneck[static_cast<std::size_t>(departure.flow)] = channel;
            departed_.push_back(departure.flow);
            if (observer_ != nullptr) observer_->on_departure(now_s_, departure.flow, shares_);
        }
        times_.num_events += static_cast<std::int64_t>(departed_.size());
        for (const std::int32_t m : departed_) leave(m);
        while (!timed_.empty() && std::get<0>(timed_.front()) <= limit_s) {
            const auto [time_s, moment, message] = timed_.front();
            std::pop_heap(timed_.begin(), timed_.end(), std::greater<>());
            timed_.pop_back();
            ++times_.num_events;
            now_s_ = std::max(now_s_, time_s);
            moment == Moment::start ? start(message) : arrive(message);
            release_ready();
        }
        release_ready();
    }

    void at(double time_s, Moment moment, std::int32_t message) {
        timed_.emplace_back(time_s, moment, message);
        std::push_heap(timed_.begin(), timed_.end(), std::greater<>());
    }

    void release_first() {
        for (std::size_t e = 0; e < epoch_left_.size(); ++e) {
            epoch_left_[e] = waits_.in_epoch.offsets[e + 1] - waits_.in_epoch.offsets[e];
        }
        for (std::size_t m = 0; m < num_messages_; ++m) {
            if (waits_.num_open[m] == 0) ready_.push_back(static_cast<std::int32_t>(m));
        }
        open_epochs(-1);
        release_ready();
    }

    /// Lets go of every message whose last condition was met; those may end at once and let go of others.
    void release_ready() {
        for (std::size_t k = 0; k < ready_.size(); ++k) {
            const std::int32_t message = ready_[k];
            const double start_s = doors_.pass(message, now_s_);
            if (start_s > now_s_) {
                at(start_s, Moment::start, message);
            } else {
                start(message);
            }
        }
        ready_.clear();
    }

    void meet(std::int32_t message, Wait what, std::int32_t by) {
        const auto m = static_cast<std::size_t>(message);
        if (--waits_.num_open[m] > 0) return;
        times_.wait[m] = static_cast<std::uint8_t>(what);
        times_.waited_for[m] = by;
        ready_.push_back(message);
    }

    void start(std::int32_t message) {
        const auto m = static_cast<std::size_t>(message);
        times_.start_s[m] = now_s_;
        const auto path = channels_[message];
        if (path.empty()) {
            sent(message);
        } else if (problem_.overhead_s[m] > 0) {
            is_in_overhead_[m] = 1;
            const double port = problem_.capacity_bytes_per_s[static_cast<std::size_t>(path.front())];
            shares_.add(message, 1, problem_.overhead_s[m] * port, now_s_);
        } else {
            transmit(message);
        }
    }

    void transmit(std::int32_t message) {
        const auto m = static_cast<std::size_t>(message);
        if (problem_.size_bytes[m] == 0) {
            sent(message);
            return;
        }
        shares_.add(message, channels_[message].size(), static_cast<double>(problem_.size_bytes[m]), now_s_);
        fan_in_.begin(message, shares_);
    }

    /// A flow has ended: the overhead, after which the bytes go, or the bytes.
    void leave(std::int32_t message) {
        const auto m = static_cast<std::size_t>(message);
        if (is_in_overhead_[m] != 0) {
            is_in_overhead_[m] = 0;
            transmit(message);
        } else {
            fan_in_.end(message, shares_);
            sent(message);
        }
    }

    void sent(std::int32_t message) {
        const auto m = static_cast<std::size_t>(message);
        times_.sent_s[m] = now_s_;
        for (const std::int32_t next : waits_.after_sending[message]) meet(next, Wait::link_order, message);
        if (problem_.latency_s[m] > 0 && !channels_[message].empty()) {
            at(now_s_ + problem_.latency_s[m], Moment::arrive, message);
        } else {
            arrive(message);
        }
    }

    void arrive(std::int32_t message) {
        const auto m = static_cast<std::size_t>(message);
        times_.finish_s[m] = now_s_;
        times_.makespan_s = std::max(times_.makespan_s, now_s_);
        ++num_arrived_;
        for (const std::int32_t next : waits_.after_arrival[message]) meet(next, Wait::dependency, message);
        --epoch_left_[static_cast<std::size_t>(waits_.epoch[m])];
        open_epochs(message);
    }

    void open_epochs(std::int32_t last_arrived) {
        while (open_epoch_ + 1 < epoch_left_.size() && epoch_left_[open_epoch_] == 0) {
            ++open_epoch_;
            for (const std::int32_t m : waits_.in_epoch[static_cast<std::int32_t>(open_epoch_)]) {
                meet(m, Wait::barrier, last_arrived);
            }
        }
    }

    const FlowProblem& problem_;
    Observer* observer_;
    std::size_t num_messages_;
    Rows channels_;
    Waits waits_;
    StageDoors doors_;
    FanIn fan_in_;
    MaxMinShare shares_;
    std::vector<std::uint8_t> is_in_overhead_;
    std::vector<std::int64_t> epoch_left_;
    std::vector<Timed> timed_;  // min-heap
    std::vector<std::int32_t> departed_;
    std::vector<std::int32_t> ready_;
    FlowTimes times_;
    std::size_t open_epoch_ = 0;
    std::size_t num_arrived_ = 0;
    double now_s_ = 0;
    double tolerance_;
};

class RateRecorder final : public Observer {
public:
    explicit RateRecorder(std::size_t num_messages) : last_(num_messages, 0.0) {}

    void on_refill(double now_s, const MaxMinShare& shares) override {
        for (const std::int32_t channel : shares.refilled_channels()) {
            shares.for_each_flow_held_by(channel, [&](std::int32_t flow) { note(now_s, flow, shares.rate(flow)); });
        }
    }
    void on_departure(double now_s, std::int32_t flow, const MaxMinShare&) override { note(now_s, flow, 0.0); }

    RateChanges changes;

private:
    void note(double now_s, std::int32_t flow, double rate) {
        double& last = last_[static_cast<std::size_t>(flow)];
        if (rate == last) return;
        last = rate;
        changes.time_s.push_back(now_s);
        changes.message.push_back(flow);
        changes.rate_bytes_per_s.push_back(rate);
    }
    std::vector<double> last_;
};

/// Adds up what each channel carries, span by span.
class UtilisationMeter final : public Observer {
public:
    UtilisationMeter(std::span<const double> capacity, std::span<const std::int64_t> path_offsets, const Rows& channels,
                     std::size_t num_bins, double horizon_s)
        : capacity_(capacity),
          channels_(channels),
          num_bins_(num_bins),
          bin_s_(horizon_s / static_cast<double>(num_bins)),
          used_(capacity.size(), 0.0),
          since_s_(capacity.size(), 0.0),
          share(capacity.size() * num_bins, 0.0) {
        (void)path_offsets;
    }

    void on_refill(double now_s, const MaxMinShare& shares) override {
        for (const std::int32_t channel : shares.refilled_channels()) update(channel, now_s, shares);
    }
    void on_departure(double now_s, std::int32_t flow, const MaxMinShare& shares) override {
        for (const std::int32_t channel : channels_[flow]) update(channel, now_s, shares);
    }

private:
    void update(std::int32_t channel, double now_s, const MaxMinShare& shares) {
        const auto c = static_cast<std::size_t>(channel);
        const double used = shares.used_bytes_per_s(channel);
        if (used_[c] > 0 && bin_s_ > 0) spread(c, since_s_[c], now_s);
        used_[c] = used;
        since_s_[c] = now_s;
    }
    void spread(std::size_t c, double from_s, double to_s) {
        const double part = used_[c] / capacity_[c];
        auto bin = static_cast<std::size_t>(from_s / bin_s_);
        while (from_s < to_s && bin < num_bins_) {
            const double end_s = std::min(to_s, static_cast<double>(bin + 1) * bin_s_);
            if (end_s > from_s) share[c * num_bins_ + bin] += part * (end_s - from_s) / bin_s_;
            from_s = std::max(from_s, end_s);
            ++bin;
        }
    }

    std::span<const double> capacity_;
    const Rows& channels_;
    std::size_t num_bins_;
    double bin_s_;
    std::vector<double> used_;
    std::vector<double> since_s_;

public:
    std::vector<double> share;  // [channels, bins]
};

}  // namespace

FlowTimes simulate_flows(const FlowProblem& problem) { return Simulation(problem).run(); }

RateChanges record_rates(const FlowProblem& problem) {
    RateRecorder recorder(problem.size_bytes.size());
    Simulation(problem, &recorder).run();
    return std::move(recorder.changes);
}

std::vector<double> channel_utilisation(const FlowProblem& problem, std::size_t num_bins, double horizon_s) {
    check_flow_problem(problem);
    const Rows channels = channel_paths(problem);
    UtilisationMeter meter(problem.capacity_bytes_per_s, problem.path.offsets, channels, num_bins, horizon_s);
    Simulation(problem, &meter).run();
    return std::move(meter.share);
}

}  // namespace interlock
