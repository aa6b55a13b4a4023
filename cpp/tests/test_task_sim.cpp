#include <vector>

#include "check.hpp"
#include "interlock/simulate/task_sim.hpp"

using namespace interlock;

struct Tasks {
    std::vector<std::int32_t> resource, deps, capacity;
    std::vector<double> duration, delay;
    std::vector<std::int64_t> priority, offsets{0};

    void add(std::int32_t on, double seconds, std::vector<std::int32_t> after = {}, double later = 0.0,
             std::int64_t rank = 0) {
        resource.push_back(on);
        duration.push_back(seconds);
        delay.push_back(later);
        priority.push_back(rank);
        deps.insert(deps.end(), after.begin(), after.end());
        offsets.push_back(static_cast<std::int64_t>(deps.size()));
    }
    [[nodiscard]] TaskTimes run() const {
        return run_tasks({resource, duration, delay, priority, {offsets, deps}, capacity});
    }
};

int main() {
    Tasks chain;
    chain.capacity = {1, 1};
    chain.add(0, 2.0, {}, 0.5);
    chain.add(1, 3.0, {0});
    chain.add(0, 4.0);
    auto times = chain.run();
    CHECK(times.start_s[1] == 2.5 && times.finish_s[1] == 5.5);
    CHECK(times.start_s[2] == 2.0 && times.makespan_s == 6.0 && times.busy_s[0] == 6.0);

    // Two places run two at once; priority decides who waits.
    Tasks places;
    places.capacity = {2};
    for (int task = 0; task < 3; ++task) places.add(0, 1.0, {}, 0.0, 2 - task);
    times = places.run();
    CHECK(times.start_s[0] == 1.0 && times.start_s[1] == 0.0 && times.start_s[2] == 0.0);

    // A task that becomes ready when a place comes free competes for it.
    Tasks meeting;
    meeting.capacity = {1, 1};
    meeting.add(0, 1.0, {}, 0.0, 0);
    meeting.add(1, 1.0);
    meeting.add(0, 1.0, {}, 0.0, 9);
    meeting.add(0, 1.0, {1}, 0.0, 1);
    times = meeting.run();
    CHECK(times.start_s[3] == 1.0 && times.start_s[2] == 2.0);

    Tasks cycle;
    cycle.capacity = {1};
    cycle.add(0, 1.0, {1});
    cycle.add(0, 1.0, {0});
    CHECK_THROWS(cycle.run(), InvalidInput);
    Tasks wrong;
    wrong.capacity = {1};
    wrong.add(3, 1.0);
    CHECK_THROWS(wrong.run(), InvalidInput);
    return 0;
}
