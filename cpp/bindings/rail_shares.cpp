#include "interlock/papers/rail_shares.hpp"

#include "arrays.hpp"
#include "bindings.hpp"
#include "interlock/errors.hpp"
#include "interlock/papers/rails_split.hpp"
#include "schedule_columns.hpp"

namespace interlock::bindings {

using namespace nb::literals;

void bind_rail_shares(nb::module_& m) {
    m.def(
        "rail_shares",
        [](const I64& owed_bytes, const Array2<double>& rates, std::int32_t own) {
            std::vector<std::int64_t> shares(rates.size());
            const auto servers = rates.shape(0), rails = rates.shape(1);
            {
                const nb::gil_scoped_release nogil;
                require(rail_shares(as_span(owed_bytes), as_span(rates), own, static_cast<std::int32_t>(rails), shares),
                        "bytes are owed to a server that no rail reaches");
            }
            return table(std::move(shares), servers, rails);
        },
        "owed_bytes"_exact, "rates"_exact, "own"_a,
        "Bytes [servers, rails] that server `own` puts on each rail for each server, knowing only what it owes.");
    m.def(
        "rails_split_rows",
        [](const Array2<std::int64_t>& demand_bytes, const Array2<double>& rates, std::int32_t slices) {
            require(demand_bytes.shape(0) == demand_bytes.shape(1), "demand_bytes must be square");
            return to_columns(without_gil(
                [&] { return rails_split(as_span(demand_bytes), as_span(rates), rates.shape(0), slices); }));
        },
        "demand_bytes"_exact, "rates"_exact, "slices"_a,
        "Rows of rails-split, as `expand_two_tier` gives them; `slices` per rail and destination server, 0 chooses.");
}

}  // namespace interlock::bindings
