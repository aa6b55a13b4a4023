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
        [](const Array1<std::int64_t>& dep_offsets, const Array1<std::int32_t>& deps, const Array1<std::int32_t>& task,
           const Array1<double>& seconds, const Array1<std::int64_t>& after_offsets, const Array1<std::int32_t>& after) {
            StepOrder order;
            {
                const nb::gil_scoped_release nogil;
                order = check_step_order(
                    {as_csr(dep_offsets, deps), as_span(task), as_span(seconds), as_csr(after_offsets, after)});
            }
            return std::make_tuple(column(std::move(order.too_early)), column(std::move(order.too_early_task)),
                                   column(std::move(order.earliest_s)), order.is_cyclic);
        },
        "dep_offsets"_a.noconvert(), "deps"_a.noconvert(), "task"_a.noconvert(), "seconds"_a.noconvert(),
        "after_offsets"_a.noconvert(), "after"_a.noconvert(),
        "Rows that may start before a task theirs is after has ended: (row, task, earliest_s of every row, is_cyclic).");
}

}  // namespace interlock::bindings
