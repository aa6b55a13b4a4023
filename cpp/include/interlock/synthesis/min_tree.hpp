#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace interlock {

/// The smallest of many keys, some of which change between questions. Ties go to the lower index.
///
/// Each node holds the least of sixteen below it: a changed key costs a few short scans, and all keys together cost one
/// long scan, which the compiler turns into vector instructions.
class MinTree {
public:
    explicit MinTree(std::size_t num_keys) {
        do {
            num_keys = (num_keys + kWidth - 1) / kWidth;
            levels_.emplace_back(std::max<std::size_t>(num_keys, 1) * kWidth, std::numeric_limits<double>::infinity());
        } while (num_keys > 1);
    }

    [[nodiscard]] double least() const { return least_; }
    [[nodiscard]] double key(std::int32_t index) const { return levels_.front()[static_cast<std::size_t>(index)]; }

    /// The index of the least key.
    [[nodiscard]] std::int32_t where() const {
        std::size_t node = 0;
        for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
            const double* const first = level->data() + node * kWidth;
            node = node * kWidth + static_cast<std::size_t>(std::find(first, first + kWidth, least_) - first);
        }
        return static_cast<std::int32_t>(node);
    }

    /// Writes a key; `least` is wrong until `climb` from that index or `rebuild`.
    void set(std::int32_t index, double key) { levels_.front()[static_cast<std::size_t>(index)] = key; }

    void climb(std::int32_t index) {
        auto node = static_cast<std::size_t>(index) / kWidth;
        for (std::size_t above = 1; above < levels_.size(); ++above, node /= kWidth) {
            levels_[above][node] = least_below(levels_[above - 1], node);
        }
        least_ = least_below(levels_.back(), 0);
    }
    void rebuild() {
        for (std::size_t above = 1; above < levels_.size(); ++above) {
            const std::size_t num_nodes = levels_[above - 1].size() / kWidth;
            for (std::size_t node = 0; node < num_nodes; ++node) {
                levels_[above][node] = least_below(levels_[above - 1], node);
            }
        }
        least_ = least_below(levels_.back(), 0);
    }
    /// Whether climbing from `num_changed` keys one by one costs more than a rebuild.
    [[nodiscard]] bool prefers_rebuild(std::size_t num_changed) const {
        return num_changed * kWidth > levels_.front().size();
    }

private:
    static constexpr std::size_t kWidth = 16;

    static double least_below(const std::vector<double>& keys, std::size_t node) {
        const double* const first = keys.data() + node * kWidth;
        double least[4] = {first[0], first[1], first[2], first[3]};
        for (std::size_t k = 4; k < kWidth; k += 4) {
            for (std::size_t column = 0; column < 4; ++column) {
                least[column] = first[k + column] < least[column] ? first[k + column] : least[column];
            }
        }
        return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
    }

    std::vector<std::vector<double>> levels_;  // keys first, the root's sixteen last
    double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace interlock
