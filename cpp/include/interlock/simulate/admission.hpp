#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "interlock/simulate/flow_waits.hpp"

namespace interlock {

/// Who may go: a message starts only when none of a more urgent level is under way on its channels, or where those
/// leave a good part of a channel idle and nobody fills it yet. Each time a message had to stand back, the one that it
/// waited for is noted: with these as dependencies a plain run repeats this one.
class Admission {
public:
    static constexpr std::int32_t kLevels = 64;

    /// @param level of each message, 0 the most urgent; empty: everybody may go at once
    Admission(std::span<const std::int32_t> level, const Rows<std::int32_t>& channels, std::size_t num_channels)
        : level_(level), channels_(channels) {
        if (level.empty()) return;
        entered_s_.assign(num_channels, -1.0);
        freed_by_.assign(level.size(), -1);
        under_way_.assign(num_channels * kLevels, 0);
        levels_at_.assign(num_channels, 0);
        held_.resize(num_channels);
    }

    /// Whether a message may go now, and is under way then; if not, it is held until `arrived` gives it back.
    /// @param has_room tells whether a channel has a good part idle
    template <typename HasRoom>
    bool enter(std::int32_t message, double now_s, HasRoom has_room) {
        if (level_.empty()) return true;
        const auto path = channels_[message];
        const std::uint64_t more_urgent = (std::uint64_t{1} << level(message)) - 1;
        for (const std::int32_t channel : path) {
            if ((levels_at_[at(channel)] & more_urgent) == 0) continue;
            // What has just entered has no rate yet, and one that fills is enough.
            const bool is_filled = (levels_at_[at(channel)] & ~more_urgent) != 0;
            if (!is_filled && entered_s_[at(channel)] < now_s && has_room(channel)) continue;
            held_[at(channel)].push_back(message);
            return false;
        }
        if (freed_by_[at(message)] >= 0) waits_.emplace_back(message, freed_by_[at(message)]);
        for (const std::int32_t channel : path) {
            ++under_way_[slot(channel, message)];
            levels_at_[at(channel)] |= std::uint64_t{1} << level(message);
            entered_s_[at(channel)] = now_s;
        }
        return true;
    }

    /// A message is no longer under way: those who may try again, most urgent first.
    std::span<const std::int32_t> arrived(std::int32_t message) {
        retry_.clear();
        if (level_.empty()) return retry_;
        for (const std::int32_t channel : channels_[message]) {
            auto& held = held_[at(channel)];
            if (--under_way_[slot(channel, message)] > 0) {
                if (held.empty()) continue;
                retry_.push_back(held.front());  // there may be room for one now
                held.erase(held.begin());
                continue;
            }
            std::uint64_t& levels = levels_at_[at(channel)];
            levels &= ~(std::uint64_t{1} << level(message));
            const auto stays = [&](std::int32_t m) { return (levels & ((std::uint64_t{1} << level(m)) - 1)) != 0; };
            const auto freed = std::stable_partition(held.begin(), held.end(), stays);
            retry_.insert(retry_.end(), freed, held.end());
            held.erase(freed, held.end());
        }
        std::stable_sort(retry_.begin(), retry_.end(),
                         [&](std::int32_t a, std::int32_t b) { return level(a) < level(b); });
        for (const std::int32_t m : retry_) freed_by_[at(m)] = message;
        return retry_;
    }

    [[nodiscard]] std::vector<std::pair<std::int32_t, std::int32_t>> take_waits() { return std::move(waits_); }

private:
    [[nodiscard]] std::int32_t level(std::int32_t message) const { return level_[at(message)]; }
    [[nodiscard]] std::size_t slot(std::int32_t channel, std::int32_t message) const {
        return at(channel) * kLevels + at(level(message));
    }

    std::span<const std::int32_t> level_;
    const Rows<std::int32_t>& channels_;
    std::vector<std::int32_t> under_way_;          // [channels, levels]: messages
    std::vector<std::uint64_t> levels_at_;         // [channels]: levels with messages under way
    std::vector<std::vector<std::int32_t>> held_;  // [channels]: messages that stand back there
    std::vector<std::int32_t> retry_;
    std::vector<double> entered_s_;       // [channels]: when a message entered last
    std::vector<std::int32_t> freed_by_;  // [messages]: the one whose arrival let it try again last, or -1
    std::vector<std::pair<std::int32_t, std::int32_t>> waits_;  // (message, the one it waited for)
};

}  // namespace interlock
