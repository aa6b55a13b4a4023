#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "interlock/errors.hpp"

namespace interlock {

/// Rows of values: row r is values[offsets[r] .. offsets[r + 1]).
template <typename Value>
struct Csr {
    std::span<const std::int64_t> offsets;
    std::span<const Value> values;

    [[nodiscard]] std::size_t num_rows() const { return offsets.empty() ? 0 : offsets.size() - 1; }
    [[nodiscard]] std::span<const Value> operator[](std::size_t row) const {
        const auto first = static_cast<std::size_t>(offsets[row]);
        return values.subspan(first, static_cast<std::size_t>(offsets[row + 1]) - first);
    }
    /// Memory safety of a table from outside: offsets rise from 0 to the number of values.
    void check(std::size_t rows, const char* name) const {
        bool good = offsets.size() == rows + 1 && offsets.front() == 0 &&
                    offsets.back() == static_cast<std::int64_t>(values.size());
        for (std::size_t r = 0; good && r < rows; ++r) good = offsets[r] <= offsets[r + 1];
        if (!good) throw InvalidInput(std::string(name) + ": offsets must rise from 0 to the number of values");
    }
};

}  // namespace interlock
