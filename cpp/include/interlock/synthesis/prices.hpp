#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "interlock/synthesis/arc_graph.hpp"

namespace interlock {

/// What it costs to put more onto each arc: the price of a resource rises exponentially with its load.
class Prices {
public:
    explicit Prices(const ArcGraph& graph)
        : graph_(graph),
          load_(static_cast<std::size_t>(graph.num_resources)),
          price_(load_.size()),
          cost_(graph.num_arcs()),
          growth_(graph.num_arcs()) {}

    /// Ticks that `bytes` take on an arc.
    [[nodiscard]] std::int64_t ticks(std::size_t arc, std::int64_t bytes) const {
        return graph_.overhead_ticks[arc] + std::llround(static_cast<double>(bytes) * graph_.ticks_per_byte[arc]);
    }

    /// Sets how steeply prices rise: by e^`steepness` from nothing to `peak_ticks`.
    void set_slope(double steepness, double peak_ticks) {
        slope_ = steepness / std::max(1.0, peak_ticks);
        peak_ = peak_ticks;
        bytes_ = -1;
        double sum = 0.0;
        for (std::size_t resource = 0; resource < load_.size(); ++resource) {
            reprice(resource);
            sum += price_[resource];
        }
        mean_ = sum / static_cast<double>(load_.size());
    }

    /// Adds (or takes away) a message of `bytes` on an arc.
    void add(std::int32_t arc, std::int64_t bytes, std::int64_t sign) {
        const auto held = static_cast<double>(ticks(static_cast<std::size_t>(arc), bytes));
        const std::span<const std::int32_t> resources = graph_.arc_resources[static_cast<std::size_t>(arc)];
        const std::span<const double> shares = graph_.arc_shares[static_cast<std::size_t>(arc)];
        for (std::size_t i = 0; i < resources.size(); ++i) {
            load_[static_cast<std::size_t>(resources[i])] += sign * std::llround(held * shares[i]);
            reprice(static_cast<std::size_t>(resources[i]));
        }
    }

    /// Cost of `bytes` on every arc: the price summed up over the ticks they would add. Valid until the next call.
    std::span<const double> costs(std::int64_t bytes) {
        if (bytes != bytes_) {
            bytes_ = bytes;
            for (std::size_t arc = 0; arc < growth_.size(); ++arc) {
                growth_[arc] =
                    std::expm1(std::min(kSteepest, slope_ * static_cast<double>(ticks(arc, bytes)))) / slope_;
            }
        }
        for (std::size_t arc = 0; arc < cost_.size(); ++arc) {
            cost_[arc] = graph_.held_at(arc, price_) * growth_[arc];
        }
        return cost_;
    }

    [[nodiscard]] double mean() const { return mean_; }
    [[nodiscard]] std::int64_t peak_load() const { return *std::max_element(load_.begin(), load_.end()); }
    [[nodiscard]] const std::vector<std::int64_t>& load() const { return load_; }

private:
    // Far above the expected peak all are equally bad; sums over arcs must stay finite.
    static constexpr double kSteepest = 300.0;

    void reprice(std::size_t resource) {
        price_[resource] = std::exp(std::min(kSteepest, slope_ * (static_cast<double>(load_[resource]) - peak_)));
    }

    const ArcGraph& graph_;
    std::vector<std::int64_t> load_;
    std::vector<double> price_, cost_, growth_;
    double slope_ = 0.0, peak_ = 0.0, mean_ = 1.0;
    std::int64_t bytes_ = -1;  // that growth_ is for
};

}  // namespace interlock
