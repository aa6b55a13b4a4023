#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace interlock {

/// The smallest of many keys, some of which change between questions. Ties go to the lower index.
class WinnerTree {
public:
    explicit WinnerTree(std::size_t num_keys) {
        while (num_leaves_ < num_keys) num_leaves_ *= 2;
        keys_.assign(num_leaves_, std::numeric_limits<double>::infinity());
        winners_.assign(2 * num_leaves_, 0);
        for (std::size_t leaf = 0; leaf < num_leaves_; ++leaf) {
            winners_[num_leaves_ + leaf] = static_cast<std::int32_t>(leaf);
        }
        rebuild();
    }

    [[nodiscard]] std::int32_t winner() const { return winners_[1]; }
    [[nodiscard]] double least() const { return keys_[static_cast<std::size_t>(winners_[1])]; }
    [[nodiscard]] double key(std::int32_t index) const { return keys_[static_cast<std::size_t>(index)]; }

    /// Writes a key; the winner is wrong until `replay` of that index or `rebuild`.
    void set(std::int32_t index, double key) { keys_[static_cast<std::size_t>(index)] = key; }

    void replay(std::int32_t index) {
        for (std::size_t node = (num_leaves_ + static_cast<std::size_t>(index)) / 2; node > 0; node /= 2) decide(node);
    }
    void rebuild() {
        for (std::size_t node = num_leaves_ - 1; node > 0; --node) decide(node);
    }
    /// Whether replaying `num_changed` keys one by one costs more than a rebuild.
    [[nodiscard]] bool prefers_rebuild(std::size_t num_changed) const { return num_changed * 8 > num_leaves_; }

private:
    void decide(std::size_t node) {
        const std::int32_t left = winners_[2 * node];
        const std::int32_t right = winners_[2 * node + 1];
        winners_[node] = key(right) < key(left) ? right : left;
    }

    std::size_t num_leaves_ = 1;
    std::vector<double> keys_;
    std::vector<std::int32_t> winners_;  // [2 * num_leaves], the root is at 1
};

}  // namespace interlock
