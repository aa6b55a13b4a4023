#include "interlock/schedule/step_order.hpp"

#include <nanobind/stl/tuple.h>

#include <tuple>
#include <utility>

#include "arrays.hpp"
#include "bindings.hpp"

namespace interlock::bindings {

using namespace nb::literals;

void bind_step_order(nb::module_& m) {
    m.def(
        "check_step_order",
        [](const I64& dep_offsets, const I32& deps, const I32& task, const F64& seconds, const I64& after_offsets,
           const I32& after) {
            auto order = without_gil([&] {
                return check_step_order(
                    {as_csr(dep_offsets, deps), as_span(task), as_span(seconds), as_csr(after_offsets, after)});
            });
            return std::make_tuple(column(std::move(order.too_early)), column(std::move(order.too_early_task)),
                                   column(std::move(order.earliest_s)), order.is_cyclic);
        },
        "dep_offsets"_exact, "deps"_exact, "task"_exact, "seconds"_exact, "after_offsets"_exact, "after"_exact,
        "Rows that may start before a task theirs is after has ended: (row, task, earliest_s of every row, "
        "is_cyclic).");
}

}  // namespace interlock::bindings
