#include "interlock/simulate/task_sim.hpp"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>

namespace interlock {
namespace {

struct Waiting {
    std::int64_t priority;
    std::int32_t task;
    bool operator>(const Waiting& other) const {
        return std::tie(priority, task) > std::tie(other.priority, other.task);
    }
};

/// A task that is under way or whose delay runs: so few at a time that their heap stays in the cache.
struct Event {
    double time_s;
    std::int32_t task;
    bool is_release;  // its place comes free; otherwise those that wait for it may go on
    bool operator>(const Event& other) const {
        return std::tuple(time_s, !is_release, task) > std::tuple(other.time_s, !other.is_release, other.task);
    }
};

template <typename T>
using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;

void check(const TaskGraph& graph) {
    const std::size_t tasks = graph.resource.size();
    require(graph.duration_s.size() == tasks && graph.delay_s.size() == tasks && graph.priority.size() == tasks,
            "tasks must have one resource, duration, delay and priority each");
    require(tasks < (1ULL << 31), "there are too many tasks");
    graph.deps.check(tasks, "deps");
    for (const std::int32_t places : graph.capacity) require(places > 0, "every resource needs at least one place");
    require_ids(graph.resource, to_int32(graph.capacity.size()), "a task names a resource that does not exist");
    for (std::size_t t = 0; t < tasks; ++t) {
        require(std::isfinite(graph.duration_s[t]) && graph.duration_s[t] >= 0.0,
                "durations must be finite and not negative");
        require(std::isfinite(graph.delay_s[t]) && graph.delay_s[t] >= 0.0, "delays must be finite and not negative");
    }
    require_ids(graph.deps.values, to_int32(tasks), "a dependency names a task that does not exist");
}

}  // namespace

TaskTimes run_tasks(const TaskGraph& graph) {
    check(graph);
    const std::size_t tasks = graph.resource.size();
    const Rows<std::int32_t> successors = turned_round(graph.deps, tasks);
    std::vector<std::int32_t> missing(tasks);
    std::vector<std::int32_t> free(graph.capacity.begin(), graph.capacity.end());
    std::vector<MinHeap<Waiting>> queue(graph.capacity.size());
    MinHeap<Event> events;
    TaskTimes times;
    times.start_s.assign(tasks, 0.0);
    times.finish_s.assign(tasks, 0.0);
    times.busy_s.assign(graph.capacity.size(), 0.0);
    std::vector<std::size_t> touched;
    const auto enqueue = [&](std::size_t t) {
        const auto r = static_cast<std::size_t>(graph.resource[t]);
        queue[r].push({graph.priority[t], static_cast<std::int32_t>(t)});
        if (touched.empty() || touched.back() != r) touched.push_back(r);
    };
    for (std::size_t t = 0; t < tasks; ++t) {
        missing[t] = static_cast<std::int32_t>(graph.deps[t].size());
        if (missing[t] == 0) enqueue(t);
    }
    std::size_t done = 0;
    for (double now_s = 0.0;;) {
        for (const std::size_t r : touched) {
            while (free[r] > 0 && !queue[r].empty()) {
                const auto t = static_cast<std::size_t>(queue[r].top().task);
                queue[r].pop();
                --free[r];
                ++done;
                const double end_s = now_s + graph.duration_s[t];
                times.start_s[t] = now_s;
                times.finish_s[t] = end_s + graph.delay_s[t];
                times.busy_s[r] += graph.duration_s[t];
                times.makespan_s = std::max(times.makespan_s, times.finish_s[t]);
                events.push({end_s, static_cast<std::int32_t>(t), true});
                if (!successors[t].empty()) events.push({times.finish_s[t], static_cast<std::int32_t>(t), false});
            }
        }
        if (events.empty()) break;
        touched.clear();
        now_s = events.top().time_s;
        // Everything of this moment first, then hand out places: priority decides among all that are ready.
        while (!events.empty() && events.top().time_s == now_s) {
            const Event event = events.top();
            events.pop();
            const auto t = static_cast<std::size_t>(event.task);
            if (event.is_release) {
                const auto r = static_cast<std::size_t>(graph.resource[t]);
                ++free[r];
                touched.push_back(r);
                continue;
            }
            for (const std::int32_t next : successors[t]) {
                if (--missing[at(next)] == 0) enqueue(at(next));
            }
        }
    }
    require(done == tasks, "the tasks' dependencies form a cycle");
    return times;
}

}  // namespace interlock
