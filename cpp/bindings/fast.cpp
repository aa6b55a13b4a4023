#include "interlock/papers/fast.hpp"

#include "arrays.hpp"
#include "bindings.hpp"
#include "interlock/errors.hpp"
#include "schedule_columns.hpp"

namespace interlock::bindings {

using namespace nb::literals;

void bind_fast(nb::module_& m) {
    m.def(
        "fast_rows",
        [](const Array2<std::int64_t>& demand_bytes, std::int32_t servers, const I32& out_gpu, const I32& in_gpu,
           bool is_exclusive) {
            const std::size_t ranks = demand_bytes.shape(0);
            require(servers > 0 && servers < (1 << 16) && ranks == demand_bytes.shape(1) &&
                        ranks % static_cast<std::size_t>(servers) == 0,
                    "demand_bytes must be square, with the same number of ranks on every server");
            return to_columns(without_gil([&] {
                const auto count = static_cast<std::size_t>(servers);
                return fast_rows(as_span(demand_bytes), count, ranks / count, as_span(out_gpu), as_span(in_gpu),
                                 is_exclusive);
            }));
        },
        "demand_bytes"_exact, "servers"_a, "out_gpu"_exact, "in_gpu"_exact, "is_exclusive"_a,
        "Rows of FAST as published, as `expand_two_tier` gives them; `out_gpu` and `in_gpu` lead around dead NICs.");
}

}  // namespace interlock::bindings
