#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"
#include "interlock/simulate/step_ledger.hpp"

using namespace interlock;

namespace {

// Two channels. Task 0 asks 1 s of the first, task 1 asks 3 s of the first and 1 s of the second, and task 2, after
// task 0, asks 2 s of the second.
struct Three {
    std::vector<double> work_s{1, 3, 0, 0, 1, 2};
    std::vector<double> seconds{1, 3, 2};
    std::vector<double> ready_s{0, 0, 0};
    std::vector<std::int64_t> offsets{0, 0, 0, 1};
    std::vector<std::int32_t> after{0};

    [[nodiscard]] double makespan_s(const std::vector<std::int32_t>& level) const {
        return step_makespan_s({work_s, seconds, ready_s, level, {offsets, after}});
    }
};

}  // namespace

int main() {
    Three three;
    CHECK(three.makespan_s({0, 1, 1}) == 4.0);  // task 0 ends at 1, its successor at 3 and task 1 at 1 + 3
    CHECK(three.makespan_s({1, 0, 1}) == 6.0);  // task 0 waits for task 1 on their channel: 4, and 2 more
    CHECK(three.makespan_s({0, 0, 0}) == 4.0);  // both share until 2, when the second channel is long done with task 1
    three.seconds[2] = 5;
    CHECK(three.makespan_s({0, 0, 0}) == 7.0);  // no task is done before its own seconds have passed
    three.ready_s[0] = 10;
    CHECK(three.makespan_s({0, 0, 0}) == 16.0);
    three.after[0] = 2;
    CHECK_THROWS(three.makespan_s({0, 0, 0}), InvalidInput);
    three.after[0] = 3;
    CHECK_THROWS(three.makespan_s({0, 0, 0}), InvalidInput);
    three.after[0] = 0;
    three.work_s[0] = -1;
    CHECK_THROWS(three.makespan_s({0, 0, 0}), InvalidInput);
    return 0;
}
