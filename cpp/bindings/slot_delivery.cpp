#include "interlock/validate/slot_delivery.hpp"

#include <nanobind/stl/tuple.h>

#include <tuple>

#include "arrays.hpp"
#include "bindings.hpp"

namespace interlock::bindings {

using namespace nb::literals;

namespace {

template <typename Chunk>
void bind_table(nb::module_& m) {
    m.def(
        "check_slot_table",
        [](const Array2<Chunk>& table, const I32& origin, const I64& destination_offsets, const I32& destinations,
           const I32& link_src, const I32& link_dst, std::int32_t num_nodes, bool is_reversed) {
            const ChunkGoal goal{as_span(origin), as_csr(destination_offsets, destinations), as_span(link_src),
                                 as_span(link_dst), num_nodes};
            require(table.shape(1) == link_src.size(), "the table must have one column per link");
            auto [found, num_transfers] =
                without_gil([&] { return check_slot_table<Chunk>(as_span(table), goal, is_reversed); });
            return std::tuple(column(std::move(found.rule)), column(std::move(found.message)),
                              column(std::move(found.rank)), column(std::move(found.item)), found.total, num_transfers);
        },
        "table"_exact, "origin"_exact, "destination_offsets"_exact, "destinations"_exact, "link_src"_exact,
        "link_dst"_exact, "num_nodes"_a, "is_reversed"_a,
        "Check a table of chunks by slot and link. Returns rule, place in the table, node, chunk, the number of "
        "findings\n"
        "and the number of transfers.");
    m.def(
        "slot_table_roots",
        [](const Array2<Chunk>& table, const I32& link_src, std::size_t num_chunks, std::int32_t num_ranks) {
            require(table.shape(1) == link_src.size(), "the table must have one column per link");
            return column(without_gil([&] {
                return slot_table_roots<Chunk>(as_span(table), as_span(link_src), num_chunks, num_ranks);
            }));
        },
        "table"_exact, "link_src"_exact, "num_chunks"_a, "num_ranks"_a,
        "The rank at which the sum of each chunk ends, if all contribute: the one that never sends it; -1 if none.");
}

}  // namespace

void bind_slot_delivery(nb::module_& m) {
    bind_table<std::uint16_t>(m);
    bind_table<std::uint32_t>(m);
}

}  // namespace interlock::bindings
