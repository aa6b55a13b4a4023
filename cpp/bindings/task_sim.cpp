#include "interlock/simulate/task_sim.hpp"

#include <nanobind/stl/tuple.h>

#include <tuple>

#include "arrays.hpp"
#include "bindings.hpp"

namespace interlock::bindings {

using namespace nb::literals;

void bind_task_sim(nb::module_& m) {
    m.def(
        "run_tasks",
        [](const Array1<std::int32_t>& resource, const Array1<double>& duration_s, const Array1<double>& delay_s,
           const Array1<std::int64_t>& priority, const Array1<std::int64_t>& dep_offsets, const Array1<std::int32_t>& deps,
           const Array1<std::int32_t>& capacity) {
            TaskTimes times;
            {
                const nb::gil_scoped_release nogil;
                times = run_tasks({as_span(resource), as_span(duration_s), as_span(delay_s), as_span(priority),
                                   as_csr(dep_offsets, deps), as_span(capacity)});
            }
            return std::make_tuple(column(std::move(times.start_s)), column(std::move(times.finish_s)),
                                  column(std::move(times.busy_s)), times.makespan_s);
        },
        "resource"_a.noconvert(), "duration_s"_a.noconvert(), "delay_s"_a.noconvert(), "priority"_a.noconvert(),
        "dep_offsets"_a.noconvert(), "deps"_a.noconvert(), "capacity"_a.noconvert(),
        "Run a graph of tasks on resources with places: (start_s, finish_s, busy_s by resource, makespan_s).");
}

}  // namespace interlock::bindings
