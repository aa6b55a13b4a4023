#pragma once

#include <nanobind/stl/tuple.h>

#include <array>
#include <cstddef>

#include "arrays.hpp"
#include "interlock/errors.hpp"
#include "interlock/schedule/rank_program.hpp"

namespace interlock::bindings {

/// Names by dtype, in the order in which `RankProgram` joins them.
inline constexpr std::array kWideColumns = {
    "send_bytes",  "send_start",   "receive_bytes", "receive_start", "pack_start", "pack_to",
    "pack_bytes",  "unpack_start", "unpack_to",     "unpack_bytes",  "start_from", "start_to",
    "start_bytes", "zero_start",   "zero_bytes",    "own_from",      "own_to",     "own_bytes"};
inline constexpr std::array kNarrowColumns = {"send_peer",     "send_tag",        "send_stage",     "send_round",
                                              "receive_peer",  "receive_tag",     "receive_stage",  "receive_round",
                                              "receive_place", "pack_offsets",    "unpack_offsets", "wait_offsets",
                                              "wait_on",       "release_offsets", "release_to"};
inline constexpr std::array kByteColumns = {"send_buffer",  "send_phase",     "receive_buffer", "receive_phase",
                                            "receive_adds", "receive_queued", "pack_buffer",    "unpack_buffer",
                                            "start_buffer", "zero_buffer"};

/// Adds columns that lie end to end, as slices of one array: made here, each takes a third of what it takes in Python.
template <typename T, std::size_t N>
void add_columns(const nb::dict& into, JoinedColumns<T>&& joined, const std::array<const char*, N>& names) {
    static const std::array<PyObject*, N> keys = [&] {  // kept to the end: every program has the same
        std::array<PyObject*, N> made;
        for (std::size_t n = 0; n < N; ++n) made[n] = PyUnicode_InternFromString(names[n]);
        return made;
    }();
    require(joined.ends.size() == N, "columns and names must be as many");
    const nb::object values = nb::cast(column(std::move(joined.values)));
    nb::object empty;  // one for all that are
    std::int64_t first = 0;
    for (std::size_t n = 0; n < N; ++n) {
        const std::int64_t last = joined.ends[n];
        nb::object made =
            first == last && empty.is_valid() ? empty : nb::steal(PySequence_GetSlice(values.ptr(), first, last));
        if (!made.is_valid() || PyDict_SetItem(into.ptr(), keys[n], made.ptr()) != 0) throw nb::python_error();
        if (first == last) empty = std::move(made);
        first = last;
    }
}

using NamedColumns = nb::typed<nb::dict, nb::str, nb::object>;

/// Columns by name; then bytes of input, output and scratch.
inline auto program_columns(RankProgram&& made) {
    NamedColumns columns;
    add_columns(columns, std::move(made.wide), kWideColumns);
    add_columns(columns, std::move(made.narrow), kNarrowColumns);
    add_columns(columns, std::move(made.bytes), kByteColumns);
    return std::make_tuple(std::move(columns),
                           std::make_tuple(made.input_bytes, made.output_bytes, made.scratch_bytes));
}

}  // namespace interlock::bindings
