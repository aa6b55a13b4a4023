#include <nanobind/stl/tuple.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interlock/schedule/aligned_cuts.hpp"
#include "program_columns.hpp"

namespace interlock::bindings {

using namespace nb::literals;

namespace {

std::vector<PlacedItem> placed(const Array2<std::int64_t>& table) {
    require(table.shape(1) == 3, "items of a buffer must be [n, 3]: item, start, length");
    std::vector<PlacedItem> items;
    items.reserve(table.shape(0));
    for (std::size_t row = 0; row < table.shape(0); ++row) {
        const std::int64_t* at = table.data() + 3 * row;
        require(items.empty() || items.back().item < at[0], "items of a buffer must ascend");
        items.push_back({at[0], at[1], at[2]});
    }
    return items;
}

}  // namespace

void bind_program(nb::module_& m) {
    m.def(
        "lower_schedule",
        [](std::int32_t rank, const I64& src_offsets, const I32& src, const I64& dst_offsets, const I32& dst,
           const U8& kind, const U8& phase, const I32& stage, const I64& size_bytes, const U8& exclusive,
           const I64& order, const I64& round, const I64& dep_offsets, const I32& deps, const I64& piece_offsets,
           const I32& item, const I64& offset, const I64& length, const I32& barriers, const I64& item_bytes,
           const Array2<std::int64_t>& input, const Array2<std::int64_t>& output, const I64& own) {
            return program_columns(without_gil([&] {
                const ScheduleTableRows table{as_csr(src_offsets, src),
                                              as_csr(dst_offsets, dst),
                                              as_span(kind),
                                              as_span(phase),
                                              as_span(stage),
                                              as_span(size_bytes),
                                              as_span(exclusive),
                                              as_span(order),
                                              as_span(round),
                                              as_csr(dep_offsets, deps),
                                              as_span(piece_offsets),
                                              as_span(item),
                                              as_span(offset),
                                              as_span(length)};
                table.check();
                require(own.size() == 3, "bytes that stay must be 3 numbers: from, to, length");
                const RankLayout layout{placed(input), placed(output), own.data()[0], own.data()[1], own.data()[2]};
                return lower(part_of_rank(table, rank), layout, as_span(item_bytes), as_span(barriers));
            }));
        },
        "rank"_a, "src_offsets"_exact, "src"_exact, "dst_offsets"_exact, "dst"_exact, "kind"_exact, "phase"_exact,
        "stage"_exact, "size_bytes"_exact, "exclusive"_exact, "order"_exact, "round"_exact, "dep_offsets"_exact,
        "deps"_exact, "piece_offsets"_exact, "item"_exact, "offset"_exact, "length"_exact, "barriers"_exact,
        "item_bytes"_exact, "input"_exact, "output"_exact, "own"_exact,
        "What one rank runs of a schedule: its columns by name, and bytes of input, output and scratch. `item_bytes` "
        "is empty "
        "where items are only copied.");
    m.def(
        "align_cuts",
        [](const I64& piece_offsets, const I64& size_bytes, const I32& item, const I64& offset, const I64& length,
           std::int64_t align) {
            const auto copied = [](std::span<const std::int64_t> values) {
                return std::vector(values.begin(), values.end());
            };
            auto sizes = copied(as_span(size_bytes)), offsets = copied(as_span(offset)),
                 lengths = copied(as_span(length));
            {
                const nb::gil_scoped_release nogil;
                as_csr(piece_offsets, item).check(sizes.size(), "pieces");
                align_cuts({as_span(piece_offsets), sizes, as_span(item), offsets, lengths}, align);
            }
            return std::make_tuple(column(std::move(sizes)), column(std::move(offsets)), column(std::move(lengths)));
        },
        "piece_offsets"_exact, "size_bytes"_exact, "item"_exact, "offset"_exact, "length"_exact, "align"_a,
        "Sizes of messages, and offsets and lengths of pieces, with every cut of an item moved to a multiple of "
        "`align` or 16 "
        "bytes, unless a part would become empty.");
}

}  // namespace interlock::bindings
