#include "interlock/validate/schedule_check.hpp"

#include <nanobind/stl/tuple.h>

#include <tuple>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interlock/validate/scratch.hpp"

namespace interlock::bindings {

using namespace nb::literals;

namespace {

using Bools = Array1<bool>;

using CheckColumns = std::tuple<Column<std::uint8_t>, Column<std::int64_t>, Column<std::int32_t>, Column<std::int32_t>,
                                Column<std::int64_t>, Column<std::int64_t>, std::int64_t, Column<std::int64_t>, bool>;
using SpanColumns = std::tuple<Column<std::int32_t>, Column<std::int32_t>, Column<std::int64_t>, Column<std::int64_t>,
                               Column<std::int32_t>, Column<std::int32_t>, Column<std::int64_t>>;

CheckColumns columns(Delivery&& checked) {
    Findings& found = checked.found;
    return {column(std::move(found.rule)),
            column(std::move(found.message)),
            column(std::move(found.rank)),
            column(std::move(found.item)),
            column(std::move(found.first_byte)),
            column(std::move(found.end_byte)),
            found.total,
            column(std::move(checked.scratch_bytes)),
            checked.used_fingerprints};
}

SpanColumns columns(ScratchSpans&& spans, std::int32_t num_ranks) {
    std::vector<std::int64_t> high_water = spans.high_water(num_ranks);
    return {column(std::move(spans.rank)),        column(std::move(spans.item)),
            column(std::move(spans.first_byte)),  column(std::move(spans.end_byte)),
            column(std::move(spans.first_stage)), column(std::move(spans.last_stage)),
            column(std::move(high_water))};
}

void bind_check(nb::module_& m) {
    m.def(
        "check_schedule",
        [](const I64& src_offsets, const I32& src, const I64& dst_offsets, const I32& dst, const U8& kind,
           const U8& phase, const I32& stage, const I32& slice, const I64& size_bytes, const I64& path_offsets,
           const I32& path, const Bools& exclusive, const I64& order, const I64& dep_offsets, const I32& deps,
           const I32& barriers, const I64& piece_offsets, const I32& piece_item, const I64& piece_offset,
           const I64& piece_length, const I64& item_bytes, const I64& contributor_offsets, const I32& contributors,
           const I64& destination_offsets, const I32& destinations, const I32& link_src, const I32& link_dst,
           const Bools& link_carries_data, const Bools& node_multicasts, const Bools& node_reduces,
           std::int32_t num_ranks, std::uint64_t seed) {
            const MessageTable messages{
                as_csr(src_offsets, src), as_csr(dst_offsets, dst), as_span(kind),       as_span(phase),
                as_span(stage),           as_span(slice),           as_span(size_bytes), as_csr(dep_offsets, deps),
                as_span(barriers)};
            const PieceTable pieces{as_span(piece_offsets), as_span(piece_item), as_span(piece_offset),
                                    as_span(piece_length)};
            const ItemTable items{as_span(item_bytes), as_csr(contributor_offsets, contributors),
                                  as_csr(destination_offsets, destinations), num_ranks};
            const LinkTable links{as_span(link_src),        as_span(link_dst),     as_span(link_carries_data),
                                  as_span(node_multicasts), as_span(node_reduces), num_ranks};
            require(num_ranks <= static_cast<std::int64_t>(links.num_nodes()), "every rank must be a node");
            return columns(without_gil([&] {
                return check_schedule(messages, as_csr(path_offsets, path), as_span(exclusive), as_span(order),
                                         pieces, items, links, seed);
            }));
        },
        "src_offsets"_exact, "src"_exact, "dst_offsets"_exact, "dst"_exact, "kind"_exact, "phase"_exact, "stage"_exact,
        "slice"_exact, "size_bytes"_exact, "path_offsets"_exact, "path"_exact, "exclusive"_exact, "order"_exact,
        "dep_offsets"_exact, "deps"_exact, "barriers"_exact, "piece_offsets"_exact, "piece_item"_exact,
        "piece_offset"_exact, "piece_length"_exact, "item_bytes"_exact, "contributor_offsets"_exact,
        "contributors"_exact, "destination_offsets"_exact, "destinations"_exact, "link_src"_exact, "link_dst"_exact,
        "link_carries_data"_exact, "node_multicasts"_exact, "node_reduces"_exact, "num_ranks"_a, "seed"_a,
        "Execute a schedule symbolically and list broken rules.\n\n"
        "Returns rule, message, rank, item, first_byte, end_byte (the first hundred findings; -1 is none), the number "
        "of all\n"
        "findings, scratch high-water marks by rank, and whether sums were followed as fingerprints.");
}

void bind_scratch(nb::module_& m) {
    m.def(
        "scratch_spans",
        [](const I64& src_offsets, const I32& src, const I64& dst_offsets, const I32& dst, const I32& stage,
           const I64& piece_offsets, const I32& piece_item, const I64& piece_offset, const I64& piece_length,
           const I64& item_bytes, const I64& contributor_offsets, const I32& contributors,
           const I64& destination_offsets, const I32& destinations, std::int32_t num_ranks) {
            auto spans = without_gil([&] {
                const CarrierTable carriers{as_csr(src_offsets, src), as_csr(dst_offsets, dst), as_span(stage)};
                const PieceTable pieces{as_span(piece_offsets), as_span(piece_item), as_span(piece_offset),
                                        as_span(piece_length)};
                const ItemTable items{as_span(item_bytes), as_csr(contributor_offsets, contributors),
                                      as_csr(destination_offsets, destinations), num_ranks};
                return scratch_spans(carriers, pieces, items);
            });
            return columns(std::move(spans), num_ranks);
        },
        "src_offsets"_exact, "src"_exact, "dst_offsets"_exact, "dst"_exact, "stage"_exact, "piece_offsets"_exact,
        "piece_item"_exact, "piece_offset"_exact, "piece_length"_exact, "item_bytes"_exact, "contributor_offsets"_exact,
        "contributors"_exact, "destination_offsets"_exact, "destinations"_exact, "num_ranks"_a,
        "Where bytes wait on the way: rank, item, first_byte, end_byte, first_stage, last_stage of each span, and the\n"
        "high-water mark of each rank.");
}

}  // namespace

void bind_schedule_check(nb::module_& m) {
    bind_check(m);
    bind_scratch(m);
}

}  // namespace interlock::bindings
