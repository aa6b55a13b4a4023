#pragma once

#include <nanobind/stl/tuple.h>

#include "arrays.hpp"
#include "interlock/schedule/schedule_rows.hpp"

namespace interlock::bindings {

/// In the order in which `interlock.schedule.from_native` takes them.
inline auto to_columns(ScheduleRows&& rows) {
    return std::make_tuple(column(std::move(rows.src)), column(std::move(rows.dst)), column(std::move(rows.phase)),
                           column(std::move(rows.stage)), column(std::move(rows.slice)),
                           column(std::move(rows.size_bytes)), column(std::move(rows.order)),
                           column(std::move(rows.dep_offsets)), column(std::move(rows.deps)),
                           column(std::move(rows.piece_offsets)), column(std::move(rows.item)),
                           column(std::move(rows.offset)), column(std::move(rows.length)));
}

}  // namespace interlock::bindings
