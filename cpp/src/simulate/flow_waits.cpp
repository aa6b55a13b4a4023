#include "interlock/simulate/flow_waits.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "interlock/errors.hpp"
#include "interlock/limits.hpp"
#include "interlock/simulate/admission.hpp"

namespace interlock {
namespace {

/// Messages that hold each link alone, in the order they hold it.
Rows<std::int32_t> exclusive_users(const FlowProblem& problem) {
    Rows<std::int32_t> users = grouped<std::int32_t>(problem.channel_by_link.size(), [&](auto put) {
        for (std::size_t m = 0; m < problem.size_bytes.size(); ++m) {
            if (problem.is_exclusive[m] == 0) continue;
            for (const std::int32_t link : problem.path[m]) {
                if (link < problem.num_ordered_links) put(link, to_int32(m));
            }
        }
    });
    const auto before = [&](std::int32_t a, std::int32_t b) { return problem.order[at(a)] < problem.order[at(b)]; };
    for (std::size_t link = 0; link + 1 < users.offsets.size(); ++link) {
        const auto first = users.values.begin() + users.offsets[link];
        const auto last = users.values.begin() + users.offsets[link + 1];
        if (!std::is_sorted(first, last, before)) std::stable_sort(first, last, before);
    }
    return users;
}

}  // namespace

Waits::Waits(const FlowProblem& problem) : after_arrival(turned_round(problem.deps, problem.size_bytes.size())) {
    const std::size_t num_messages = problem.size_bytes.size();
    num_open.resize(num_messages);
    for (std::size_t m = 0; m < num_messages; ++m) num_open[m] = to_int32(problem.deps[m].size());

    const Rows<std::int32_t> users = problem.takes_turns ? Rows<std::int32_t>{{0}, {}} : exclusive_users(problem);
    after_sending = grouped<std::int32_t>(num_messages, [&](auto put) {
        for (std::size_t link = 0; link + 1 < users.offsets.size(); ++link) {
            const auto row = users[link];
            for (std::size_t k = 1; k < row.size(); ++k) put(row[k - 1], row[k]);
        }
    });
    for (const std::int32_t later : after_sending.values) ++num_open[at(later)];

    epoch.resize(num_messages);
    for (std::size_t m = 0; m < num_messages; ++m) {
        const auto behind = std::upper_bound(problem.barriers.begin(), problem.barriers.end(), problem.stage[m]);
        epoch[m] = static_cast<std::int32_t>(behind - problem.barriers.begin());
        if (epoch[m] > 0) ++num_open[m];
    }
    in_epoch = places_by_key(problem.barriers.size() + 1, epoch);
}

Rows<std::int32_t> channel_paths(const FlowProblem& problem) {
    Rows<std::int32_t> channels;
    channels.offsets.assign(problem.path.offsets.begin(), problem.path.offsets.end());
    channels.values.reserve(problem.path.values.size());
    for (const std::int32_t link : problem.path.values) {
        channels.values.push_back(problem.channel_by_link[at(link)]);
    }
    std::vector<std::int32_t> last_user(problem.capacity_bytes_per_s.size(), -1);
    for (std::size_t m = 0; m < problem.size_bytes.size(); ++m) {
        for (const std::int32_t c : channels[m]) {
            auto& user = last_user[at(c)];
            if (user == static_cast<std::int32_t>(m)) {
                throw InvalidInput("message " + std::to_string(m) + ": its path crosses channel " + std::to_string(c) +
                                   " twice");
            }
            user = static_cast<std::int32_t>(m);
        }
    }
    return channels;
}

void check_flow_problem(const FlowProblem& problem) {
    const std::size_t num_messages = problem.size_bytes.size();
    const std::size_t num_channels = problem.capacity_bytes_per_s.size();
    require(num_messages < (std::size_t{1} << 31), "more than 2^31 messages");
    require(problem.is_receiving_port.size() == num_channels, "is_receiving_port must have one entry per channel");
    for (const double capacity : problem.capacity_bytes_per_s) {
        require(capacity > 0 && capacity < 1e300, "capacities must be positive and finite");
    }
    require_ids(problem.channel_by_link, to_int32(num_channels), "channel_by_link names a channel that is not there");
    require(problem.latency_s.size() == num_messages && problem.overhead_s.size() == num_messages &&
                problem.stage.size() == num_messages && problem.is_exclusive.size() == num_messages &&
                problem.order.size() == num_messages,
            "message columns must have one entry per message");
    for (std::size_t m = 0; m < num_messages; ++m) {
        require(problem.size_bytes[m] >= 0, "sizes must not be negative");
        require(problem.latency_s[m] >= 0 && problem.latency_s[m] < 1e300, "latencies must be finite, at least 0");
        require(problem.overhead_s[m] >= 0 && problem.overhead_s[m] < 1e300, "overheads must be finite, at least 0");
    }
    problem.path.check(num_messages, "path");
    problem.deps.check(num_messages, "deps");
    problem.senders.check(num_messages, "senders");
    require_ids(problem.path.values, to_int32(problem.channel_by_link.size()), "path names a link that is not there");
    require_ids(problem.deps.values, to_int32(num_messages), "deps name a message that is not there");
    require_ids(problem.senders.values, kMostNodes, "senders must be between 0 and 999,999");
    require(std::is_sorted(problem.barriers.begin(), problem.barriers.end()), "barriers must ascend");
    require(problem.stage_overhead_s >= 0 && problem.stage_overhead_s < 1e300, "stage_overhead_s must be at least 0");
    require(problem.tolerance >= 0 && problem.tolerance < 1, "tolerance must be at least 0 and below 1");
    require(problem.level.empty() || problem.level.size() == num_messages, "level must have one entry per message");
    require(problem.tail_s.empty() || problem.tail_s.size() == num_messages, "tail_s must have one entry per message");
    require_ids(problem.level, Admission::kLevels, "levels must be between 0 and 63");
}

}  // namespace interlock
