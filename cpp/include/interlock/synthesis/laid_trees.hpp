#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "interlock/synthesis/prices.hpp"
#include "interlock/synthesis/tree_packing.hpp"

namespace interlock {

/// Trees with the prices that their loads make, taken out and laid again pass after pass; the best pass is kept.
class LaidTrees {
public:
    LaidTrees(const ArcGraph& graph, const TreeDemand& demand)
        : demand_(demand), nodes_(at(graph.num_nodes)), prices_(graph) {
        packing_.root.assign(demand.root.begin(), demand.root.end());
        packing_.arc_into.assign(demand.root.size() * nodes_, -1);
        if (is_paired()) packing_.arc_outof.assign(demand.root.size() * nodes_, -1);
    }

    [[nodiscard]] bool is_paired() const { return !demand_.free_roots.empty(); }
    [[nodiscard]] Prices& prices() { return prices_; }
    [[nodiscard]] const Prices& prices() const { return prices_; }
    [[nodiscard]] std::int32_t& root(std::size_t tree) { return packing_.root[tree]; }
    [[nodiscard]] std::span<std::int32_t> into(std::size_t tree) {
        return std::span(packing_.arc_into).subspan(tree * nodes_, nodes_);
    }
    /// Empty unless trees are laid towards their roots too.
    [[nodiscard]] std::span<std::int32_t> outof(std::size_t tree) {
        return is_paired() ? std::span(packing_.arc_outof).subspan(tree * nodes_, nodes_) : std::span<std::int32_t>{};
    }

    /// Lays every tree by `lay(tree, pass)`, in another order in every pass.
    /// @param first_peak load of the busiest resource that the first prices are made for
    template <typename Lay>
    Packing pack(std::int32_t passes, std::uint64_t seed, double first_peak, Lay lay) {
        Packing best;
        prices_.set_slope(kFirstSlope, first_peak);
        for (std::int32_t pass = 0; pass < passes; ++pass) {
            // Steeper in later passes: coarse balance first, then the last few per cent.
            if (pass > 0) {
                prices_.set_slope(kFirstSlope + kSlopePerPass * pass, static_cast<double>(prices_.peak_load()));
            }
            const Shuffle order(packing_.root.size(), seed * 1000003 + static_cast<std::uint64_t>(pass));
            for (std::size_t step = 0; step < packing_.root.size(); ++step) {
                const std::size_t tree = order[step];
                count(tree, -1);
                lay(tree, pass);
                count(tree, 1);
            }
            packing_.load_ticks = prices_.load();
            // Prices that are too steep can upset what was balanced.
            if (pass == 0 || peak(packing_) < peak(best)) best = packing_;
        }
        return best;
    }

    /// The present root or one of a few others, whichever has the least `pair_price(root)`.
    template <typename PairPrice>
    std::int32_t cheapest_root(std::size_t tree, std::int32_t pass, std::uint64_t seed, std::size_t tried,
                               PairPrice pair_price) {
        std::int32_t best = root(tree);
        double least = pair_price(best);
        const std::uint64_t salt = scramble(seed ^ (static_cast<std::uint64_t>(pass) << 40) ^ tree);
        const Shuffle order(demand_.free_roots.size(), salt);
        for (std::size_t k = 0; k < std::min(demand_.free_roots.size(), tried); ++k) {
            const std::int32_t other = demand_.free_roots[order[k]];
            const double price = pair_price(other);
            if (price < least) {
                least = price;
                best = other;
            }
        }
        return best;
    }

private:
    static constexpr double kFirstSlope = 12.0;
    static constexpr double kSlopePerPass = 10.0;

    static std::int64_t peak(const Packing& packing) { return std::ranges::max(packing.load_ticks); }

    void count(std::size_t tree, std::int64_t sign) {
        for (const std::span<const std::int32_t> arcs : {into(tree), outof(tree)}) {
            for (const std::int32_t arc : arcs) {
                if (arc >= 0) prices_.add(arc, demand_.bytes[tree], sign);
            }
        }
    }

    const TreeDemand& demand_;
    std::size_t nodes_;
    Prices prices_;
    Packing packing_;
};

}  // namespace interlock
