#include "interlock/synthesis/column_program.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "interlock/errors.hpp"

namespace interlock {
namespace {

constexpr double kNothing = 1e-11;  // changes below are rounding
constexpr double kNoPivot = 1e-8;    // to divide by less would spoil the inverse

}  // namespace

ColumnProgram::ColumnProgram(std::vector<double> limits)
    : size_(limits.size()),
      inverse_(size_ * size_),
      amount_(std::move(limits)),
      price_(size_),
      change_(size_),
      name_(size_, -1) {
    for (std::size_t row = 0; row < size_; ++row) {
        require(amount_[row] > 0.0, "limits must be positive");
        inverse_[row * size_ + row] = 1.0;
    }
}

void ColumnProgram::enter(std::span<const std::int32_t> rows, std::span<const double> values, double gain,
                          std::int32_t name) {
    require(rows.size() == values.size() && name >= 0, "every row of a column needs a value, and it a name");
    exchange(rows, values, gain, name);
}

bool ColumnProgram::relax(double least) {
    const auto cheapest = std::ranges::min_element(price_);
    if (*cheapest >= least) return false;
    const auto row = static_cast<std::int32_t>(cheapest - price_.begin());
    const double all = 1.0;
    exchange({&row, 1}, {&all, 1}, 0.0, -1);
    return true;
}

void ColumnProgram::exchange(std::span<const std::int32_t> rows, std::span<const double> values, double gain,
                             std::int32_t name) {
    double worth = gain;
    for (std::size_t k = 0; k < rows.size(); ++k) worth -= values[k] * price_[static_cast<std::size_t>(rows[k])];
    // What has to give way is what is used up first.
    std::size_t leaves = size_;
    double least = 0.0;
    for (std::size_t i = 0; i < size_; ++i) {
        const double* const row = &inverse_[i * size_];
        double change = 0.0;
        for (std::size_t k = 0; k < rows.size(); ++k) change += row[static_cast<std::size_t>(rows[k])] * values[k];
        change_[i] = change;
        if (change <= kNoPivot) continue;
        const double most = amount_[i] / change;
        if (leaves == size_ || most < least) {
            least = most;
            leaves = i;
        }
    }
    require(leaves < size_, "some row must limit every column");
    double* const pivot = &inverse_[leaves * size_];
    const double scale = 1.0 / change_[leaves];
    for (std::size_t k = 0; k < size_; ++k) pivot[k] *= scale;
    for (std::size_t i = 0; i < size_; ++i) {
        if (i == leaves || std::abs(change_[i]) <= kNothing) continue;
        double* const row = &inverse_[i * size_];
        for (std::size_t k = 0; k < size_; ++k) row[k] -= change_[i] * pivot[k];
        amount_[i] = std::max(0.0, amount_[i] - change_[i] * least);
    }
    for (std::size_t k = 0; k < size_; ++k) price_[k] += worth * pivot[k];
    amount_[leaves] = least;
    name_[leaves] = name;
    ++exchanges_;
}

}  // namespace interlock
