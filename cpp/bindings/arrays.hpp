#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "interlock/csr.hpp"

namespace nb = nanobind;

namespace interlock::bindings {

/// What a native function takes: a C-contiguous array of an exact dtype, never converted.
template <typename T>
using Array1 = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Array2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

using I32 = Array1<std::int32_t>;
using I64 = Array1<std::int64_t>;
using F64 = Array1<double>;
using U8 = Array1<std::uint8_t>;

/// The name of an argument that is taken as it is or refused.
inline auto operator""_exact(const char* name, std::size_t) { return nb::arg(name).noconvert(); }

/// What `work` returns; other threads of Python run meanwhile.
template <typename Work>
auto without_gil(Work&& work) {
    const nb::gil_scoped_release nogil;
    return work();
}

/// What a native function returns: a read-only NumPy array.
template <typename T>
using Column = nb::ndarray<nb::numpy, const T, nb::ndim<1>>;
template <typename T>
using Table = nb::ndarray<nb::numpy, const T, nb::ndim<2>>;

template <typename T>
std::span<const T> as_span(const Array1<T>& array) {
    return {array.data(), array.size()};
}
template <typename T>
std::span<const T> as_span(const Array2<T>& array) {
    return {array.data(), array.size()};
}
template <typename T>
Csr<T> as_csr(const Array1<std::int64_t>& offsets, const Array1<T>& values) {
    return {as_span(offsets), as_span(values)};
}

/// Hands a vector to NumPy without copying; the array owns it from then on.
template <typename T, typename Allocator>
Column<T> column(std::vector<T, Allocator>&& values) {
    if (values.empty())
        values.reserve(1);  // without any memory NumPy makes an array of its own, which can be written to
    auto* owned = new std::vector<T, Allocator>(std::move(values));
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T, Allocator>*>(p); });
    return Column<T>(owned->data(), {owned->size()}, owner);
}
template <typename T>
Table<T> table(std::vector<T>&& values, std::size_t num_rows, std::size_t num_columns) {
    auto* owned = new std::vector<T>(std::move(values));
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Table<T>(owned->data(), {num_rows, num_columns}, owner);
}

}  // namespace interlock::bindings
