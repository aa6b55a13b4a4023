#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"
#include "interlock/simulate/flow_sim.hpp"

using namespace interlock;

namespace {

/// Owns the arrays of a problem in which every link is its own channel.
struct Case {
    std::vector<double> capacity;
    std::vector<std::uint8_t> is_port;
    std::vector<std::int32_t> channel_by_link;
    std::vector<std::int64_t> size;
    std::vector<double> latency, overhead;
    std::vector<std::int32_t> stage;
    std::vector<std::uint8_t> exclusive;
    std::vector<std::int64_t> order;
    std::vector<std::int64_t> path_offsets{0}, deps_offsets{0}, senders_offsets{0};
    std::vector<std::int32_t> path, deps, senders, barriers;
    double stage_overhead_s = 0;
    Congestion congestion;

    explicit Case(std::vector<double> capacities) : capacity(std::move(capacities)), is_port(capacity.size(), 0) {
        channel_by_link.resize(capacity.size());
        std::iota(channel_by_link.begin(), channel_by_link.end(), 0);
    }

    void message(std::int64_t bytes, std::vector<std::int32_t> links, std::vector<std::int32_t> after = {},
                 std::int32_t in_stage = 0, std::int32_t sender = 0) {
        size.push_back(bytes);
        latency.push_back(0);
        overhead.push_back(0);
        stage.push_back(in_stage);
        exclusive.push_back(0);
        order.push_back(0);
        path.insert(path.end(), links.begin(), links.end());
        path_offsets.push_back(static_cast<std::int64_t>(path.size()));
        deps.insert(deps.end(), after.begin(), after.end());
        deps_offsets.push_back(static_cast<std::int64_t>(deps.size()));
        senders.push_back(sender);
        senders_offsets.push_back(static_cast<std::int64_t>(senders.size()));
    }

    [[nodiscard]] FlowProblem problem() const {
        return {.capacity_bytes_per_s = capacity,
                .is_receiving_port = is_port,
                .channel_by_link = channel_by_link,
                .size_bytes = size,
                .latency_s = latency,
                .overhead_s = overhead,
                .stage = stage,
                .is_exclusive = exclusive,
                .order = order,
                .path = {path_offsets, path},
                .deps = {deps_offsets, deps},
                .senders = {senders_offsets, senders},
                .barriers = barriers,
                .stage_overhead_s = stage_overhead_s,
                .num_ordered_links = static_cast<std::int32_t>(capacity.size()),
                .congestion = congestion};
    }
};

bool near(double got, double want) { return std::abs(got - want) <= 1e-12 * (1 + std::abs(want)); }

void turns_taken_and_given() {
    // An urgent message has link 1 until 10 s. The first in the order of link 0 stands back for it.
    Case c({10, 10, 10});
    c.message(100, {1});
    c.message(10, {0, 1});
    c.message(50, {0, 2});
    c.exclusive = {0, 1, 1};
    c.order = {0, 0, 1};
    const std::vector<std::int32_t> level{0, 1, 1};
    FlowProblem problem = c.problem();
    problem.level = level;
    const FlowTimes given = simulate_flows(problem);
    CHECK(near(given.start_s[1], 10) && near(given.start_s[2], 11) && near(given.makespan_s, 16) && given.turn.empty());
    problem.takes_turns = true;
    const FlowTimes taken = simulate_flows(problem);
    CHECK(near(taken.start_s[2], 0) && near(taken.finish_s[2], 5));
    CHECK(near(taken.start_s[1], 10) && near(taken.makespan_s, 11));
    CHECK(taken.turn[2] == 0 && taken.turn[1] == 1);
    // Of two that wait for a link the first in its order has it, and one at a time.
    Case d({10, 10, 10, 10});
    d.message(10, {0, 1});
    d.message(20, {0, 3});
    d.message(30, {0, 2});
    d.exclusive = {1, 1, 1};
    d.order = {0, 2, 1};
    FlowProblem alike = d.problem();
    const std::vector<std::int32_t> same{0, 0, 0};
    alike.level = same;
    alike.takes_turns = true;
    const FlowTimes times = simulate_flows(alike);
    CHECK(near(times.finish_s[0], 1) && near(times.finish_s[2], 4) && near(times.finish_s[1], 6));
}

void unequal_sharing() {
    // 10 B/s shared by 10 and 30 bytes: both at 5 until 2 s, then the second alone.
    Case c({10});
    c.message(10, {0});
    c.message(30, {0});
    const FlowTimes times = simulate_flows(c.problem());
    CHECK(near(times.finish_s[0], 2) && near(times.finish_s[1], 4));
    const RateChanges rates = record_rates(c.problem());
    CHECK(rates.rate_bytes_per_s.size() == 5);  // 5, 5, 0, 10, 0
    const auto used = channel_utilisation(c.problem(), 4, 8.0);
    CHECK(near(used[0], 1) && near(used[1], 1) && near(used[2], 0) && near(used[3], 0));
}

void costs_and_waits() {
    Case c({10, 10});
    c.message(10, {0});
    c.message(10, {1}, {0}, 1);
    c.latency = {0.5, 0.25};
    c.overhead = {2, 3};
    c.stage_overhead_s = 4;
    const FlowTimes times = simulate_flows(c.problem());
    CHECK(near(times.start_s[0], 4) && near(times.sent_s[0], 4 + 2 + 1) && near(times.finish_s[0], 7.5));
    CHECK(near(times.start_s[1], 11.5) && near(times.finish_s[1], 11.5 + 3 + 1 + 0.25));
    CHECK(times.wait[1] == static_cast<std::uint8_t>(Wait::dependency) && times.waited_for[1] == 0);
}

void link_order_is_not_arrival_order() {
    Case c({10});
    c.message(10, {0});
    c.message(20, {0});
    c.exclusive = {1, 1};
    c.order = {7, 3};
    c.latency = {100, 100};
    const FlowTimes times = simulate_flows(c.problem());
    CHECK(near(times.sent_s[1], 2) && near(times.start_s[0], 2) && near(times.finish_s[0], 103));
    CHECK(times.wait[0] == static_cast<std::uint8_t>(Wait::link_order) && times.waited_for[0] == 1);
}

void too_many_senders() {
    Case c({10, 10, 10, 10});
    c.is_port[3] = 1;
    for (std::int32_t s = 0; s < 3; ++s) c.message(10, {s, 3}, {}, 0, s);
    c.congestion = {.is_modelled = true, .mild = {.senders = 1, .per_sender = 0.5}, .collapse = {}, .max_loss = 100};
    const FlowTimes times = simulate_flows(c.problem());
    CHECK(times.peak_fan_in[3] == 3);
    CHECK(near(times.makespan_s, 6));  // goodput 1 / (1 + 0.5 * 2)
    c.congestion.collapse = {.senders = 2, .per_sender = 4, .sender_exponent = 1, .size_exponent = 0};
    CHECK(near(simulate_flows(c.problem()).makespan_s, 3 * (1 + 1 + 4)));
    c.congestion.max_loss = 2;
    CHECK(near(simulate_flows(c.problem()).makespan_s, 3 * (1 + 2)));
    c.congestion = {};
    CHECK(near(simulate_flows(c.problem()).makespan_s, 3));
}

void bad_input_is_refused() {
    Case circle({10});
    circle.message(1, {0}, {1});
    circle.message(1, {0}, {0});
    CHECK_THROWS(simulate_flows(circle.problem()), InvalidInput);
    Case twice({10});
    twice.message(1, {0, 0});
    CHECK_THROWS(simulate_flows(twice.problem()), InvalidInput);
    Case nowhere({10});
    nowhere.message(1, {1});
    CHECK_THROWS(simulate_flows(nowhere.problem()), InvalidInput);
    Case dead({0.0});
    dead.message(1, {0});
    CHECK_THROWS(simulate_flows(dead.problem()), InvalidInput);
}

void nothing_to_do_takes_no_time() {
    Case empty({10});
    CHECK(simulate_flows(empty.problem()).makespan_s == 0);
    Case stays({10});
    stays.message(5, {});
    stays.message(0, {0}, {0});
    CHECK(simulate_flows(stays.problem()).makespan_s == 0);
}

}  // namespace

int main() {
    turns_taken_and_given();
    unequal_sharing();
    costs_and_waits();
    link_order_is_not_arrival_order();
    too_many_senders();
    bad_input_is_refused();
    nothing_to_do_takes_no_time();
    return 0;
}
