#include <nanobind/stl/tuple.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interlock/two_tier/aligned_cuts.hpp"
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
        [](std::int32_t rank, const Array1<std::int64_t>& src_offsets, const Array1<std::int32_t>& src,
           const Array1<std::int64_t>& dst_offsets, const Array1<std::int32_t>& dst, const Array1<std::uint8_t>& kind,
           const Array1<std::uint8_t>& phase, const Array1<std::int32_t>& stage, const Array1<std::int64_t>& size_bytes,
           const Array1<std::uint8_t>& exclusive, const Array1<std::int64_t>& order, const Array1<std::int64_t>& round,
           const Array1<std::int64_t>& dep_offsets, const Array1<std::int32_t>& deps,
           const Array1<std::int64_t>& piece_offsets, const Array1<std::int32_t>& item, const Array1<std::int64_t>& offset,
           const Array1<std::int64_t>& length, const Array1<std::int32_t>& barriers, const Array1<std::int64_t>& item_bytes,
           const Array2<std::int64_t>& input, const Array2<std::int64_t>& output, const Array1<std::int64_t>& own) {
            RankProgram made;
            {
                const nb::gil_scoped_release nogil;
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
                made = lower(part_of_rank(table, rank), layout, as_span(item_bytes), as_span(barriers));
            }
            return program_columns(std::move(made));
        },
        "rank"_a, "src_offsets"_a.noconvert(), "src"_a.noconvert(), "dst_offsets"_a.noconvert(), "dst"_a.noconvert(),
        "kind"_a.noconvert(), "phase"_a.noconvert(), "stage"_a.noconvert(), "size_bytes"_a.noconvert(),
        "exclusive"_a.noconvert(), "order"_a.noconvert(), "round"_a.noconvert(), "dep_offsets"_a.noconvert(),
        "deps"_a.noconvert(), "piece_offsets"_a.noconvert(), "item"_a.noconvert(), "offset"_a.noconvert(),
        "length"_a.noconvert(), "barriers"_a.noconvert(), "item_bytes"_a.noconvert(), "input"_a.noconvert(),
        "output"_a.noconvert(), "own"_a.noconvert(),
        "What one rank runs of a schedule: its 64-bit columns end to end and where each ends, the same of its 32-bit and 8-bit "
        "columns, and bytes of scratch. `item_bytes` is empty where items are only copied.");
    m.def(
        "align_cuts",
        [](const Array1<std::int64_t>& piece_offsets, const Array1<std::int64_t>& size_bytes, const Array1<std::int32_t>& item,
           const Array1<std::int64_t>& offset, const Array1<std::int64_t>& length, std::int64_t align) {
            const auto copied = [](std::span<const std::int64_t> values) { return std::vector(values.begin(), values.end()); };
            auto sizes = copied(as_span(size_bytes)), offsets = copied(as_span(offset)), lengths = copied(as_span(length));
            {
                const nb::gil_scoped_release nogil;
                as_csr(piece_offsets, item).check(sizes.size(), "pieces");
                align_cuts({as_span(piece_offsets), sizes, as_span(item), offsets, lengths}, align);
            }
            return std::make_tuple(column(std::move(sizes)), column(std::move(offsets)), column(std::move(lengths)));
        },
        "piece_offsets"_a.noconvert(), "size_bytes"_a.noconvert(), "item"_a.noconvert(), "offset"_a.noconvert(),
        "length"_a.noconvert(), "align"_a,
        "Sizes of messages, and offsets and lengths of pieces, with every cut of an item moved to a multiple of `align` or 16 "
        "bytes, unless a part would become empty.");
}

}  // namespace interlock::bindings
