#include "interlock/two_tier/trial_run.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "interlock/arithmetic.hpp"
#include "interlock/simulate/flow_sim.hpp"
#include "interlock/two_tier/constants.hpp"

namespace interlock {
double trial_seconds(std::span<const std::int64_t> demand_bytes, const TwoTierDecision& decision,
                     const Ports& ports, const TwoTierCosts& costs) {
    const DecidedPlan decided(demand_bytes, decision, kEveryone);
    const ScheduleRows rows = expand_two_tier(demand_bytes, decided.plan());
    const std::size_t count = rows.src.size();
    std::vector<double> rate = ports.rates();
    for (double& dead : rate) dead = std::max(dead, 1.0);  // of a NIC that nothing takes
    std::vector<std::uint8_t> receives(ports.count(), 0), is_exclusive(count, 0);
    for (std::size_t rank = 0; rank < ports.ranks(); ++rank) receives[ports.in(rank)] = 1;
    std::vector<std::int32_t> path, itself(ports.count());
    std::vector<std::int64_t> path_offsets = {0}, sender_offsets(count + 1);
    std::vector<double> latency_s(count), overhead_s(count, costs.message_overhead_s);
    for (std::size_t m = 0; m < count; ++m) {
        const bool is_wire = rows.phase[m] == static_cast<std::uint8_t>(MessagePhase::kScaleOut);
        const std::int32_t from = rows.src[m], to = rows.dst[m];
        const RoutePorts on(ports, is_wire ? Route{from, to, from, to, -1} : Route{from, to, -1, -1, -1});
        for (const std::size_t port : on.all()) path.push_back(to_int32(port));
        path_offsets.push_back(static_cast<std::int64_t>(path.size()));
        latency_s[m] = is_wire ? costs.scale_out_latency_s : costs.scale_up_latency_s;
        is_exclusive[m] = is_wire && decision.pace == Pace::kExclusive;
    }
    std::iota(itself.begin(), itself.end(), 0);
    std::iota(sender_offsets.begin(), sender_offsets.end(), 0);
    return simulate_flows({.capacity_bytes_per_s = rate,
                           .is_receiving_port = receives,
                           .channel_by_link = itself,
                           .size_bytes = rows.size_bytes,
                           .latency_s = latency_s,
                           .overhead_s = overhead_s,
                           .stage = rows.stage,
                           .is_exclusive = is_exclusive,
                           .order = rows.order,
                           .path = {path_offsets, path},
                           .deps = {rows.dep_offsets, rows.deps},
                           .senders = {sender_offsets, rows.src},
                           .barriers = {},
                           .stage_overhead_s = costs.stage_overhead_s,
                           .num_ordered_links = to_int32(ports.count()),
                           .congestion = costs.congestion,
                           .tolerance = kPrecision,
                           .level = {},
                           .tail_s = {}})
        .makespan_s;
}

}  // namespace interlock
