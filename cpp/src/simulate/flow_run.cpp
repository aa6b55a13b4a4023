#include "interlock/simulate/flow_run.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "interlock/errors.hpp"

namespace interlock {
namespace {

// Events this close, next to the time itself, are one instant.
constexpr double kSameInstant = 1e-14;
// Where more urgent messages leave this part of a channel idle, one that can wait may fill it.
constexpr double kWorthFilling = 0.5;

const FlowProblem& checked(const FlowProblem& problem) {
    check_flow_problem(problem);
    return problem;
}

}  // namespace

FlowRun::FlowRun(const FlowProblem& problem, FlowObserver* observer)
    : problem_(checked(problem)),
      observer_(observer),
      num_messages_(problem.size_bytes.size()),
      channels_(channel_paths(problem)),
      waits_(problem),
      turns_(problem),
      admission_(problem.level, channels_, problem.capacity_bytes_per_s.size()),
      earliest_end_(problem, channels_),
      doors_(problem),
      fan_in_(problem, channels_),
      shares_(problem.capacity_bytes_per_s, channels_.view(), problem.tolerance),
      is_in_overhead_(num_messages_, 0),
      epoch_left_(waits_.in_epoch.offsets.size() - 1, 0) {
    times_.start_s.assign(num_messages_, 0.0);
    times_.sent_s.assign(num_messages_, 0.0);
    times_.finish_s.assign(num_messages_, 0.0);
    times_.wait.assign(num_messages_, static_cast<std::uint8_t>(Wait::nothing));
    times_.waited_for.assign(num_messages_, -1);
    times_.bottleneck.assign(num_messages_, -1);
    if (observer != nullptr) shares_.keep_refilled_channels(true);
}

FlowTimes FlowRun::run() {
    release_first();
    while (true) {
        double next_s = next_event_s();
        if (shares_.needs_refill_before(next_s)) {
            shares_.refill_before(next_s, now_s_);
            if (observer_ != nullptr) observer_->on_refill(now_s_, shares_);
            next_s = next_event_s();
        }
        if (next_s == MaxMinShare::kNever || times_.makespan_s == MaxMinShare::kNever) break;
        step(next_s);
    }
    require(num_arrived_ == num_messages_ || times_.makespan_s == MaxMinShare::kNever,
            "messages wait for each other in a circle");
    times_.peak_fan_in = fan_in_.take_peaks();
    times_.largest_idle_share = shares_.largest_idle_share();
    times_.stood_back = admission_.take_waits();
    times_.turn = turns_.take();
    return std::move(times_);
}

double FlowRun::next_event_s() const {
    const double timed_s = timed_.empty() ? MaxMinShare::kNever : std::get<0>(timed_.front());
    return std::min(timed_s, shares_.next_departure_s());
}

void FlowRun::step(double next_s) {
    now_s_ = next_s;
    const double limit_s = now_s_ * (1 + kSameInstant);
    depart_until(limit_s);
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

/// All that leave now, before anything new joins: the next departure is only known between refills.
void FlowRun::depart_until(double limit_s) {
    departed_.clear();
    while (shares_.next_departure_s() <= limit_s) {
        const std::int32_t channel = shares_.next_channel();
        const std::int32_t message = shares_.depart().flow;
        times_.bottleneck[static_cast<std::size_t>(message)] = channel;
        departed_.push_back(message);
        if (observer_ != nullptr) observer_->on_departure(now_s_, message, shares_);
    }
    times_.num_events += static_cast<std::int64_t>(departed_.size());
}

void FlowRun::at(double time_s, Moment moment, std::int32_t message) {
    timed_.emplace_back(time_s, moment, message);
    std::push_heap(timed_.begin(), timed_.end(), std::greater<>());
}

void FlowRun::release_first() {
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
void FlowRun::release_ready() {
    const auto has_room = [&](std::int32_t channel) {
        const double capacity = problem_.capacity_bytes_per_s[static_cast<std::size_t>(channel)];
        return shares_.used_bytes_per_s(channel) <= (1 - kWorthFilling) * capacity;
    };
    for (std::size_t k = 0; k < ready_.size(); ++k) {
        const std::int32_t message = ready_[k];
        if (!turns_.may_enter(message) || !admission_.enter(message, now_s_, has_room)) continue;
        turns_.enter(message);
        const double start_s = doors_.pass(message, now_s_);
        if (start_s > now_s_) {
            at(start_s, Moment::start, message);
        } else {
            start(message);
        }
    }
    ready_.clear();
}

void FlowRun::meet(std::int32_t message, Wait what, std::int32_t by) {
    const auto m = static_cast<std::size_t>(message);
    if (--waits_.num_open[m] > 0) return;
    times_.wait[m] = static_cast<std::uint8_t>(what);
    times_.waited_for[m] = by;
    ready_.push_back(message);
}

void FlowRun::open_epochs(std::int32_t last_arrived) {
    while (open_epoch_ + 1 < epoch_left_.size() && epoch_left_[open_epoch_] == 0) {
        ++open_epoch_;
        for (const std::int32_t m : waits_.in_epoch[static_cast<std::int32_t>(open_epoch_)]) {
            meet(m, last_arrived < 0 ? Wait::nothing : Wait::barrier, last_arrived);
        }
    }
}

void FlowRun::start(std::int32_t message) {
    const auto m = static_cast<std::size_t>(message);
    times_.start_s[m] = now_s_;
    if (earliest_end_.is_asked()) give_up_after(earliest_end_.start(message, now_s_));
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

void FlowRun::give_up_after(double end_s) {
    if (end_s >= problem_.give_up_s) times_.makespan_s = MaxMinShare::kNever;
}

void FlowRun::transmit(std::int32_t message) {
    const auto m = static_cast<std::size_t>(message);
    if (problem_.size_bytes[m] == 0) {
        sent(message);
        return;
    }
    shares_.add(message, channels_[message].size(), static_cast<double>(problem_.size_bytes[m]), now_s_);
    fan_in_.begin(message, shares_);
}

/// A flow has ended: the overhead, after which the bytes go, or the bytes.
void FlowRun::leave(std::int32_t message) {
    const auto m = static_cast<std::size_t>(message);
    if (is_in_overhead_[m] != 0) {
        is_in_overhead_[m] = 0;
        transmit(message);
    } else {
        fan_in_.end(message, shares_);
        sent(message);
    }
}

void FlowRun::sent(std::int32_t message) {
    const auto m = static_cast<std::size_t>(message);
    times_.sent_s[m] = now_s_;
    for (const std::int32_t next : waits_.after_sending[message]) meet(next, Wait::link_order, message);
    turns_.leave(message, [&](std::int32_t next) { ready_.push_back(next); });
    if (problem_.latency_s[m] > 0) {
        at(now_s_ + problem_.latency_s[m], Moment::arrive, message);
    } else {
        arrive(message);
    }
}

void FlowRun::arrive(std::int32_t message) {
    const auto m = static_cast<std::size_t>(message);
    times_.finish_s[m] = now_s_;
    times_.makespan_s = std::max(times_.makespan_s, now_s_);
    if (earliest_end_.is_asked()) give_up_after(now_s_ + problem_.tail_s[m]);
    ++num_arrived_;
    for (const std::int32_t next : waits_.after_arrival[message]) meet(next, Wait::dependency, message);
    for (const std::int32_t next : admission_.arrived(message)) ready_.push_back(next);
    --epoch_left_[static_cast<std::size_t>(waits_.epoch[m])];
    open_epochs(message);
}

}  // namespace interlock
