#pragma once

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "interlock/schedule/rank_program.hpp"

namespace interlock::bindings {

/// By dtype, as `interlock.schedule.program` takes them apart; then bytes of input, output and scratch.
inline auto program_columns(RankProgram&& made) {
    const auto of = [](auto&& joined) { return std::make_tuple(column(std::move(joined.values)), std::move(joined.ends)); };
    return std::make_tuple(of(std::move(made.wide)), of(std::move(made.narrow)), of(std::move(made.bytes)),
                           std::make_tuple(made.input_bytes, made.output_bytes, made.scratch_bytes));
}

}  // namespace interlock::bindings
