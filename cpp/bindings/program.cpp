#include <nanobind/stl/tuple.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interlock/rank_program.hpp"

namespace interlock::bindings {

using namespace nb::literals;

namespace {

/// Columns of one dtype end to end: one array crosses the boundary instead of many.
template <typename T>
class Joined {
public:
    void add(const std::vector<T>& values) {
        values_.insert(values_.end(), values.begin(), values.end());
        ends_.push_back(static_cast<std::int64_t>(values_.size()));
    }
    auto columns() { return std::make_tuple(column(std::move(values_)), column(std::move(ends_))); }

private:
    std::vector<T> values_;
    std::vector<std::int64_t> ends_;
};

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

/// In the order of `interlock.runtime.program`.
auto to_columns(RankProgram&& made) {
    Joined<std::int64_t> wide;
    for (const auto* values :
         {&made.send_bytes, &made.send_start, &made.receive_bytes, &made.receive_start, &made.pack_start, &made.pack_to,
          &made.pack_bytes, &made.unpack_start, &made.unpack_to, &made.unpack_bytes, &made.start_from, &made.start_to,
          &made.start_bytes, &made.zero_start, &made.zero_bytes, &made.own_from, &made.own_to, &made.own_bytes}) {
        wide.add(*values);
    }
    Joined<std::int32_t> narrow;
    for (const auto* values :
         {&made.send_peer, &made.send_tag, &made.send_stage, &made.send_round, &made.receive_peer, &made.receive_tag,
          &made.receive_stage, &made.receive_round, &made.receive_place, &made.pack_offsets, &made.unpack_offsets, &made.wait_offsets, &made.wait_on,
          &made.release_offsets, &made.release_to}) {
        narrow.add(*values);
    }
    Joined<std::uint8_t> bytes;
    for (const auto* values : {&made.send_buffer, &made.send_phase, &made.receive_buffer, &made.receive_phase,
                               &made.receive_adds, &made.receive_queued, &made.pack_buffer, &made.unpack_buffer,
                               &made.start_buffer, &made.zero_buffer}) {
        bytes.add(*values);
    }
    return std::make_tuple(wide.columns(), narrow.columns(), bytes.columns(), made.scratch_bytes);
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
                made = lower(rows_of_rank(table, rank, true), rows_of_rank(table, rank, false), layout, as_span(item_bytes),
                             as_span(barriers));
            }
            return to_columns(std::move(made));
        },
        "rank"_a, "src_offsets"_a.noconvert(), "src"_a.noconvert(), "dst_offsets"_a.noconvert(), "dst"_a.noconvert(),
        "kind"_a.noconvert(), "phase"_a.noconvert(), "stage"_a.noconvert(), "size_bytes"_a.noconvert(),
        "exclusive"_a.noconvert(), "order"_a.noconvert(), "round"_a.noconvert(), "dep_offsets"_a.noconvert(),
        "deps"_a.noconvert(), "piece_offsets"_a.noconvert(), "item"_a.noconvert(), "offset"_a.noconvert(),
        "length"_a.noconvert(), "barriers"_a.noconvert(), "item_bytes"_a.noconvert(), "input"_a.noconvert(),
        "output"_a.noconvert(), "own"_a.noconvert(),
        "What one rank runs of a schedule: its 64-bit columns end to end and where each ends, the same of its 32-bit and 8-bit "
        "columns, and bytes of scratch. `item_bytes` is empty where items are only copied.");
}

}  // namespace interlock::bindings
