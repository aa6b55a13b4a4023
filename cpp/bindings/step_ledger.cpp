#include "interlock/simulate/step_ledger.hpp"

#include "arrays.hpp"
#include "bindings.hpp"

namespace interlock::bindings {

using namespace nb::literals;

void bind_step_ledger(nb::module_& m) {
    m.def(
        "step_makespan_s",
        [](const Array2<double>& work_s, const F64& seconds, const F64& ready_s, const I32& level,
           const I64& after_offsets, const I32& after) {
            const nb::gil_scoped_release nogil;
            return step_makespan_s({as_span(work_s), as_span(seconds), as_span(ready_s), as_span(level),
                                    as_csr(after_offsets, after)});
        },
        "work_s"_exact, "seconds"_exact, "ready_s"_exact, "level"_exact, "after_offsets"_exact, "after"_exact,
        "When all tasks of a step have ended, by the work [channels, tasks] of its channels alone.");
}

}  // namespace interlock::bindings
