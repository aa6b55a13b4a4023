#pragma once

#include <cstdint>
#include <span>

#include "interlock/csr.hpp"

namespace interlock {

/// The tasks of a step as work of channels.
struct StepWork {
    std::span<const double> work_s;           // [channels, tasks]: what each task asks of each channel
    std::span<const double> seconds;          // [tasks], of each alone; as are the next
    std::span<const double> ready_s;          // earliest start
    std::span<const std::int32_t> level;      // urgency, lowest first
    Csr<std::int32_t> after;                  // tasks that must have ended
};

/// When all tasks have ended, by channels alone: each does its work level by level, whatever the others do, and tasks
/// of one level share it evenly. A task ends when all its channels are done, and not before its own seconds have
/// passed. Throws InvalidInput where tasks wait for each other in a circle.
double step_makespan_s(const StepWork& step);

}  // namespace interlock
