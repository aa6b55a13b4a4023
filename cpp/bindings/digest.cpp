#include "interlock/schedule/digest.hpp"

#include "arrays.hpp"
#include "bindings.hpp"

namespace interlock::bindings {

using namespace nb::literals;

void bind_digest(nb::module_& m) {
    m.def(
        "digest64",
        [](const U8& bytes, std::uint64_t seed) {
            const nb::gil_scoped_release nogil;
            return digest64(std::as_bytes(as_span(bytes)), seed);
        },
        "bytes"_exact, "seed"_a, "64-bit digest of bytes, equal on every machine; not cryptographic.");
}

}  // namespace interlock::bindings
