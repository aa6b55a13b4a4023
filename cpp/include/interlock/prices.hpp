#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "interlock/arc_graph.hpp"

namespace interlock {

/// What it costs to put more onto each arc: prices of resources rise exponentially with their load.
class Prices {
public:
    explicit Prices(const ArcGraph& graph)
        : graph_(graph),
          load_(static_cast<std::size_t>(graph.num_resources)),
          price_(load_.size()),
          cost_(graph.num_arcs()) {}

    /// Ticks that `bytes` take on an arc.
    [[nodiscard]] std::int64_t ticks(std::size_t arc, std::int64_t bytes) const {
        return graph_.overhead_ticks[arc] + std::llround(static_cast<double>(bytes) * graph_.ticks_per_byte[arc]);
    }

    /// Sets how steeply prices rise: by e^`steepness` from nothing to `peak_ticks`.
    void set_slope(double steepness, double peak_ticks) {
        slope_ = steepness / std::max(1.0, peak_ticks);
        peak_ = peak_ticks;
        double sum = 0.0;
        for (std::size_t resource = 0; resource < load_.size(); ++resource) {
            reprice(resource);
            sum += price_[resource];
        }
        mean_ = sum / static_cast<double>(load_.size());
    }

    /// Adds (or takes away) a message of `bytes` on an arc.
    void add(std::int32_t arc, std::int64_t bytes, std::int64_t sign) {
        const std::int64_t held = sign * ticks(static_cast<std::size_t>(arc), bytes);
        for (const std::int32_t resource : graph_.arc_resources[static_cast<std::size_t>(arc)]) {
            load_[static_cast<std::size_t>(resource)] += held;
            reprice(static_cast<std::size_t>(resource));
        }
    }

    /// Cost of `bytes` on every arc at the current prices; valid until the next call.
    std::span<const double> costs(std::int64_t bytes) {
        for (std::size_t arc = 0; arc < cost_.size(); ++arc) {
            double sum = 0.0;
            for (const std::int32_t resource : graph_.arc_resources[arc]) {
                sum += price_[static_cast<std::size_t>(resource)];
            }
            cost_[arc] = sum * static_cast<double>(ticks(arc, bytes));
        }
        return cost_;
    }

    [[nodiscard]] double mean() const { return mean_; }
    [[nodiscard]] std::int64_t peak_load() const { return *std::max_element(load_.begin(), load_.end()); }
    [[nodiscard]] const std::vector<std::int64_t>& load() const { return load_; }

private:
    static constexpr double kSteepest = 300.0;

    void reprice(std::size_t resource) {
        // Far above the expected peak all are equally bad; the sum over arcs must stay finite.
        price_[resource] = std::exp(std::min(kSteepest, slope_ * (static_cast<double>(load_[resource]) - peak_)));
    }

    const ArcGraph& graph_;
    std::vector<std::int64_t> load_;
    std::vector<double> price_, cost_;
    double slope_ = 0.0, peak_ = 0.0, mean_ = 1.0;
};

}  // namespace interlock
