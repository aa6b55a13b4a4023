#include "interlock/synthesis/cuts.hpp"

#include <nanobind/stl/pair.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interlock/synthesis/lengths.hpp"
#include "interlock/synthesis/shortest.hpp"
#include "interlock/synthesis/sum_lengths.hpp"

namespace interlock::bindings {

using namespace nb::literals;

namespace {

Arcs as_arcs(std::int32_t num_nodes, const Array1<std::int32_t>& src, const Array1<std::int32_t>& dst,
             const Array1<std::int64_t>& capacity) {
    return {num_nodes, as_span(src), as_span(dst), as_span(capacity)};
}

std::pair<std::int64_t, Column<std::uint8_t>> as_pair(Cut&& cut) {
    return {cut.value, column(std::move(cut.source_side))};
}

}  // namespace

void bind_cuts(nb::module_& m) {
    m.def(
        "narrowest_cut_between",
        [](std::int32_t num_nodes, const Array1<std::int32_t>& src, const Array1<std::int32_t>& dst,
           const Array1<std::int64_t>& capacity, std::int32_t source, std::int32_t sink) {
            Cut cut;
            {
                const nb::gil_scoped_release nogil;
                cut = narrowest_cut_between(as_arcs(num_nodes, src, dst, capacity), source, sink);
            }
            return as_pair(std::move(cut));
        },
        "num_nodes"_a, "src"_a.noconvert(), "dst"_a.noconvert(), "capacity"_a.noconvert(), "source"_a, "sink"_a,
        "Capacity and source side of the narrowest cut between two nodes.");
    m.def(
        "narrowest_cut_from",
        [](std::int32_t num_nodes, const Array1<std::int32_t>& src, const Array1<std::int32_t>& dst,
           const Array1<std::int64_t>& capacity, std::int32_t source) {
            Cut cut;
            {
                const nb::gil_scoped_release nogil;
                cut = narrowest_cut_from(as_arcs(num_nodes, src, dst, capacity), source);
            }
            return as_pair(std::move(cut));
        },
        "num_nodes"_a, "src"_a.noconvert(), "dst"_a.noconvert(), "capacity"_a.noconvert(), "source"_a,
        "Capacity and source side of the narrowest cut between a node and any other.");
    m.def(
        "cheapest_partition",
        [](std::int32_t num_nodes, const Array1<std::int32_t>& src, const Array1<std::int32_t>& dst,
           const Array1<std::int64_t>& capacity, std::int64_t price) {
            std::vector<std::int32_t> block;
            {
                const nb::gil_scoped_release nogil;
                block = cheapest_partition(as_arcs(num_nodes, src, dst, capacity), price);
            }
            return column(std::move(block));
        },
        "num_nodes"_a, "src"_a.noconvert(), "dst"_a.noconvert(), "capacity"_a.noconvert(), "price"_a,
        "Block of each node in the partition with the least capacity between blocks - price * number of blocks.");
    m.def(
        "shortest_distances",
        [](std::int32_t num_nodes, const Array1<std::int32_t>& src, const Array1<std::int32_t>& dst,
           const Array1<double>& cost, const Array1<std::int32_t>& sources) {
            std::vector<double> distance;
            {
                const nb::gil_scoped_release nogil;
                distance = shortest_distances(num_nodes, as_span(src), as_span(dst), as_span(cost), as_span(sources));
            }
            return table(std::move(distance), sources.size(), static_cast<std::size_t>(num_nodes));
        },
        "num_nodes"_a, "src"_a.noconvert(), "dst"_a.noconvert(), "cost"_a.noconvert(), "sources"_a.noconvert(),
        "Least cost from each source to each node, [num_sources, num_nodes].");
    m.def(
        "crowded_lengths",
        [](std::int32_t num_nodes, const Array1<std::int32_t>& src, const Array1<std::int32_t>& dst,
           const Array1<double>& rate, const Array2<double>& bytes, std::int32_t rounds) {
            std::vector<double> length;
            {
                const nb::gil_scoped_release nogil;
                length = crowded_lengths({num_nodes, as_span(src), as_span(dst), as_span(rate), as_span(bytes)}, rounds);
            }
            return column(std::move(length));
        },
        "num_nodes"_a, "src"_a.noconvert(), "dst"_a.noconvert(), "rate"_a.noconvert(), "bytes"_a.noconvert(),
        "rounds"_a, "Lengths of links under which (bytes * distance) / (rate * length) is large.");
    m.def(
        "crowded_sum",
        [](std::int32_t num_nodes, const Array1<std::int32_t>& src, const Array1<std::int32_t>& dst,
           const Array1<double>& rate, const Array1<std::int32_t>& channel, std::int32_t num_channels,
           double known, std::int32_t rounds) {
            SumBound bound;
            {
                const nb::gil_scoped_release nogil;
                const SumNetwork network{num_nodes,    num_channels,  as_span(src),
                                         as_span(dst), as_span(rate), as_span(channel)};
                bound = crowded_sum(network, known, rounds);
            }
            return std::pair(bound.seconds_per_byte, column(std::move(bound.share)));
        },
        "num_nodes"_a, "src"_a.noconvert(), "dst"_a.noconvert(), "rate"_a.noconvert(), "channel"_a.noconvert(),
        "num_channels"_a, "known"_a, "rounds"_a,
        "Least seconds per byte of a sum that all nodes need, and the share of each channel in the proof.");
}

}  // namespace interlock::bindings
