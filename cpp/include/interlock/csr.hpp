#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"

namespace interlock {

/// Rows of values: row r is values[offsets[r] .. offsets[r + 1]).
template <typename Value>
struct Csr {
    std::span<const std::int64_t> offsets;
    std::span<const Value> values;

    [[nodiscard]] std::size_t num_rows() const { return offsets.empty() ? 0 : offsets.size() - 1; }
    [[nodiscard]] std::span<const Value> operator[](std::size_t row) const {
        const auto first = at(offsets[row]);
        return values.subspan(first, at(offsets[row + 1]) - first);
    }
    /// Memory safety of a table from outside: offsets rise from 0 to the number of values.
    void check(std::size_t rows, const char* name) const {
        bool good = offsets.size() == rows + 1 && offsets.front() == 0 &&
                    offsets.back() == static_cast<std::int64_t>(values.size());
        for (std::size_t r = 0; good && r < rows; ++r) good = offsets[r] <= offsets[r + 1];
        if (!good) throw InvalidInput(std::string(name) + ": offsets must rise from 0 to the number of values");
    }
};

/// The same in memory of its own.
template <typename Value>
struct Rows {
    std::vector<std::int64_t> offsets;
    std::vector<Value> values;

    [[nodiscard]] Csr<Value> view() const { return {offsets, values}; }
    [[nodiscard]] std::span<const Value> operator[](std::size_t row) const { return view()[row]; }
};

/// Rows out of (row, value) pairs: `each` calls what it is given with all of them, and is called twice. Values of a row
/// keep the order in which they come.
template <typename Value, typename Each>
Rows<Value> grouped(std::size_t num_rows, Each each) {
    Rows<Value> rows;
    rows.offsets.assign(num_rows + 1, 0);
    each([&](std::int32_t row, const Value&) { ++rows.offsets[at(row) + 1]; });
    std::partial_sum(rows.offsets.begin(), rows.offsets.end(), rows.offsets.begin());
    rows.values.resize(to_size(rows.offsets.back()));
    std::vector<std::int64_t> next(rows.offsets.begin(), rows.offsets.end() - 1);
    each([&](std::int32_t row, const Value& value) { rows.values[to_size(next[at(row)]++)] = value; });
    return rows;
}

/// The place of each key by key.
inline Rows<std::int32_t> places_by_key(std::size_t num_keys, std::span<const std::int32_t> keys) {
    return grouped<std::int32_t>(num_keys, [&](auto put) {
        for (std::size_t place = 0; place < keys.size(); ++place) put(keys[place], to_int32(place));
    });
}

/// The rows turned round: row v lists the rows that have v among their values.
inline Rows<std::int32_t> turned_round(const Csr<std::int32_t>& rows, std::size_t num_values) {
    return grouped<std::int32_t>(num_values, [&](auto put) {
        for (std::size_t row = 0; row < rows.num_rows(); ++row)
            for (const std::int32_t value : rows[row]) put(value, to_int32(row));
    });
}

}  // namespace interlock
