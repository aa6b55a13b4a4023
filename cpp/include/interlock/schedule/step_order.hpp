#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/csr.hpp"

namespace interlock {

/// Rows of a step's schedule and the tasks they belong to.
struct StepRows {
    Csr<std::int32_t> deps;
    std::span<const std::int32_t> task;  // [rows]: -1 for none
    std::span<const double> seconds;     // [rows]: how long a row surely takes
    Csr<std::int32_t> after;             // [tasks]: tasks that each comes after
};

struct StepOrder {
    std::vector<std::int32_t> too_early;       // rows that may start before a task theirs is after has ended
    std::vector<std::int32_t> too_early_task;  // beside them: that task
    std::vector<double> earliest_s;            // [rows]: no row starts sooner, by the seconds of what it waits for
    bool is_cyclic = false;
};

/// Follows dependencies: a row comes after a task if it, or a row that it waits for, lists all rows of the task that no
/// other row of the task lists. One row is named for every pair of tasks. Linear in the dependencies times a word per
/// 64 tasks.
StepOrder check_step_order(const StepRows& rows);

}  // namespace interlock
