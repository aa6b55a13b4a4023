#include "interlock/simulate/step_ledger.hpp"

#include "arrays.hpp"
#include "bindings.hpp"

namespace interlock::bindings {

using namespace nb::literals;

void bind_step_ledger(nb::module_& m) {
    m.def(
        "step_makespan_s",
        [](const Array2<double>& work_s, const Array1<double>& seconds, const Array1<double>& ready_s,
           const Array1<std::int32_t>& level, const Array1<std::int64_t>& after_offsets,
           const Array1<std::int32_t>& after) {
            const nb::gil_scoped_release nogil;
            return step_makespan_s({as_span(work_s), as_span(seconds), as_span(ready_s), as_span(level),
                                    as_csr(after_offsets, after)});
        },
        "work_s"_a.noconvert(), "seconds"_a.noconvert(), "ready_s"_a.noconvert(), "level"_a.noconvert(),
        "after_offsets"_a.noconvert(), "after"_a.noconvert(),
        "When all tasks of a step have ended, by the work [channels, tasks] of its channels alone.");
}

}  // namespace interlock::bindings
