#include "interlock/synthesis/list_schedule.hpp"

#include <algorithm>
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
    require(work.orbit_overhead_ticks.size() == orbits && work.orbit_latency_ticks.size() == orbits,
            "every orbit needs an overhead and a latency");
    require(work.task_ticks.size() == tasks, "every task needs a time");
    require(work.num_resources >= 0 && work.num_resources <= 50'000'000, "there are at most 50,000,000 resources");
    for (const std::int32_t resource : work.orbit_resources.values) {
        require(resource >= 0 && resource < work.num_resources, "orbits must hold known resources");
    }
    for (std::size_t orbit = 0; orbit < orbits; ++orbit) {
        require(work.orbit_overhead_ticks[orbit] >= 0 && work.orbit_latency_ticks[orbit] >= 0,
                "times must not be negative");
    }
    require(work.orbit_sender.size() == orbits, "every orbit needs a sender");
    for (const std::int32_t sender : work.orbit_sender) {
        require(sender >= 0 && sender < kMostSenders, "senders must be numbers from 0 to 999,999");
    }
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
    for (const std::int32_t next : work.successors.values) {
        require(next >= 0 && at(next) < tasks, "successors must be tasks");
    }
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
          is_busy_(at(work.num_resources)),
          waiting_(at(work.num_resources)),
          is_waiting_(work.orbit_resources.values.size()),
          open_(work.opening_ticks > 0 && !work.orbit_sender.empty() ? at(std::ranges::max(work.orbit_sender)) + 1 : 0,
                kClosed) {
        result_.start_ticks.assign(work.task_orbit.size(), 0);
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
                if (event.what == kArrival) done += deliver(sent);
                else if (event.what == kOpen) touch_all(work_.orbit_sender[at(sent.orbit)]);
                else release(sent.orbit, event.what);
            }
            result_.makespan_ticks = now;
            dispatch(now);
        }
        require(done == needs_.size(), "tasks must not depend on each other in a circle");
        return std::move(result_);
    }

private:
    static constexpr std::int64_t kClosed = -1;
    static constexpr std::int32_t kOpen = -3;    // of the sender
    static constexpr std::int32_t kWholly = -2;  // release of all that was held to the end
    static constexpr std::int32_t kArrival = -1;
    struct Event {
        std::int64_t ticks;
        std::int32_t message;
        std::int32_t what;  // or the number of the orbit's resource that is released
        auto operator<=>(const Event&) const = default;
    };
    struct Sent {
        std::int32_t orbit;
        std::int32_t first_task, last_task;  // range of carried_
    };

    bool later(std::int32_t a, std::int32_t b) const {
        const std::int64_t pa = priority_[at(a)], pb = priority_[at(b)];
        return pa != pb ? pa < pb : a > b;
    }
    bool is_free(std::int32_t orbit) const {
        return std::ranges::none_of(work_.orbit_resources[at(orbit)], [&](std::int32_t r) { return is_busy_[at(r)]; });
    }
    // What waits for a resource besides is touched when the last of them is released.
    void touch(std::int32_t orbit) {
        if (is_dirty_[at(orbit)] || ready_[at(orbit)].empty() || !is_free(orbit)) return;
        is_dirty_[at(orbit)] = 1;
        dirty_.push_back(orbit);
    }
    // From now on the orbit's resources know that it waits for them.
    void wait(std::int32_t orbit) {
        for (auto place = at(work_.orbit_resources.offsets[at(orbit)]);
             place < at(work_.orbit_resources.offsets[at(orbit) + 1]); ++place) {
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
    // Tells the orbits that wait for a message alone when it will arrive.
    void announce(std::int32_t first, std::int32_t last, std::int64_t arrival) {
        for (std::int32_t i = first; i < last; ++i) {
            for (const std::int32_t next : work_.successors[at(carried_[at(i)])]) {
                if (needs_[at(next)] != 1) continue;
                std::vector<std::int64_t>& times = coming_[at(work_.task_orbit[at(next)])];
                times.insert(std::ranges::upper_bound(times, arrival), arrival);
            }
        }
    }

    void release(std::int32_t orbit, std::int32_t what) {
        const std::span<const std::int32_t> resources = work_.orbit_resources[at(orbit)];
        const std::span<const double> shares = work_.orbit_shares[at(orbit)];
        for (std::size_t number = 0; number < resources.size(); ++number) {
            if (what == kWholly ? shares[number] < 1.0 : at(what) != number) continue;
            is_busy_[at(resources[number])] = 0;
            touch_waiting(resources[number]);
        }
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
        const std::int64_t ticks = work_.orbit_overhead_ticks[at(orbit)] + body;
        sent_.push_back({orbit, first, static_cast<std::int32_t>(carried_.size())});
        for (const std::int32_t resource : work_.orbit_resources[at(orbit)]) is_busy_[at(resource)] = 1;
        if (!coming_.empty()) {
            announce(first, static_cast<std::int32_t>(carried_.size()),
                     now + ticks + work_.orbit_latency_ticks[at(orbit)]);
        }
        if (now > decided) events_.push({now, message, kOpen});
        const std::span<const double> shares = work_.orbit_shares[at(orbit)];
        for (std::size_t number = 0; number < shares.size(); ++number) {
            if (shares[number] == 1.0) continue;
            const auto part = static_cast<std::int64_t>(static_cast<double>(ticks) * shares[number]);
            events_.push({now + part, message, static_cast<std::int32_t>(number)});
        }
        events_.push({now + ticks, message, kWholly});
        events_.push({now + ticks + work_.orbit_latency_ticks[at(orbit)], message, kArrival});
    }

    const OrbitWork& work_;
    std::span<const std::int64_t> priority_;
    Merging merging_;
    std::vector<std::int32_t> needs_;
    std::vector<std::vector<std::int32_t>> ready_;  // per orbit, a heap of tasks
    std::vector<std::uint8_t> is_dirty_;
    std::vector<std::vector<std::int64_t>> coming_;  // per orbit, when tasks on the way will be ready, ascending
    std::vector<std::uint8_t> is_busy_;
    std::vector<std::vector<std::int32_t>> waiting_;  // per resource, places in orbit_resources of ready orbits
    std::vector<std::uint8_t> is_waiting_;            // per place
    std::vector<std::int32_t> place_orbit_;
    std::vector<std::int64_t> open_;  // per sender, from when on; empty where opening takes no time
    std::vector<std::int32_t> dirty_, carried_;
    std::vector<Sent> sent_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    ListSchedule result_;
};

/// Rows turned round: row t lists what had t among its values.
struct Reversed {
    explicit Reversed(const Csr<std::int32_t>& rows) : offsets(rows.offsets.size()), values(rows.values.size()) {
        for (const std::int32_t value : rows.values) ++offsets[at(value) + 1];
        for (std::size_t row = 1; row < offsets.size(); ++row) offsets[row] += offsets[row - 1];
        std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
        for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
            for (const std::int32_t value : rows[row]) {
                values[static_cast<std::size_t>(next[at(value)]++)] = static_cast<std::int32_t>(row);
            }
        }
    }
    std::vector<std::int64_t> offsets;
    std::vector<std::int32_t> values;
};

// How long each message holds its orbit.
std::vector<std::int64_t> message_ticks(const OrbitWork& work, const ListSchedule& made) {
    std::vector<std::int64_t> ticks;
    for (std::size_t task = 0; task < made.message.size(); ++task) {
        const std::size_t message = at(made.message[task]);
        if (message >= ticks.size()) ticks.resize(message + 1, 0);
        if (ticks[message] == 0) ticks[message] = work.orbit_overhead_ticks[at(work.task_orbit[task])];
        ticks[message] += work.task_ticks[task];
    }
    return ticks;
}

// When each task has arrived.
std::vector<std::int64_t> arrivals(const OrbitWork& work, const ListSchedule& made) {
    const std::vector<std::int64_t> ticks = message_ticks(work, made);
    std::vector<std::int64_t> arrival(made.message.size());
    for (std::size_t task = 0; task < arrival.size(); ++task) {
        arrival[task] = made.start_ticks[task] + ticks[at(made.message[task])] +
                        work.orbit_latency_ticks[at(work.task_orbit[task])];
    }
    return arrival;
}

// A schedule of the turned-round work, read from its end.
ListSchedule turned_round(const OrbitWork& work, const ListSchedule& backward) {
    const std::vector<std::int64_t> arrival = arrivals(work, backward);
    ListSchedule forward{std::vector<std::int64_t>(arrival.size()), backward.message, backward.makespan_ticks};
    std::vector<std::pair<std::int64_t, std::int32_t>> order(
        arrival.empty() ? 0 : 1 + at(std::ranges::max(backward.message)));
    for (std::size_t task = 0; task < arrival.size(); ++task) {
        forward.start_ticks[task] = backward.makespan_ticks - arrival[task];
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
    const Reversed before(work.successors);
    OrbitWork mirrored = work;
    mirrored.successors = {before.offsets, before.values};
    mirrored.opening_ticks = 0;  // it comes at the beginning, which is the end there
    std::vector<std::int64_t> order = arrivals(work, best);
    for (std::int32_t round = 0; round < rounds; ++round) {
        ListSchedule backward = list_schedule(mirrored, order, merging);
        order = arrivals(work, backward);
        ListSchedule forward = list_schedule(work, order, merging);
        order = arrivals(work, forward);
        if (work.opening_ticks == 0 && backward.makespan_ticks < best.makespan_ticks)
            best = turned_round(work, backward);
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
