#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// A matrix as a sum of weighted permutations.
struct Permutations {
    std::vector<std::int64_t> weight;   ///< [num_stages], descending
    std::vector<std::int32_t> partner;  ///< [num_stages, size] column of each row
};

/// Birkhoff's decomposition after padding: the matrix plus virtual entries, so that every row and column has the
/// largest sum, is taken apart into permutations, each as heavy as its smallest entry. At most n^2 - 2n + 2 of them.
///
/// @param matrix row-major [size, size], not negative, at most 2^62 in all
Permutations decompose(std::span<const std::int64_t> matrix, std::int32_t size);

}  // namespace interlock
