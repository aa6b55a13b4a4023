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
using GraphColumns =
    std::tuple<std::int32_t, std::int32_t, Array1<std::int32_t>, Array1<std::int32_t>, Array1<std::int64_t>,
               Array1<std::int32_t>, Array1<std::int64_t>, Array1<double>>;

ArcGraph as_graph(const GraphColumns& columns) {
    const auto& [nodes, resources, src, dst, offsets, held, overhead, per_byte] = columns;
    return {nodes, resources, as_span(src), as_span(dst), as_csr(offsets, held), as_span(overhead), as_span(per_byte)};
}
std::size_t num_nodes(const GraphColumns& columns) { return static_cast<std::size_t>(std::get<0>(columns)); }

template <typename Slot>
void bind_match_rounds(nb::module_& m) {
    m.def(
        "match_rounds",
        [](const Array1<std::int32_t>& link_src, const Array1<std::int32_t>& link_dst,
           const Mutable2<std::uint64_t>& held, const Mutable1<std::uint32_t>& holders,
           const Mutable1<std::int32_t>& missing, const Mutable2<Slot>& table, std::int32_t candidates,
           std::int64_t first_round, std::uint64_t seed, std::int32_t threads) {
            const nb::gil_scoped_release nogil;
            const MatchGraph graph{static_cast<std::int32_t>(missing.size()), static_cast<std::int32_t>(holders.size()),
                                   as_span(link_src), as_span(link_dst)};
            const Holdings holdings{{held.data(), held.size()}, as_mutable_span(holders), as_mutable_span(missing)};
            return match_rounds<Slot>(graph, holdings, {candidates, first_round, seed, threads},
                                      {table.data(), table.size()});
        },
        "link_src"_a.noconvert(), "link_dst"_a.noconvert(), "held"_a.noconvert(), "holders"_a.noconvert(),
        "missing"_a.noconvert(), "table"_a.noconvert(), "candidates"_a, "first_round"_a, "seed"_a, "threads"_a,
        "Fill rows of a slot table by greedy matching, updating who holds what; returns the rows filled.");
}

template <typename Slot>
void bind_replay_slots(nb::module_& m) {
    m.def(
        "replay_slots",
        [](const Array2<Slot>& table, const Array1<std::int32_t>& link_src, const Array1<std::int32_t>& link_dst,
           std::int32_t num_nodes, std::int32_t num_chunks) {
            const nb::gil_scoped_release nogil;
            return replay_slots<Slot>(as_span(table), as_span(link_src), as_span(link_dst), num_nodes, num_chunks);
        },
        "table"_a.noconvert(), "link_src"_a.noconvert(), "link_dst"_a.noconvert(), "num_nodes"_a, "num_chunks"_a,
        "Slots that a table takes when every link sends as soon as it can.");
}

void bind_random_match(nb::module_& m) {
    m.def(
        "match_randomly",
        [](const Array1<std::int32_t>& link_src, const Array1<std::int32_t>& link_dst,
           const Array1<std::int64_t>& link_ticks, const Array1<std::int64_t>& link_latency_ticks,
           const Array1<std::int32_t>& origin, const Array1<std::uint8_t>& wanted, std::uint64_t seed) {
            RandomMatching made;
            {
                const nb::gil_scoped_release nogil;
                const TimedLinks links{static_cast<std::int32_t>(wanted.size()), as_span(link_src), as_span(link_dst),
                                       as_span(link_ticks), as_span(link_latency_ticks)};
                made = match_randomly(links, as_span(origin), as_span(wanted), seed);
            }
            return std::make_tuple(column(std::move(made.link)), column(std::move(made.chunk)),
                                   column(std::move(made.start_ticks)), made.makespan_ticks);
        },
        "link_src"_a.noconvert(), "link_dst"_a.noconvert(), "link_ticks"_a.noconvert(),
        "link_latency_ticks"_a.noconvert(), "origin"_a.noconvert(), "wanted"_a.noconvert(), "seed"_a,
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
        [](const GraphColumns& columns, const Array1<std::int32_t>& root, const Array1<std::int64_t>& bytes,
           const Array1<std::uint8_t>& wanted, const Array1<std::int32_t>& mask,
           const Array1<std::int32_t>& free_roots, std::int32_t passes, double slack, double haste,
           std::uint64_t seed) {
            Packing packing;
            {
                const nb::gil_scoped_release nogil;
                const ArcGraph graph = as_graph(columns);
                const TreeDemand demand{as_span(root), as_span(bytes), as_span(wanted), as_span(mask),
                                        as_span(free_roots)};
                packing = pack_trees(graph, demand, {passes, slack, haste, seed});
            }
            return packed(std::move(packing), num_nodes(columns));
        },
        "graph"_a.noconvert(), "root"_a.noconvert(), "bytes"_a.noconvert(), "wanted"_a.noconvert(),
        "mask"_a.noconvert(), "free_roots"_a.noconvert(), "passes"_a, "slack"_a, "haste"_a, "seed"_a,
        "Trees along the cheapest arcs, so that the busiest resource is as little busy as possible: roots, arcs into "
        "each node, arcs out of each node, load of each resource.");
}

void bind_tree_sweeps(nb::module_& m) {
    m.def(
        "sweep_trees",
        [](const GraphColumns& columns, const Array1<std::int32_t>& root, const Array1<std::int64_t>& bytes,
           const Array1<std::int32_t>& free_roots, const Array1<double>& hop_ticks, std::int32_t passes, double haste,
           std::uint64_t seed) {
            Packing packing;
            {
                const nb::gil_scoped_release nogil;
                const ArcGraph graph = as_graph(columns);
                packing = sweep_trees(graph, {as_span(root), as_span(bytes), {}, {}, as_span(free_roots)},
                                      {as_span(hop_ticks), passes, haste, seed});
            }
            return packed(std::move(packing), num_nodes(columns));
        },
        "graph"_a.noconvert(), "root"_a.noconvert(), "bytes"_a.noconvert(), "free_roots"_a.noconvert(),
        "hop_ticks"_a.noconvert(), "passes"_a, "haste"_a, "seed"_a,
        "The same for trees that span all nodes, laid quickly where nodes have many arcs.");
}

void bind_tree_shares(nb::module_& m) {
    m.def(
        "share_trees",
        [](const GraphColumns& columns, const Array1<std::int32_t>& root, const Array1<std::int64_t>& bytes,
           const Array1<std::uint8_t>& wanted, const Array1<std::int32_t>& mask,
           const Array1<std::int32_t>& free_roots, const Array1<double>& hop_ticks, double haste, double tolerance, std::int32_t most_steps) {
            TreeShares made;
            {
                const nb::gil_scoped_release nogil;
                const ArcGraph graph = as_graph(columns);
                const TreeDemand demand{as_span(root), as_span(bytes), as_span(wanted), as_span(mask),
                                        as_span(free_roots)};
                made = share_trees(graph, demand, {as_span(hop_ticks), haste, tolerance, most_steps});
            }
            const std::size_t nodes = num_nodes(columns), trees = made.root.size();
            const std::size_t paired = made.arc_outof.size() / nodes;
            return std::make_tuple(column(std::move(made.demand)), column(std::move(made.share)),
                                   column(std::move(made.root)), table(std::move(made.arc_into), trees, nodes),
                                   table(std::move(made.arc_outof), paired, nodes), made.peak_ticks, made.steps);
        },
        "graph"_a.noconvert(), "root"_a.noconvert(), "bytes"_a.noconvert(), "wanted"_a.noconvert(),
        "mask"_a.noconvert(), "free_roots"_a.noconvert(), "hop_ticks"_a.noconvert(), "haste"_a, "tolerance"_a, "most_steps"_a,
        "What every root sends split over several trees, so that the busiest resource is busy no longer than it must "
        "be: demand, share and root of each tree, arcs into each node, arcs out of each node, the busiest resource's "
        "ticks, steps taken.");
}

void bind_alike_trees(nb::module_& m) {
    m.def(
        "alike_trees",
        [](const GraphColumns& columns, const Array1<std::int32_t>& roots, std::int64_t bytes,
           bool descending) {
            std::vector<std::int32_t> into;
            {
                const nb::gil_scoped_release nogil;
                const ArcGraph graph = as_graph(columns);
                into = alike_trees(graph, as_span(roots), bytes, descending);
            }
            return table(std::move(into), roots.size(), num_nodes(columns));
        },
        "graph"_a.noconvert(), "roots"_a.noconvert(), "bytes"_a, "descending"_a,
        "Arcs into each node of the fastest trees, chosen alike from every root.");
    m.def(
        "eccentricities",
        [](const GraphColumns& columns, std::int64_t bytes) {
            std::vector<std::int64_t> farthest;
            {
                const nb::gil_scoped_release nogil;
                const ArcGraph graph = as_graph(columns);
                farthest = eccentricities(graph, bytes);
            }
            return column(std::move(farthest));
        },
        "graph"_a.noconvert(), "bytes"_a,
        "Ticks that some bytes need from each node to the farthest other one; -1 where one cannot be reached.");
}

void bind_path_routing(nb::module_& m) {
    m.def(
        "route_paths",
        [](const GraphColumns& columns, const Array1<std::int32_t>& src, const Array1<std::int32_t>& dst,
           const Array1<std::int64_t>& bytes, std::int32_t passes, std::int32_t batch, double haste,
           std::uint64_t seed) {
            Paths paths;
            {
                const nb::gil_scoped_release nogil;
                const ArcGraph graph = as_graph(columns);
                paths = route_paths(graph, {as_span(src), as_span(dst), as_span(bytes)}, {passes, batch, haste, seed});
            }
            return std::make_tuple(column(std::move(paths.offsets)), column(std::move(paths.arcs)),
                                  column(std::move(paths.load_ticks)));
        },
        "graph"_a.noconvert(), "src"_a.noconvert(), "dst"_a.noconvert(), "bytes"_a.noconvert(), "passes"_a,
        "batch"_a, "haste"_a, "seed"_a,
        "One path per demand, so that the busiest resource is as little busy as possible: offsets, arcs, load of each "
        "resource.");
}

void bind_list_schedule(nb::module_& m) {
    m.def(
        "list_schedule",
        [](std::int32_t num_resources, const Array1<std::int64_t>& resource_offsets,
           const Array1<std::int32_t>& resources, const Array1<std::int64_t>& overhead_ticks,
           const Array1<std::int64_t>& latency_ticks, const Array1<std::int32_t>& task_orbit,
           const Array1<std::int64_t>& task_ticks, const Array1<std::int64_t>& successor_offsets,
           const Array1<std::int32_t>& successors, const Array1<std::int64_t>& lateness, std::int32_t max_merge,
           std::int64_t patience_ticks, const Array1<std::int64_t>& full_ticks, std::int32_t rounds) {
            ListSchedule made;
            {
                const nb::gil_scoped_release nogil;
                const OrbitWork work{num_resources,
                                    as_csr(resource_offsets, resources),
                                    as_span(overhead_ticks),
                                    as_span(latency_ticks),
                                    as_span(task_orbit),
                                    as_span(task_ticks),
                                    as_csr(successor_offsets, successors)};
                require(lateness.size() == task_orbit.size(), "every task needs a lateness");
                for (const std::int64_t ticks : as_span(lateness)) {
                    require(ticks >= -(std::int64_t{1} << 62) && ticks <= std::int64_t{1} << 62, "lateness must be within 2^62");
                }
                std::vector<std::int64_t> priority = remaining_ticks(work);
                for (std::size_t task = 0; task < priority.size(); ++task) priority[task] -= lateness.data()[task];
                made = refine_schedule(work, priority, {max_merge, patience_ticks, as_span(full_ticks)}, rounds);
            }
            return std::make_tuple(column(std::move(made.start_ticks)), column(std::move(made.message)),
                                  made.makespan_ticks);
        },
        "num_resources"_a, "resource_offsets"_a.noconvert(), "resources"_a.noconvert(), "overhead_ticks"_a.noconvert(),
        "latency_ticks"_a.noconvert(), "task_orbit"_a.noconvert(), "task_ticks"_a.noconvert(),
        "successor_offsets"_a.noconvert(), "successors"_a.noconvert(), "lateness"_a.noconvert(), "max_merge"_a,
        "patience_ticks"_a, "full_ticks"_a.noconvert(), "rounds"_a,
        "Start and message of each task, and the makespan; what has most left to wait for it goes first, less its "
        "lateness, then the order is refined backwards and forwards.");
}

void bind_translate(nb::module_& m) {
    m.def(
        "translations",
        [](const Array2<std::int32_t>& generators, std::int32_t num_ranks) {
            std::vector<std::int32_t> images;
            const std::size_t nodes = generators.shape(1);
            {
                const nb::gil_scoped_release nogil;
                images = translations(as_span(generators), static_cast<std::int32_t>(nodes), num_ranks);
            }
            const std::size_t rows = images.size() / nodes;
            return table(std::move(images), rows, nodes);
        },
        "generators"_a.noconvert(), "num_ranks"_a,
        "Symmetries generated by permutations, row r moving rank 0 to rank r; no rows where some rank is not reached.");
    m.def(
        "grow",
        [](const Array2<std::int32_t>& next, std::int32_t num_resources, const Array1<std::int64_t>& resource_offsets,
           const Array1<std::int32_t>& resources, const Array1<std::int64_t>& orbit_ticks,
           const Array1<std::int64_t>& latency_ticks, std::int32_t num_chunks, std::uint64_t seed) {
            Growth growth;
            {
                const nb::gil_scoped_release nogil;
                const OrbitGraph graph{static_cast<std::int32_t>(next.shape(0)),
                                      as_span(next),
                                      num_resources,
                                      as_csr(resource_offsets, resources),
                                      as_span(orbit_ticks),
                                      as_span(latency_ticks)};
                growth = grow(graph, num_chunks, seed);
            }
            return std::make_tuple(column(std::move(growth.route)), column(std::move(growth.chunk)),
                                  column(std::move(growth.start_ticks)), growth.makespan_ticks);
        },
        "next"_a.noconvert(), "num_resources"_a, "resource_offsets"_a.noconvert(), "resources"_a.noconvert(),
        "orbit_ticks"_a.noconvert(), "latency_ticks"_a.noconvert(), "num_chunks"_a, "seed"_a,
        "One rank's share of an All-Gather that all ranks follow, moved by symmetries: routes, chunks, starts, makespan.");
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
