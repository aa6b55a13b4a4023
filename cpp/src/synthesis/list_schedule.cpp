#include "interlock/synthesis/list_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "interlock/arithmetic.hpp"
#include "interlock/limits.hpp"

namespace interlock {
namespace {

constexpr std::int32_t kMostSenders = 1'000'000;

void check(const OrbitWork& work) {
    const std::size_t orbits = work.orbit_resources.num_rows(), tasks = work.task_orbit.size();
    work.orbit_resources.check(orbits, "orbit_resources");
    work.successors.check(tasks, "successors");
    work.orbit_shares.check(orbits, "orbit_shares");
    require(std::ranges::equal(work.orbit_shares.offsets, work.orbit_resources.offsets),
            "every resource of an orbit needs a share");
    for (const double share : work.orbit_shares.values)
        require(share > 0.0 && share <= 1.0, "shares must be above 0 and at most 1");
    require(work.orbit_least_rates.size() == work.orbit_shares.values.size(), "every share needs a least rate");
    for (const double rate : work.orbit_least_rates)
        require(rate > 0.001 && rate <= 1.0, "least rates must be above 0.001 and at most 1");
    require(work.orbit_overhead_ticks.size() == orbits && work.orbit_latency_ticks.size() == orbits,
            "every orbit needs an overhead and a latency");
    require(work.task_ticks.size() == tasks, "every task needs a time");
    require(work.num_resources >= 0 && work.num_resources <= 50'000'000, "there are at most 50,000,000 resources");
    require_ids(work.orbit_resources.values, work.num_resources, "orbits must hold known resources");
    for (std::size_t orbit = 0; orbit < orbits; ++orbit) {
        require(work.orbit_overhead_ticks[orbit] >= 0 && work.orbit_latency_ticks[orbit] >= 0,
                "times must not be negative");
    }
    require(work.orbit_sender.size() == orbits, "every orbit needs a sender");
    require_ids(work.orbit_sender, kMostSenders, "senders must be numbers from 0 to 999,999");
    require(work.opening_ticks >= 0, "times must not be negative");
    double total = static_cast<double>(work.opening_ticks) * static_cast<double>(tasks);
    for (std::size_t task = 0; task < tasks; ++task) {
        require(work.task_orbit[task] >= 0 && at(work.task_orbit[task]) < orbits, "tasks must name known orbits");
        require(work.task_ticks[task] >= 0, "times must not be negative");
        const std::size_t orbit = at(work.task_orbit[task]);
        total += static_cast<double>(work.orbit_overhead_ticks[orbit]) +
                 static_cast<double>(work.orbit_latency_ticks[orbit]) + static_cast<double>(work.task_ticks[task]);
    }
    require(total < 4.0e18, "times of all tasks must be below 4e18 together");
    require_ids(work.successors.values, to_int32(tasks), "successors must be tasks");
}

std::vector<std::int32_t> count_needs(const OrbitWork& work) {
    std::vector<std::int32_t> needs(work.task_orbit.size());
    for (const std::int32_t next : work.successors.values) ++needs[at(next)];
    return needs;
}

class Machine {
public:
    Machine(const OrbitWork& work, std::span<const std::int64_t> priority, Merging merging)
        : work_(work),
          priority_(priority),
          merging_(merging),
          needs_(count_needs(work)),
          ready_(work.orbit_resources.num_rows()),
          is_dirty_(work.orbit_resources.num_rows()),
          coming_(merging.patience_ticks > 0 ? work.orbit_resources.num_rows() : 0),
          used_(at(work.num_resources)),
          slowed_(at(work.num_resources)),
          waiting_(at(work.num_resources)),
          is_waiting_(work.orbit_resources.values.size()),
          open_(work.opening_ticks > 0 && !work.orbit_sender.empty() ? at(std::ranges::max(work.orbit_sender)) + 1 : 0,
                kClosed) {
        result_.start_ticks.assign(work.task_orbit.size(), 0);
        result_.sent_ticks.assign(work.task_orbit.size(), 0);
        result_.message.assign(work.task_orbit.size(), -1);
        for (std::size_t orbit = 0; orbit < ready_.size(); ++orbit) {
            const std::size_t places = work.orbit_resources[orbit].size();
            place_orbit_.insert(place_orbit_.end(), places, static_cast<std::int32_t>(orbit));
        }
    }

    ListSchedule run() {
        for (std::size_t task = 0; task < needs_.size(); ++task) {
            if (needs_[task] == 0) make_ready(static_cast<std::int32_t>(task));
        }
        dispatch(0);
        std::size_t done = 0;
        while (!events_.empty()) {
            const std::int64_t now = events_.top().ticks;
            while (!events_.empty() && events_.top().ticks == now) {
                const Event event = events_.top();
                events_.pop();
                const Sent& sent = sent_[at(event.message)];
                if (event.what == kOpen) touch_all(work_.orbit_sender[at(sent.orbit)]);
                else if (event.times_sped_up != sent.times_sped_up) continue;
                else if (event.what == kRelease) release(event.message, now);
                else {
                    done += deliver(sent);
                    result_.makespan_ticks = now;
                }
            }
            dispatch(now);
        }
        require(done == needs_.size(), "tasks must not depend on each other in a circle");
        return std::move(result_);
    }

private:
    static constexpr std::int64_t kClosed = -1;
    static constexpr std::int32_t kOpen = 0;  // of the sender
    static constexpr std::int32_t kRelease = 1;
    static constexpr std::int32_t kArrival = 2;
    static constexpr double kRounding = 1e-9;
    struct Event {
        std::int64_t ticks;
        std::int32_t message;
        std::int32_t what;
        std::int32_t times_sped_up = 0;  // the message, when it was foreseen
        auto operator<=>(const Event&) const = default;
    };
    struct Sent {
        std::int32_t orbit;
        std::int32_t first_task, last_task;  // range of carried_
        double rate;                         // part of what its slowest link allows
        std::int64_t sent_ticks = 0;
        std::int32_t times_sped_up = 0;
    };

    std::size_t first_place(std::int32_t orbit) const { return at(work_.orbit_resources.offsets[at(orbit)]); }
    double free(std::size_t place) const { return 1.0 - used_[at(work_.orbit_resources.values[place])]; }
    /// How fast a message can go beside those that are under way; 1 where it has all of its slowest link.
    double free_rate(std::int32_t orbit) const {
        double rate = 1.0;
        for (std::size_t place = first_place(orbit); place < first_place(orbit + 1); ++place) {
            rate = std::min(rate, free(place) / work_.orbit_shares.values[place]);
        }
        return rate > 1.0 - kRounding ? 1.0 : rate;
    }
    void use(std::int32_t orbit, double rate) {
        for (std::size_t place = first_place(orbit); place < first_place(orbit + 1); ++place) {
            const double part = work_.orbit_least_rates[place] == 1.0 ? std::copysign(1.0, rate) : rate;
            used_[at(work_.orbit_resources.values[place])] += part * work_.orbit_shares.values[place];
        }
    }
    bool later(std::int32_t a, std::int32_t b) const {
        const std::int64_t pa = priority_[at(a)], pb = priority_[at(b)];
        return pa != pb ? pa < pb : a > b;
    }
    bool is_free(std::int32_t orbit) const {
        for (std::size_t place = first_place(orbit); place < first_place(orbit + 1); ++place) {
            if (free(place) < (work_.orbit_least_rates[place] - kRounding) * work_.orbit_shares.values[place]) return false;
        }
        return true;
    }
    // What waits for a resource besides is touched when the last of them is released.
    void touch(std::int32_t orbit) {
        if (is_dirty_[at(orbit)] || ready_[at(orbit)].empty() || !is_free(orbit)) return;
        is_dirty_[at(orbit)] = 1;
        dirty_.push_back(orbit);
    }
    // From now on the orbit's resources know that it waits for them.
    void wait(std::int32_t orbit) {
        for (std::size_t place = first_place(orbit); place < first_place(orbit + 1); ++place) {
            if (is_waiting_[place]) continue;
            is_waiting_[place] = 1;
            waiting_[at(work_.orbit_resources.values[place])].push_back(static_cast<std::int32_t>(place));
        }
    }
    void make_ready(std::int32_t task) {
        const std::int32_t orbit = work_.task_orbit[at(task)];
        auto& heap = ready_[at(orbit)];
        if (heap.empty()) wait(orbit);
        heap.push_back(task);
        std::push_heap(heap.begin(), heap.end(), [&](std::int32_t a, std::int32_t b) { return later(a, b); });
        touch(orbit);
    }
    std::int32_t pop_ready(std::int32_t orbit) {
        auto& heap = ready_[at(orbit)];
        std::pop_heap(heap.begin(), heap.end(), [&](std::int32_t a, std::int32_t b) { return later(a, b); });
        const std::int32_t task = heap.back();
        heap.pop_back();
        return task;
    }
    bool can_send(std::int32_t orbit, std::int64_t now) const {
        if (ready_[at(orbit)].empty() || is_worth_waiting(orbit, now)) return false;
        if (!open_.empty() && open_[at(work_.orbit_sender[at(orbit)])] > now) return false;
        return is_free(orbit);
    }

    // Something will be ready so soon that to send it along costs less than a message of its own.
    bool is_worth_waiting(std::int32_t orbit, std::int64_t now) const {
        if (coming_.empty() || static_cast<std::int32_t>(ready_[at(orbit)].size()) >= merging_.most) return false;
        const std::vector<std::int64_t>& times = coming_[at(orbit)];
        const auto next = std::ranges::upper_bound(times, now);
        return next != times.end() && *next <= now + merging_.patience_ticks;
    }
    // Tells the orbits that wait for a message alone when it will arrive, or that it will not arrive then.
    void announce(const Sent& sent, std::int64_t arrival, bool is_coming) {
        for (std::int32_t i = sent.first_task; i < sent.last_task; ++i) {
            for (const std::int32_t next : work_.successors[at(carried_[at(i)])]) {
                if (needs_[at(next)] != 1) continue;
                std::vector<std::int64_t>& times = coming_[at(work_.task_orbit[at(next)])];
                const auto place = std::ranges::lower_bound(times, arrival);
                if (is_coming) times.insert(place, arrival);
                else if (place != times.end() && *place == arrival) times.erase(place);
            }
        }
    }

    // First those under way take what becomes free, then those that wait.
    void release(std::int32_t message, std::int64_t now) {
        const std::int32_t orbit = sent_[at(message)].orbit;
        use(orbit, -sent_[at(message)].rate);
        sent_[at(message)].rate = 0.0;
        for (const std::int32_t resource : work_.orbit_resources[at(orbit)]) {
            std::erase_if(slowed_[at(resource)], [&](std::int32_t slowed) {
                if (sent_[at(slowed)].rate > 0.0) speed_up(slowed, now);
                return sent_[at(slowed)].rate == 0.0 || sent_[at(slowed)].rate == 1.0;
            });
        }
        for (const std::int32_t resource : work_.orbit_resources[at(orbit)]) touch_waiting(resource);
    }
    void speed_up(std::int32_t message, std::int64_t now) {
        Sent& sent = sent_[at(message)];
        use(sent.orbit, -sent.rate);
        const double rate = free_rate(sent.orbit);
        if (rate > sent.rate + kRounding) {
            const double left = static_cast<double>(sent.sent_ticks - now) * (sent.rate / rate);
            sent.rate = rate;
            ++sent.times_sped_up;
            foresee(message, now + static_cast<std::int64_t>(left));
        }
        use(sent.orbit, sent.rate);
    }
    // When a message will be sent, and have arrived.
    void foresee(std::int32_t message, std::int64_t sent_ticks) {
        Sent& sent = sent_[at(message)];
        const std::int64_t latency = work_.orbit_latency_ticks[at(sent.orbit)];
        if (!coming_.empty()) {
            if (sent.times_sped_up > 0) announce(sent, sent.sent_ticks + latency, false);
            announce(sent, sent_ticks + latency, true);
        }
        sent.sent_ticks = sent_ticks;
        for (std::int32_t i = sent.first_task; i < sent.last_task; ++i) {
            result_.sent_ticks[at(carried_[at(i)])] = sent_ticks;
        }
        events_.push({sent_ticks, message, kRelease, sent.times_sped_up});
        events_.push({sent_ticks + latency, message, kArrival, sent.times_sped_up});
    }
    // Orbits with nothing left to send are forgotten here: to look for them when they send would take longer.
    void touch_waiting(std::int32_t resource) {
        std::erase_if(waiting_[at(resource)], [&](std::int32_t place) {
            const std::int32_t orbit = place_orbit_[at(place)];
            touch(orbit);
            is_waiting_[at(place)] = !ready_[at(orbit)].empty();
            return !is_waiting_[at(place)];
        });
    }
    void touch_all(std::int32_t sender) {
        for (std::size_t orbit = 0; orbit < ready_.size(); ++orbit) {
            if (work_.orbit_sender[orbit] == sender) touch(static_cast<std::int32_t>(orbit));
        }
    }
    // From when on a sender can send; its first message opens it.
    std::int64_t opens(std::int32_t sender, std::int64_t now) {
        if (open_.empty() || open_[at(sender)] != kClosed) return now;
        return open_[at(sender)] = now + work_.opening_ticks;
    }
    std::size_t deliver(const Sent& sent) {
        for (std::int32_t i = sent.first_task; i < sent.last_task; ++i) {
            for (const std::int32_t next : work_.successors[at(carried_[at(i)])]) {
                if (--needs_[at(next)] == 0) make_ready(next);
            }
        }
        return at(sent.last_task - sent.first_task);
    }

    void dispatch(std::int64_t now) {
        // Orbits that exclude each other are served in the order of their best tasks.
        std::sort(dirty_.begin(), dirty_.end(), [&](std::int32_t a, std::int32_t b) {
            return later(ready_[at(b)].front(), ready_[at(a)].front());
        });
        for (const std::int32_t orbit : dirty_) {
            is_dirty_[at(orbit)] = 0;
            if (can_send(orbit, now)) send(orbit, now);
        }
        dirty_.clear();
    }

    bool is_full(std::int32_t first_task, std::int64_t body) const {
        return !merging_.full_ticks.empty() && body > merging_.full_ticks[at(first_task)];
    }

    void send(std::int32_t orbit, std::int64_t decided) {
        const std::int64_t now = opens(work_.orbit_sender[at(orbit)], decided);
        const auto message = static_cast<std::int32_t>(sent_.size());
        const auto first = static_cast<std::int32_t>(carried_.size());
        const std::vector<std::int32_t>& ready = ready_[at(orbit)];
        std::int64_t body = 0;
        for (std::int32_t merged = 0; merged < merging_.most && !ready.empty(); ++merged) {
            if (merged > 0 && is_full(carried_[at(first)], body + work_.task_ticks[at(ready.front())])) break;
            const std::int32_t task = pop_ready(orbit);
            carried_.push_back(task);
            body += work_.task_ticks[at(task)];
            result_.start_ticks[at(task)] = now;
            result_.message[at(task)] = message;
        }
        const double rate = free_rate(orbit);
        if (rate < 1.0) body = static_cast<std::int64_t>(static_cast<double>(body) / rate);
        sent_.push_back({orbit, first, static_cast<std::int32_t>(carried_.size()), rate});
        use(orbit, rate);
        if (rate < 1.0) {
            for (const std::int32_t resource : work_.orbit_resources[at(orbit)]) {
                slowed_[at(resource)].push_back(message);
            }
        }
        if (now > decided) events_.push({now, message, kOpen});
        foresee(message, now + work_.orbit_overhead_ticks[at(orbit)] + body);
    }

    const OrbitWork& work_;
    std::span<const std::int64_t> priority_;
    Merging merging_;
    std::vector<std::int32_t> needs_;
    std::vector<std::vector<std::int32_t>> ready_;  // per orbit, a heap of tasks
    std::vector<std::uint8_t> is_dirty_;
    std::vector<std::vector<std::int64_t>> coming_;  // per orbit, when tasks on the way will be ready, ascending
    std::vector<double> used_;                       // per resource, from 0 to 1
    std::vector<std::vector<std::int32_t>> slowed_;  // per resource, messages that could go faster
    std::vector<std::vector<std::int32_t>> waiting_;  // per resource, places in orbit_resources of ready orbits
    std::vector<std::uint8_t> is_waiting_;            // per place
    std::vector<std::int32_t> place_orbit_;
    std::vector<std::int64_t> open_;  // per sender, from when on; empty where opening takes no time
    std::vector<std::int32_t> dirty_, carried_;
    std::vector<Sent> sent_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    ListSchedule result_;
};

// When each task has arrived.
std::vector<std::int64_t> arrivals(const OrbitWork& work, const ListSchedule& made) {
    std::vector<std::int64_t> arrival(made.message.size());
    for (std::size_t task = 0; task < arrival.size(); ++task) {
        arrival[task] = made.sent_ticks[task] + work.orbit_latency_ticks[at(work.task_orbit[task])];
    }
    return arrival;
}

// A schedule of the turned-round work, read from its end.
ListSchedule read_from_end(const OrbitWork& work, const ListSchedule& backward) {
    const std::vector<std::int64_t> arrival = arrivals(work, backward);
    const std::vector<std::int64_t> none(arrival.size());
    ListSchedule forward{none, none, backward.message, backward.makespan_ticks};
    std::vector<std::pair<std::int64_t, std::int32_t>> order(
        arrival.empty() ? 0 : 1 + at(std::ranges::max(backward.message)));
    for (std::size_t task = 0; task < arrival.size(); ++task) {
        forward.start_ticks[task] = backward.makespan_ticks - arrival[task];
        forward.sent_ticks[task] = forward.start_ticks[task] + backward.sent_ticks[task] - backward.start_ticks[task];
        order[at(backward.message[task])] = {forward.start_ticks[task], backward.message[task]};
    }
    std::ranges::sort(order);
    std::vector<std::int32_t> number(order.size());
    for (std::size_t place = 0; place < order.size(); ++place) {
        number[at(order[place].second)] = static_cast<std::int32_t>(place);
    }
    for (std::int32_t& message : forward.message) message = number[at(message)];
    return forward;
}

}  // namespace

ListSchedule list_schedule(const OrbitWork& work, std::span<const std::int64_t> priority, Merging merging) {
    check(work);
    require(priority.size() == work.task_orbit.size(), "every task needs a priority");
    require(merging.most >= 1 && merging.patience_ticks >= 0, "a message must carry at least one task");
    require(merging.full_ticks.empty() || merging.full_ticks.size() == work.task_orbit.size(),
            "every task needs a time for its message, or none");
    return Machine(work, priority, merging).run();
}

ListSchedule refine_schedule(const OrbitWork& work, std::span<const std::int64_t> priority, Merging merging,
                             std::int32_t rounds) {
    require(rounds >= 0 && rounds <= kMostRounds, "rounds must be between 0 and 100000");
    ListSchedule best = list_schedule(work, priority, merging);
    if (rounds == 0) return best;
    const Rows<std::int32_t> before = turned_round(work.successors, work.successors.num_rows());
    OrbitWork mirrored = work;
    mirrored.successors = before.view();
    mirrored.opening_ticks = 0;  // it comes at the beginning, which is the end there
    std::vector<std::int64_t> order = arrivals(work, best);
    for (std::int32_t round = 0; round < rounds; ++round) {
        ListSchedule backward = list_schedule(mirrored, order, merging);
        order = arrivals(work, backward);
        ListSchedule forward = list_schedule(work, order, merging);
        order = arrivals(work, forward);
        if (work.opening_ticks == 0 && backward.makespan_ticks < best.makespan_ticks)
            best = read_from_end(work, backward);
        if (forward.makespan_ticks < best.makespan_ticks) best = std::move(forward);
    }
    return best;
}

std::vector<std::int64_t> remaining_ticks(const OrbitWork& work) {
    check(work);
    const std::size_t tasks = work.task_orbit.size();
    std::vector<std::int32_t> needs = count_needs(work), order;
    order.reserve(tasks);
    for (std::size_t task = 0; task < tasks; ++task) {
        if (needs[task] == 0) order.push_back(static_cast<std::int32_t>(task));
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
        for (const std::int32_t next : work.successors[at(order[i])]) {
            if (--needs[at(next)] == 0) order.push_back(next);
        }
    }
    require(order.size() == tasks, "tasks must not depend on each other in a circle");
    std::vector<std::int64_t> remaining(tasks);
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
        std::int64_t after = 0;
        for (const std::int32_t next : work.successors[at(*it)]) after = std::max(after, remaining[at(next)]);
        const std::size_t orbit = at(work.task_orbit[at(*it)]);
        remaining[at(*it)] =
            after + work.orbit_overhead_ticks[orbit] + work.orbit_latency_ticks[orbit] + work.task_ticks[at(*it)];
    }
    return remaining;
}

}  // namespace interlock
