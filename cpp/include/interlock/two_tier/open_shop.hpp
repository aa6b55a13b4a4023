#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// A run of work between one sender and one receiver, in the order in which runs start.
struct Run {
    std::int32_t sender;
    std::int32_t receiver;
    std::int64_t work;
};

/// Orders work between senders and receivers, each of which serves one partner at a time.
///
/// A preemptive open shop that seldom preempts. Free ports pair up, least slack first. Slack is what a port can still
/// idle and finish by `target`; a port whose slack is used up takes a partner away from one that has some, along an
/// alternating path. With a little room in `target` most pairs run in one piece, and the makespan stays near it.
///
/// @param work row-major [num_ports, num_ports], work of sender i for receiver j; the diagonal may be used
/// @param setup work that every run costs on top
/// @param target makespan to aim for; ports that cannot meet it finish late
/// @param stages how many stages (see `time_runs`) to spread over `target`: ports with slack wait rather than run ahead
std::vector<Run> open_shop(std::span<const std::int64_t> work, std::int32_t num_ports, std::int64_t setup,
                           std::int64_t target, std::int32_t stages);

/// The largest work, setups included, of any sender or receiver.
std::int64_t open_shop_bound(std::span<const std::int64_t> work, std::int32_t num_ports, std::int64_t setup);

/// Where each run stands when every port does its runs in the order given.
struct RunTimes {
    std::int64_t makespan = 0;
    std::int32_t num_stages = 0;         ///< longest chain of runs that share a port
    std::vector<std::int32_t> stage;     ///< [num_runs] place in that chain: runs of one stage share no port
};

/// Work-conserving execution: a run starts when both its ports have finished their earlier runs.
RunTimes time_runs(std::span<const Run> runs, std::int32_t num_ports, std::int64_t setup);

}  // namespace interlock
