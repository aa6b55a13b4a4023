#include <nanobind/stl/tuple.h>

#include <tuple>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interlock/synthesis/greedy_match.hpp"
#include "interlock/synthesis/list_schedule.hpp"
#include "interlock/synthesis/path_routing.hpp"
#include "interlock/synthesis/random_match.hpp"
#include "interlock/synthesis/slot_replay.hpp"
#include "interlock/synthesis/translate.hpp"
#include "interlock/synthesis/tree_packing.hpp"
#include "interlock/synthesis/tree_shares.hpp"
#include "interlock/synthesis/tree_sweeps.hpp"

namespace interlock::bindings {

using namespace nb::literals;

namespace {

template <typename T>
using Mutable1 = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Mutable2 = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <typename T>
std::span<T> as_mutable_span(const Mutable1<T>& array) {
    return {array.data(), array.size()};
}

/// An ArcGraph as it comes from Python: nodes, resources, then its columns in order.
using GraphColumns = std::tuple<std::int32_t, std::int32_t, I32, I32, I64, I32, I64, F64, F64>;

ArcGraph as_graph(const GraphColumns& columns) {
    const auto& [nodes, resources, src, dst, offsets, held, overhead, per_byte, shares] = columns;
    return {nodes,
            resources,
            as_span(src),
            as_span(dst),
            as_csr(offsets, held),
            as_span(overhead),
            as_span(per_byte),
            as_csr(offsets, shares)};
}
std::size_t num_nodes(const GraphColumns& columns) { return static_cast<std::size_t>(std::get<0>(columns)); }

template <typename Slot>
void bind_match_rounds(nb::module_& m) {
    m.def(
        "match_rounds",
        [](const I32& link_src, const I32& link_dst, const Mutable2<std::uint64_t>& held,
           const Mutable1<std::uint32_t>& holders, const Mutable1<std::int32_t>& missing, const Mutable2<Slot>& table,
           std::int32_t candidates, std::int64_t first_round, std::uint64_t seed, std::int32_t threads) {
            const nb::gil_scoped_release nogil;
            const MatchGraph graph{static_cast<std::int32_t>(missing.size()), static_cast<std::int32_t>(holders.size()),
                                   as_span(link_src), as_span(link_dst)};
            const Holdings holdings{{held.data(), held.size()}, as_mutable_span(holders), as_mutable_span(missing)};
            return match_rounds<Slot>(graph, holdings, {candidates, first_round, seed, threads},
                                      {table.data(), table.size()});
        },
        "link_src"_exact, "link_dst"_exact, "held"_exact, "holders"_exact, "missing"_exact, "table"_exact,
        "candidates"_a, "first_round"_a, "seed"_a, "threads"_a,
        "Fill rows of a slot table by greedy matching, updating who holds what; returns the rows filled.");
}

template <typename Slot>
void bind_replay_slots(nb::module_& m) {
    m.def(
        "replay_slots",
        [](const Array2<Slot>& table, const I32& link_src, const I32& link_dst, std::int32_t num_nodes,
           std::int32_t num_chunks) {
            const nb::gil_scoped_release nogil;
            return replay_slots<Slot>(as_span(table), as_span(link_src), as_span(link_dst), num_nodes, num_chunks);
        },
        "table"_exact, "link_src"_exact, "link_dst"_exact, "num_nodes"_a, "num_chunks"_a,
        "Slots that a table takes when every link sends as soon as it can.");
}

void bind_random_match(nb::module_& m) {
    m.def(
        "match_randomly",
        [](const I32& link_src, const I32& link_dst, const I64& link_ticks, const I64& link_latency_ticks,
           const I32& origin, const U8& wanted, std::uint64_t seed) {
            auto made = without_gil([&] {
                const TimedLinks links{static_cast<std::int32_t>(wanted.size()), as_span(link_src), as_span(link_dst),
                                       as_span(link_ticks), as_span(link_latency_ticks)};
                return match_randomly(links, as_span(origin), as_span(wanted), seed);
            });
            return std::make_tuple(column(std::move(made.link)), column(std::move(made.chunk)),
                                   column(std::move(made.start_ticks)), made.makespan_ticks);
        },
        "link_src"_exact, "link_dst"_exact, "link_ticks"_exact, "link_latency_ticks"_exact, "origin"_exact,
        "wanted"_exact, "seed"_a,
        "TACOS's random matching on a time-expanded network: links, chunks, starts, makespan.");
}

auto packed(Packing packing, std::size_t nodes) {
    const std::size_t trees = packing.root.size(), paired = packing.arc_outof.size() / nodes;
    return std::make_tuple(column(std::move(packing.root)), table(std::move(packing.arc_into), trees, nodes),
                           table(std::move(packing.arc_outof), paired, nodes), column(std::move(packing.load_ticks)));
}

void bind_tree_packing(nb::module_& m) {
    m.def(
        "pack_trees",
        [](const GraphColumns& columns, const I32& root, const I64& bytes, const U8& wanted, const I32& mask,
           const I32& free_roots, std::int32_t passes, double slack, double haste, std::uint64_t seed) {
            auto packing = without_gil([&] {
                const TreeDemand demand{as_span(root), as_span(bytes), as_span(wanted), as_span(mask),
                                        as_span(free_roots)};
                return pack_trees(as_graph(columns), demand, {passes, slack, haste, seed});
            });
            return packed(std::move(packing), num_nodes(columns));
        },
        "graph"_exact, "root"_exact, "bytes"_exact, "wanted"_exact, "mask"_exact, "free_roots"_exact, "passes"_a,
        "slack"_a, "haste"_a, "seed"_a,
        "Trees along the cheapest arcs, so that the busiest resource is as little busy as possible: roots, arcs into "
        "each node, arcs out of each node, load of each resource.");
}

void bind_tree_sweeps(nb::module_& m) {
    m.def(
        "sweep_trees",
        [](const GraphColumns& columns, const I32& root, const I64& bytes, const I32& free_roots, const F64& hop_ticks,
           std::int32_t passes, double haste, std::uint64_t seed) {
            auto packing = without_gil([&] {
                return sweep_trees(as_graph(columns), {as_span(root), as_span(bytes), {}, {}, as_span(free_roots)},
                                   {as_span(hop_ticks), passes, haste, seed});
            });
            return packed(std::move(packing), num_nodes(columns));
        },
        "graph"_exact, "root"_exact, "bytes"_exact, "free_roots"_exact, "hop_ticks"_exact, "passes"_a, "haste"_a,
        "seed"_a,
        "The same for trees that span all nodes, laid quickly where nodes have many arcs.");
}

void bind_tree_shares(nb::module_& m) {
    m.def(
        "share_trees",
        [](const GraphColumns& columns, const I32& root, const I64& bytes, const U8& wanted, const I32& mask,
           const I32& free_roots, const F64& hop_ticks, double haste, double tolerance, std::int32_t most_steps) {
            auto made = without_gil([&] {
                const TreeDemand demand{as_span(root), as_span(bytes), as_span(wanted), as_span(mask),
                                        as_span(free_roots)};
                return share_trees(as_graph(columns), demand, {as_span(hop_ticks), haste, tolerance, most_steps});
            });
            const std::size_t nodes = num_nodes(columns), trees = made.root.size();
            const std::size_t paired = made.arc_outof.size() / nodes;
            return std::make_tuple(column(std::move(made.demand)), column(std::move(made.share)),
                                   column(std::move(made.root)), table(std::move(made.arc_into), trees, nodes),
                                   table(std::move(made.arc_outof), paired, nodes), made.peak_ticks, made.steps);
        },
        "graph"_exact, "root"_exact, "bytes"_exact, "wanted"_exact, "mask"_exact, "free_roots"_exact, "hop_ticks"_exact,
        "haste"_a, "tolerance"_a, "most_steps"_a,
        "What every root sends split over several trees, so that the busiest resource is busy no longer than it must "
        "be: demand, share and root of each tree, arcs into each node, arcs out of each node, the busiest resource's "
        "ticks, steps taken.");
}

void bind_alike_trees(nb::module_& m) {
    m.def(
        "alike_trees",
        [](const GraphColumns& columns, const I32& roots, std::int64_t bytes, bool descending) {
            auto into =
                without_gil([&] { return alike_trees(as_graph(columns), as_span(roots), bytes, descending); });
            return table(std::move(into), roots.size(), num_nodes(columns));
        },
        "graph"_exact, "roots"_exact, "bytes"_a, "descending"_a,
        "Arcs into each node of the fastest trees, chosen alike from every root.");
    m.def(
        "eccentricities",
        [](const GraphColumns& columns, std::int64_t bytes) {
            return column(without_gil([&] { return eccentricities(as_graph(columns), bytes); }));
        },
        "graph"_exact, "bytes"_a,
        "Ticks that some bytes need from each node to the farthest other one; -1 where one cannot be reached.");
}

void bind_path_routing(nb::module_& m) {
    m.def(
        "route_paths",
        [](const GraphColumns& columns, const I32& src, const I32& dst, const I64& bytes, std::int32_t passes,
           std::int32_t batch, double haste, std::uint64_t seed, const I64& delay_ticks) {
            auto paths = without_gil([&] {
                return route_paths(as_graph(columns), {as_span(src), as_span(dst), as_span(bytes)},
                                   {passes, batch, haste, seed, as_span(delay_ticks)});
            });
            return std::make_tuple(column(std::move(paths.offsets)), column(std::move(paths.arcs)),
                                  column(std::move(paths.load_ticks)));
        },
        "graph"_exact, "src"_exact, "dst"_exact, "bytes"_exact, "passes"_a, "batch"_a, "haste"_a, "seed"_a,
        "delay_ticks"_exact,
        "One path per demand, so that the busiest resource is as little busy as possible: offsets, arcs, load of each "
        "resource.");
}

void bind_list_schedule(nb::module_& m) {
    m.def(
        "list_schedule",
        [](std::int32_t num_resources, const I64& resource_offsets, const I32& resources, const F64& shares,
           const F64& least_rates,
           const I64& overhead_ticks, const I64& latency_ticks, const I32& task_orbit, const I64& task_ticks,
           const I64& successor_offsets, const I32& successors, const I64& lateness, std::int32_t max_merge,
           std::int64_t patience_ticks, const I64& full_ticks, const I32& senders, std::int64_t opening_ticks,
           std::int32_t rounds) {
            auto made = without_gil([&] {
                const OrbitWork work{num_resources,
                                    as_csr(resource_offsets, resources),
                                    as_csr(resource_offsets, shares),
                                    as_span(least_rates),
                                    as_span(overhead_ticks),
                                    as_span(latency_ticks),
                                    as_span(task_orbit),
                                    as_span(task_ticks),
                                    as_csr(successor_offsets, successors),
                                    as_span(senders),
                                    opening_ticks};
                require(lateness.size() == task_orbit.size(), "every task needs a lateness");
                for (const std::int64_t ticks : as_span(lateness)) {
                    require(ticks >= -(std::int64_t{1} << 62) && ticks <= std::int64_t{1} << 62,
                            "lateness must be within 2^62");
                }
                std::vector<std::int64_t> priority = remaining_ticks(work);
                for (std::size_t task = 0; task < priority.size(); ++task) priority[task] -= lateness.data()[task];
                return refine_schedule(work, priority, {max_merge, patience_ticks, as_span(full_ticks)}, rounds);
            });
            return std::make_tuple(column(std::move(made.start_ticks)), column(std::move(made.sent_ticks)),
                                  column(std::move(made.message)), made.makespan_ticks);
        },
        "num_resources"_a, "resource_offsets"_exact, "resources"_exact, "shares"_exact, "least_rates"_exact, "overhead_ticks"_exact,
        "latency_ticks"_exact, "task_orbit"_exact, "task_ticks"_exact, "successor_offsets"_exact, "successors"_exact,
        "lateness"_exact, "max_merge"_a, "patience_ticks"_a, "full_ticks"_exact, "senders"_exact, "opening_ticks"_a,
        "rounds"_a,
        "Start, end and message of each task, and the makespan; what has most left to wait for it goes first, less its "
        "lateness, then the order is refined backwards and forwards.");
}

void bind_translate(nb::module_& m) {
    m.def(
        "translations",
        [](const Array2<std::int32_t>& generators, std::int32_t num_ranks) {
            const std::size_t nodes = generators.shape(1);
            auto images = without_gil(
                [&] { return translations(as_span(generators), static_cast<std::int32_t>(nodes), num_ranks); });
            const std::size_t rows = images.size() / nodes;
            return table(std::move(images), rows, nodes);
        },
        "generators"_exact, "num_ranks"_a,
        "Symmetries generated by permutations, row r moving rank 0 to rank r; no rows where some rank is not reached.");
    m.def(
        "grow",
        [](const Array2<std::int32_t>& next, std::int32_t num_resources, const I64& resource_offsets,
           const I32& resources, const I64& orbit_ticks, const I64& latency_ticks, std::int32_t num_chunks,
           std::uint64_t seed) {
            auto growth = without_gil([&] {
                const OrbitGraph graph{static_cast<std::int32_t>(next.shape(0)),
                                      as_span(next),
                                      num_resources,
                                      as_csr(resource_offsets, resources),
                                      as_span(orbit_ticks),
                                      as_span(latency_ticks)};
                return grow(graph, num_chunks, seed);
            });
            return std::make_tuple(column(std::move(growth.route)), column(std::move(growth.chunk)),
                                  column(std::move(growth.start_ticks)), growth.makespan_ticks);
        },
        "next"_exact, "num_resources"_a, "resource_offsets"_exact, "resources"_exact, "orbit_ticks"_exact,
        "latency_ticks"_exact, "num_chunks"_a, "seed"_a,
        "One rank's share of an All-Gather that all ranks follow, moved by symmetries: routes, chunks, starts, "
        "makespan.");
}

}  // namespace

void bind_synthesis(nb::module_& m) {
    bind_match_rounds<std::uint16_t>(m);
    bind_match_rounds<std::uint32_t>(m);
    bind_replay_slots<std::uint16_t>(m);
    bind_replay_slots<std::uint32_t>(m);
    bind_random_match(m);
    bind_tree_packing(m);
    bind_tree_sweeps(m);
    bind_tree_shares(m);
    bind_alike_trees(m);
    bind_path_routing(m);
    bind_list_schedule(m);
    bind_translate(m);
}

}  // namespace interlock::bindings
