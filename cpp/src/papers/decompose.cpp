#include "interlock/papers/decompose.hpp"

#include <algorithm>
#include <numeric>

#include "interlock/errors.hpp"
#include "interlock/papers/matching.hpp"

namespace interlock {
namespace {

/// Adds virtual entries, row by row from the left, until all rows and columns have the largest sum.
std::vector<std::int64_t> pad(std::span<const std::int64_t> matrix, std::size_t size) {
    std::vector<std::int64_t> padded(matrix.begin(), matrix.end()), row(size, 0), column(size, 0);
    for (std::size_t i = 0; i < size; ++i) {
        for (std::size_t j = 0; j < size; ++j) {
            row[i] += matrix[i * size + j];
            column[j] += matrix[i * size + j];
        }
    }
    const std::int64_t most =
        std::max(*std::max_element(row.begin(), row.end()), *std::max_element(column.begin(), column.end()));
    for (std::size_t i = 0, j = 0; i < size && j < size;) {
        const std::int64_t fill = std::min(most - row[i], most - column[j]);
        padded[i * size + j] += fill;
        row[i] += fill;
        column[j] += fill;
        if (row[i] == most) {
            ++i;
        } else {
            ++j;
        }
    }
    return padded;
}

void sort_descending(Permutations& stages, std::size_t size) {
    std::vector<std::size_t> order(stages.weight.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return stages.weight[a] > stages.weight[b]; });
    Permutations sorted;
    sorted.weight.reserve(order.size());
    sorted.partner.reserve(stages.partner.size());
    for (const std::size_t stage : order) {
        sorted.weight.push_back(stages.weight[stage]);
        const auto first = stages.partner.begin() + static_cast<std::ptrdiff_t>(stage * size);
        sorted.partner.insert(sorted.partner.end(), first, first + static_cast<std::ptrdiff_t>(size));
    }
    stages = std::move(sorted);
}

}  // namespace

Permutations decompose(std::span<const std::int64_t> matrix, std::int32_t size) {
    const auto n = static_cast<std::size_t>(size);
    require(size > 0 && matrix.size() == n * n, "matrix must be [size, size]");
    std::int64_t room = std::int64_t{1} << 62;
    for (const std::int64_t entry : matrix) {
        require(entry >= 0 && entry <= room, "matrix must not be negative, and add up to at most 2^62");
        room -= entry;
    }
    std::vector<std::int64_t> left = pad(matrix, n);
    ShrinkingMatching matching(size);
    for (std::int32_t i = 0; i < size; ++i) {
        for (std::int32_t j = 0; j < size; ++j) {
            if (left[static_cast<std::size_t>(i) * n + static_cast<std::size_t>(j)] > 0) matching.add_edge(i, j);
        }
    }
    Permutations stages;
    std::int64_t remaining = std::accumulate(left.begin(), left.begin() + size, std::int64_t{0});
    while (remaining > 0) {
        require(matching.complete(), "a padded matrix has a perfect matching");
        const auto partner = matching.partner();
        std::int64_t weight = remaining;
        for (std::size_t i = 0; i < n; ++i) {
            weight = std::min(weight, left[i * n + static_cast<std::size_t>(partner[i])]);
        }
        stages.weight.push_back(weight);
        stages.partner.insert(stages.partner.end(), partner.begin(), partner.end());
        remaining -= weight;
        for (std::size_t i = 0; i < n; ++i) {
            const std::int32_t j = stages.partner[stages.partner.size() - n + i];
            std::int64_t& entry = left[i * n + static_cast<std::size_t>(j)];
            entry -= weight;
            if (entry == 0) matching.remove_edge(static_cast<std::int32_t>(i), j);
        }
    }
    sort_descending(stages, n);
    return stages;
}

}  // namespace interlock
