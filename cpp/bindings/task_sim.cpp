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
        [](const I32& resource, const F64& duration_s, const F64& delay_s, const I64& priority, const I64& dep_offsets,
           const I32& deps, const I32& capacity) {
            auto times = without_gil([&] {
                return run_tasks({as_span(resource), as_span(duration_s), as_span(delay_s), as_span(priority),
                                   as_csr(dep_offsets, deps), as_span(capacity)});
            });
            return std::make_tuple(column(std::move(times.start_s)), column(std::move(times.finish_s)),
                                  column(std::move(times.busy_s)), times.makespan_s);
        },
        "resource"_exact, "duration_s"_exact, "delay_s"_exact, "priority"_exact, "dep_offsets"_exact, "deps"_exact,
        "capacity"_exact,
        "Run a graph of tasks on resources with places: (start_s, finish_s, busy_s by resource, makespan_s).");
}

}  // namespace interlock::bindings
