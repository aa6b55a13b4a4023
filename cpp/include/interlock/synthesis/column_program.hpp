#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// A linear program whose columns are found one by one: maximise the gain of what they are worth together, every row at
/// most its limit, no column negative.
///
/// Revised simplex with the inverse of the basis at hand; columns that leave the basis are forgotten. Limits must be
/// positive, so that nothing at all is where it starts; to make them slightly unequal spares it from going in circles.
class ColumnProgram {
public:
    explicit ColumnProgram(std::vector<double> limits);

    /// Takes in as much of a column as is best; it should be worth more than its rows cost at their present prices.
    /// @param name what `names` shows for it, not negative
    void enter(std::span<const std::int32_t> rows, std::span<const double> values, double gain, std::int32_t name);

    /// Gives the row with the lowest price room again, if that is below `least` (negative): it is no longer worth while
    /// to use it up. Returns whether it was.
    bool relax(double least);

    /// What one more of each row's limit is worth.
    [[nodiscard]] std::span<const double> prices() const { return price_; }
    /// Columns in the basis, -1 where a row has room left.
    [[nodiscard]] std::span<const std::int32_t> names() const { return name_; }
    /// How often something in the basis gave way to something else.
    [[nodiscard]] std::int32_t exchanges() const { return exchanges_; }
    /// How much of each there is.
    [[nodiscard]] std::span<const double> amounts() const { return amount_; }

private:
    void exchange(std::span<const std::int32_t> rows, std::span<const double> values, double gain, std::int32_t name);

    std::size_t size_;
    std::vector<double> inverse_;  // [rows, rows]
    std::vector<double> amount_, price_, change_;
    std::vector<std::int32_t> name_;
    std::int32_t exchanges_ = 0;
};

}  // namespace interlock
