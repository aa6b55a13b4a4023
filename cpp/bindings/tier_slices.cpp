#include "interlock/simulate/tier_slices.hpp"

#include "arrays.hpp"
#include "bindings.hpp"

namespace interlock::bindings {

using namespace nb::literals;

void bind_tier_slices(nb::module_& m) {
    m.def(
        "tier_slices_s",
        [](const F64& busy_s, const F64& paid_s, const F64& latency_s, const I32& ports, const I32& under_way,
           const F64& weights) {
            const nb::gil_scoped_release nogil;
            return tier_slices_s(
                {as_span(busy_s), as_span(paid_s), as_span(latency_s), as_span(ports), as_span(under_way)},
                as_span(weights));
        },
        "busy_s"_exact, "paid_s"_exact, "latency_s"_exact, "ports"_exact, "under_way"_exact, "weights"_exact,
        "Arrival of the last of slices that pass tiers one after the other.");
}

}  // namespace interlock::bindings
