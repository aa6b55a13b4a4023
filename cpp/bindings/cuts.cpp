#include "interlock/synthesis/cuts.hpp"

#include <nanobind/stl/pair.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interlock/synthesis/lengths.hpp"
#include "interlock/synthesis/shortest_tree.hpp"
#include "interlock/synthesis/sum_lengths.hpp"

namespace interlock::bindings {

using namespace nb::literals;

namespace {

Arcs as_arcs(std::int32_t num_nodes, const I32& src, const I32& dst, const I64& capacity) {
    return {num_nodes, as_span(src), as_span(dst), as_span(capacity)};
}

std::pair<std::int64_t, Column<std::uint8_t>> as_pair(Cut&& cut) {
    return {cut.value, column(std::move(cut.source_side))};
}

}  // namespace

void bind_cuts(nb::module_& m) {
    m.def(
        "narrowest_cut_between",
        [](std::int32_t num_nodes, const I32& src, const I32& dst, const I64& capacity, std::int32_t source,
           std::int32_t sink) {
            return as_pair(without_gil([&] {
                return narrowest_cut_between(as_arcs(num_nodes, src, dst, capacity), source, sink);
            }));
        },
        "num_nodes"_a, "src"_exact, "dst"_exact, "capacity"_exact, "source"_a, "sink"_a,
        "Capacity and source side of the narrowest cut between two nodes.");
    m.def(
        "narrowest_cut_from",
        [](std::int32_t num_nodes, const I32& src, const I32& dst, const I64& capacity, std::int32_t source) {
            return as_pair(
                without_gil([&] { return narrowest_cut_from(as_arcs(num_nodes, src, dst, capacity), source); }));
        },
        "num_nodes"_a, "src"_exact, "dst"_exact, "capacity"_exact, "source"_a,
        "Capacity and source side of the narrowest cut between a node and any other.");
    m.def(
        "cheapest_partition",
        [](std::int32_t num_nodes, const I32& src, const I32& dst, const I64& capacity, std::int64_t price) {
            return column(
                without_gil([&] { return cheapest_partition(as_arcs(num_nodes, src, dst, capacity), price); }));
        },
        "num_nodes"_a, "src"_exact, "dst"_exact, "capacity"_exact, "price"_a,
        "Block of each node in the partition with the least capacity between blocks - price * number of blocks.");
    m.def(
        "shortest_distances",
        [](std::int32_t num_nodes, const I32& src, const I32& dst, const F64& cost, const I32& sources) {
            auto distance = without_gil([&] {
                return shortest_distances(num_nodes, as_span(src), as_span(dst), as_span(cost), as_span(sources));
            });
            return table(std::move(distance), sources.size(), static_cast<std::size_t>(num_nodes));
        },
        "num_nodes"_a, "src"_exact, "dst"_exact, "cost"_exact, "sources"_exact,
        "Least cost from each source to each node, [num_sources, num_nodes].");
    m.def(
        "crowded_lengths",
        [](std::int32_t num_nodes, const I32& src, const I32& dst, const F64& rate, const Array2<double>& bytes,
           std::int32_t rounds) {
            return column(without_gil([&] {
                return crowded_lengths({num_nodes, as_span(src), as_span(dst), as_span(rate), as_span(bytes)}, rounds);
            }));
        },
        "num_nodes"_a, "src"_exact, "dst"_exact, "rate"_exact, "bytes"_exact, "rounds"_a,
        "Lengths of links under which (bytes * distance) / (rate * length) is large.");
    m.def(
        "crowded_sum",
        [](std::int32_t num_nodes, const I32& src, const I32& dst, const F64& rate, const I32& channel,
           std::int32_t num_channels, double known, std::int32_t rounds) {
            auto bound = without_gil([&] {
                const SumNetwork network{num_nodes,    num_channels,  as_span(src),
                                         as_span(dst), as_span(rate), as_span(channel)};
                return crowded_sum(network, known, rounds);
            });
            return std::pair(bound.seconds_per_byte, column(std::move(bound.share)));
        },
        "num_nodes"_a, "src"_exact, "dst"_exact, "rate"_exact, "channel"_exact, "num_channels"_a, "known"_a, "rounds"_a,
        "Least seconds per byte of a sum that all nodes need, and the share of each channel in the proof.");
}

}  // namespace interlock::bindings
