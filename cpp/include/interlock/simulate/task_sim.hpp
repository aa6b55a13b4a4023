#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/csr.hpp"

namespace interlock {

/// Tasks that each hold one place at one resource for a fixed time, after the tasks they depend on.
struct TaskGraph {
    std::span<const std::int32_t> resource;    ///< [num_tasks]
    std::span<const double> duration_s;        ///< [num_tasks]
    std::span<const double> delay_s;           ///< [num_tasks] from its end until others see it
    std::span<const std::int64_t> priority;    ///< [num_tasks] least first among those ready; ties by index
    Csr<std::int32_t> deps;                    ///< [num_tasks]
    std::span<const std::int32_t> capacity;    ///< [num_resources] places; tasks beyond them wait
};

struct TaskTimes {
    std::vector<double> start_s, finish_s;  ///< finish includes the delay
    std::vector<double> busy_s;             ///< [num_resources] time in use, summed over places
    double makespan_s = 0.0;
};

/// Event-driven, work-conserving execution of a task graph.
/// Throws where sizes disagree, a time is negative or not finite, or dependencies form a cycle.
TaskTimes run_tasks(const TaskGraph& graph);

}  // namespace interlock
