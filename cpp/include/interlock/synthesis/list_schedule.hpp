#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/csr.hpp"

namespace interlock {

/// Work for `list_schedule`: tasks with an order of precedence, each to be done on a given orbit.
///
/// A message takes the orbit's overhead plus the ticks of its tasks; what it carries arrives the orbit's latency later.
/// All the while it uses `orbit_shares` of each resource: a link four times as fast as the message carries three others
/// beside it. Where at least `orbit_least_rates` of what it needs is free, it goes at the rate that is, and faster as
/// more becomes free; where that is 1, it uses its share whatever its rate.
/// Before the first message of a sender, which holds its resources meanwhile, come `opening_ticks`.
struct OrbitWork {
    std::int32_t num_resources;
    Csr<std::int32_t> orbit_resources;
    Csr<double> orbit_shares;                   ///< of each of orbit_resources, above 0 and at most 1
    std::span<const double> orbit_least_rates;  ///< as the values of orbit_shares, above 0.001 and at most 1
    std::span<const std::int64_t> orbit_overhead_ticks;
    std::span<const std::int64_t> orbit_latency_ticks;
    std::span<const std::int32_t> task_orbit;
    std::span<const std::int64_t> task_ticks;  ///< without overhead
    Csr<std::int32_t> successors;              ///< tasks that need this one to have arrived
    std::span<const std::int32_t> orbit_sender;
    std::int64_t opening_ticks = 0;
};

struct ListSchedule {
    std::vector<std::int64_t> start_ticks;  ///< [num_tasks] start of the message that carries the task
    std::vector<std::int64_t> sent_ticks;   ///< [num_tasks] when that message is sent, and its links are free again
    std::vector<std::int32_t> message;      ///< [num_tasks] numbered by start, then by orbit
    std::int64_t makespan_ticks = 0;
};

/// Tasks that are ready on an orbit may share a message and its overhead.
struct Merging {
    std::int32_t most = 1;            ///< tasks in one message
    std::int64_t patience_ticks = 0;  ///< how long an orbit waits for a task that is on its way to it
    /// [num_tasks] A task joins a message only if all its tasks then take no more on the orbit than the first of them
    /// allows; empty: any number.
    std::span<const std::int64_t> full_ticks = {};
};

/// Whenever an orbit can send, it sends the ready task of the highest priority, ties by index.
/// @param priority [num_tasks] larger goes first
ListSchedule list_schedule(const OrbitWork& work, std::span<const std::int64_t> priority, Merging merging);

/// Schedules forwards and backwards in turn, each time in the order of the schedule before, and keeps the best.
///
/// What a backward pass pushes late leaves room that the next forward pass fills, so gaps close from both ends.
ListSchedule refine_schedule(const OrbitWork& work, std::span<const std::int64_t> priority, Merging merging,
                             std::int32_t rounds);

/// Ticks from the start of each task to the end of the last one that depends on it: a lower bound on what remains.
std::vector<std::int64_t> remaining_ticks(const OrbitWork& work);

}  // namespace interlock
