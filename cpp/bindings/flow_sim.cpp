#include "interlock/simulate/flow_sim.hpp"

#include <nanobind/stl/tuple.h>

#include <tuple>
#include <utility>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interlock/errors.hpp"

namespace interlock::bindings {
namespace {

using namespace nb::literals;

/// Defines a native function whose arguments are a flow problem's arrays and then `Extra`, with names given.
template <typename... Extra, typename Run, typename... Names>
void define(nb::module_& m, const char* name, const char* doc, Run run, Names... extra_names) {
    m.def(
        name,
        [run](const F64& capacity, const U8& is_port, const I32& channel_by_link, const I64& size,
              const F64& latency, const F64& overhead, const I32& stage, const U8& is_exclusive,
              const I64& order, const I64& path_offsets, const I32& path, const I64& deps_offsets,
              const I32& deps, const I64& senders_offsets, const I32& senders, const I32& barriers,
              double stage_overhead_s, std::int32_t num_ordered_links, bool is_congested, const F64& loss,
              double tolerance, Extra... extra) {
            require(loss.size() == 10, "loss must have 10 entries");
            const double* const curve = loss.data();
            const FlowProblem problem{
                .capacity_bytes_per_s = as_span(capacity),
                .is_receiving_port = as_span(is_port),
                .channel_by_link = as_span(channel_by_link),
                .size_bytes = as_span(size),
                .latency_s = as_span(latency),
                .overhead_s = as_span(overhead),
                .stage = as_span(stage),
                .is_exclusive = as_span(is_exclusive),
                .order = as_span(order),
                .path = as_csr(path_offsets, path),
                .deps = as_csr(deps_offsets, deps),
                .senders = as_csr(senders_offsets, senders),
                .barriers = as_span(barriers),
                .stage_overhead_s = stage_overhead_s,
                .num_ordered_links = num_ordered_links,
                .congestion = {.is_modelled = is_congested,
                               .mild = {curve[0], curve[1], curve[2], curve[3]},
                               .collapse = {curve[4], curve[5], curve[6], curve[7]},
                               .reference_bytes = curve[8],
                               .max_loss = curve[9]},
                .tolerance = tolerance,
            };
            return run(problem, extra...);
        },
        "capacity_bytes_per_s"_exact, "is_receiving_port"_exact, "channel_by_link"_exact, "size_bytes"_exact,
        "latency_s"_exact, "overhead_s"_exact, "stage"_exact, "is_exclusive"_exact, "order"_exact, "path_offsets"_exact,
        "path"_exact, "deps_offsets"_exact, "deps"_exact, "senders_offsets"_exact, "senders"_exact, "barriers"_exact,
        "stage_overhead_s"_a, "num_ordered_links"_a, "is_congested"_a, "loss"_exact, "tolerance"_a,
        extra_names..., doc);
}

}  // namespace

void bind_flow_sim(nb::module_& m) {
    define(
        m, "simulate_flows",
        "Times of every message of a schedule: (start_s, sent_s, finish_s, wait, waited_for, bottleneck, peak_fan_in, "
        "(makespan_s, largest_idle_share, num_events)).",
        [](const FlowProblem& problem) {
            auto times = without_gil([&] { return simulate_flows(problem); });
            return std::make_tuple(column(std::move(times.start_s)), column(std::move(times.sent_s)),
                                   column(std::move(times.finish_s)), column(std::move(times.wait)),
                                   column(std::move(times.waited_for)), column(std::move(times.bottleneck)),
                                   column(std::move(times.peak_fan_in)),
                                   std::make_tuple(times.makespan_s, times.largest_idle_share, times.num_events));
        });
    define<const I32&, const F64&, bool, double>(
        m, "admit_flows",
        "A run in which less urgent messages stand back, level 0 first: (start_s, waiting message, the message it "
        "waited for, turn of each that holds links alone where they take turns as they are ready, makespan_s, "
        "num_events); broken off, its makespan infinite, once what is left, by tails and channels, cannot end before "
        "give_up_s.",
        [](FlowProblem problem, const I32& level, const F64& tail_s, bool takes_turns, double give_up_s) {
            problem.level = as_span(level);
            problem.tail_s = as_span(tail_s);
            problem.takes_turns = takes_turns;
            problem.give_up_s = give_up_s;
            FlowTimes times = without_gil([&] { return simulate_flows(problem); });
            std::vector<std::int32_t> waiting, waited_for;
            for (const auto& [message, by] : times.stood_back) {
                waiting.push_back(message);
                waited_for.push_back(by);
            }
            return std::make_tuple(column(std::move(times.start_s)), column(std::move(waiting)),
                                   column(std::move(waited_for)), column(std::move(times.turn)), times.makespan_s,
                                   times.num_events);
        },
        "level"_exact, "tail_s"_exact, "takes_turns"_a, "give_up_s"_a);
    define(
        m, "record_rates", "Every change of a message's rate: (time_s, message, rate_bytes_per_s).",
        [](const FlowProblem& problem) {
            auto changes = without_gil([&] { return record_rates(problem); });
            return std::make_tuple(column(std::move(changes.time_s)), column(std::move(changes.message)),
                                   column(std::move(changes.rate_bytes_per_s)));
        });
    define<std::int64_t, double>(
        m, "channel_utilisation", "Part of each channel's capacity in use: [channels, num_bins].",
        [](const FlowProblem& problem, std::int64_t num_bins, double horizon_s) {
            require(num_bins > 0, "num_bins must be at least 1");
            auto share = without_gil([&] {
                return channel_utilisation(problem, static_cast<std::size_t>(num_bins), horizon_s);
            });
            return table(std::move(share), problem.capacity_bytes_per_s.size(), static_cast<std::size_t>(num_bins));
        },
        "num_bins"_a, "horizon_s"_a);
}

}  // namespace interlock::bindings
