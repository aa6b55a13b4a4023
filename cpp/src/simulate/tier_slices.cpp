#include "interlock/simulate/tier_slices.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "interlock/errors.hpp"

namespace interlock {

double tier_slices_s(const TierColumns& tiers, std::span<const double> weights) {
    const std::size_t num_tiers = tiers.busy_s.size();
    const std::size_t num_slices = weights.size();
    require(tiers.paid_s.size() == num_tiers && tiers.latency_s.size() == num_tiers &&
                tiers.ports.size() == num_tiers && tiers.under_way.size() == num_tiers,
            "tiers must have one entry in every column");
    for (const std::int32_t port : tiers.ports) {
        require(port >= 0 && static_cast<std::size_t>(port) < num_tiers, "ports must be numbered below the tiers");
    }
    require(std::ranges::all_of(tiers.under_way, [](std::int32_t slices) { return slices >= 0; }),
            "under_way must be at least 0");
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<double> arrived_s(num_slices, 0.0);
    std::vector<double> free_s(num_tiers, 0.0);  // of ports
    double last_s = 0;
    for (std::size_t turn = 0; num_slices > 0 && turn + 1 < num_slices + num_tiers; ++turn) {
        const std::size_t first = turn + 1 > num_slices ? turn + 1 - num_slices : 0;
        for (std::size_t tier = first; tier < std::min(turn + 1, num_tiers); ++tier) {
            const std::size_t slice = turn - tier;
            double& port_s = free_s[static_cast<std::size_t>(tiers.ports[tier])];
            const double busy_s = tiers.paid_s[tier] + tiers.busy_s[tier] * weights[slice] / total;
            const double end_s = std::max(arrived_s[slice], port_s) + busy_s;
            const double beside_s = std::max(tiers.under_way[tier] - 1, 0) * busy_s;
            const double wait_s = tiers.under_way[tier] > 0 ? std::max(0.0, tiers.latency_s[tier] - beside_s) : 0.0;
            arrived_s[slice] = end_s + tiers.latency_s[tier] + beside_s;
            port_s = end_s + wait_s;
            last_s = std::max(last_s, arrived_s[slice]);
        }
    }
    return last_s;
}

}  // namespace interlock
