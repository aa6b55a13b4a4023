#pragma once

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "interlock/rank_program.hpp"

namespace interlock::bindings {

/// Columns of one dtype end to end: one array crosses the boundary instead of many.
template <typename T>
class Joined {
public:
    explicit Joined(std::initializer_list<const std::vector<T>*> columns) {
        std::size_t count = 0;
        for (const auto* values : columns) count += values->size();
        values_.reserve(count);
        ends_.reserve(columns.size());
        for (const auto* values : columns) add(*values);
    }
    auto columns() { return std::make_tuple(column(std::move(values_)), std::move(ends_)); }

private:
    void add(const std::vector<T>& values) {
        values_.insert(values_.end(), values.begin(), values.end());
        ends_.push_back(static_cast<std::int64_t>(values_.size()));
    }
    std::vector<T> values_;
    std::vector<std::int64_t> ends_;
};

/// In the order of `interlock.schedule.program`, by dtype; then bytes of input, output and scratch.
inline auto program_columns(RankProgram&& made) {
    Joined<std::int64_t> wide{&made.send_bytes,  &made.send_start,   &made.receive_bytes, &made.receive_start, &made.pack_start,
                              &made.pack_to,     &made.pack_bytes,   &made.unpack_start,  &made.unpack_to,     &made.unpack_bytes,
                              &made.start_from,  &made.start_to,     &made.start_bytes,   &made.zero_start,    &made.zero_bytes,
                              &made.own_from,    &made.own_to,       &made.own_bytes};
    Joined<std::int32_t> narrow{&made.send_peer,     &made.send_tag,      &made.send_stage,      &made.send_round,
                                &made.receive_peer,  &made.receive_tag,   &made.receive_stage,   &made.receive_round,
                                &made.receive_place, &made.pack_offsets,  &made.unpack_offsets,  &made.wait_offsets,
                                &made.wait_on,       &made.release_offsets, &made.release_to};
    Joined<std::uint8_t> bytes{&made.send_buffer,  &made.send_phase,     &made.receive_buffer, &made.receive_phase,
                               &made.receive_adds, &made.receive_queued, &made.pack_buffer,    &made.unpack_buffer,
                               &made.start_buffer, &made.zero_buffer};
    return std::make_tuple(wide.columns(), narrow.columns(), bytes.columns(),
                           std::make_tuple(made.input_bytes, made.output_bytes, made.scratch_bytes));
}

}  // namespace interlock::bindings
