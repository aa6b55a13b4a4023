#include "interlock/papers/decompose.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interlock/errors.hpp"

namespace interlock::bindings {

using namespace nb::literals;

void bind_decompose(nb::module_& m) {
    m.def(
        "decompose",
        [](const Array2<std::int64_t>& matrix) {
            Permutations stages;
            const std::size_t size = matrix.shape(0);
            {
                const nb::gil_scoped_release nogil;
                require(size == matrix.shape(1) && size < (1U << 16U), "matrix must be square, of at most 65535 rows");
                stages = decompose(as_span(matrix), static_cast<std::int32_t>(size));
            }
            const std::size_t count = stages.weight.size();
            return std::pair(column(std::move(stages.weight)), table(std::move(stages.partner), count, size));
        },
        "matrix"_exact,
        "Padded Birkhoff decomposition: weights [stages], descending, and the column of each row [stages, size].");
}

}  // namespace interlock::bindings
