#include "interlock/synthesis/tree_shares.hpp"

#include <algorithm>
#include <numeric>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/synthesis/column_program.hpp"
#include "interlock/synthesis/tree_finder.hpp"

namespace interlock {
namespace {

// Rows that are a little unequal: 1 to 2 for each.
double unequal(std::size_t row) { return 1.0 + static_cast<double>(scramble(row) >> 11) * 0x1.0p-53; }

constexpr double kUnequal = 1e-7;
constexpr double kFirstTolerance = 0.2;
constexpr double kScarce = 30.0;  // parts of the tolerance by which a price may be below nothing

class Sharer {
public:
    Sharer(const ArcGraph& graph, const TreeDemand& demand, const ShareOptions& options)
        : graph_(graph),
          demand_(demand),
          options_(options),
          nodes_(at(graph.num_nodes)),
          is_paired_(!demand.free_roots.empty()),
          demands_(is_paired_ ? 1 : demand.root.size()),
          resources_(at(graph.num_resources)),
          away_(graph.num_nodes, graph.arc_src, graph.arc_dst),
          towards_(graph.num_nodes, graph.arc_dst, graph.arc_src),
          program_(limits()),
          ticks_(graph.num_arcs()),
          hop_(graph.num_arcs()),
          cost_(graph.num_arcs()),
          length_(graph.num_arcs()),
          arcs_(2 * nodes_),
          entry_(resources_) {
        total_bytes_ = std::accumulate(demand.bytes.begin(), demand.bytes.end(), 0.0);
        const double mean = std::accumulate(graph.ticks_per_byte.begin(), graph.ticks_per_byte.end(), 0.0) /
                            static_cast<double>(graph.num_arcs());
        for (std::size_t arc = 0; arc < ticks_.size(); ++arc) ticks_[arc] = graph.ticks_per_byte[arc] / mean;
        unit_ticks_ = total_bytes_ * mean;
        for (std::size_t arc = 0; arc < hop_.size(); ++arc) hop_[arc] = options.hop_ticks[arc] / unit_ticks_;
        enter_speed();
    }

    TreeShares share() {
        const std::size_t offers = is_paired_ ? demand_.free_roots.size() : demands_;
        // Great improvements first: a column of little worth would soon be thrown out again.
        for (double tolerance = kFirstTolerance;; tolerance = std::max(options_.tolerance, tolerance / 4)) {
            for (std::size_t failed = 0; failed < offers && program_.exchanges() < options_.most_steps; ++offer_) {
                failed = improve(offer_ % offers, tolerance) ? 0 : failed + 1;
            }
            if (tolerance <= options_.tolerance || program_.exchanges() >= options_.most_steps) return result();
        }
    }

private:
    static constexpr std::int32_t kSpeed = 0;  // name of the column that is maximised

    std::vector<double> limits() const {
        std::vector<double> limits(resources_ + demands_);
        for (std::size_t row = 0; row < limits.size(); ++row) {
            limits[row] = (row < resources_ ? 1.0 : 0.0) + kUnequal * unequal(row);
        }
        return limits;
    }

    // How much is sent per unit of time: no more than the trees of every demand carry.
    void enter_speed() {
        std::vector<std::int32_t> rows(demands_);
        std::iota(rows.begin(), rows.end(), graph_.num_resources);
        program_.enter(rows, std::vector<double>(demands_, 1.0), 1.0, kSpeed);
    }

    // Of all bytes.
    double part(std::size_t demand) const {
        return is_paired_ ? 1.0 : static_cast<double>(demand_.bytes[demand]) / total_bytes_;
    }

    double mean_price() const {
        const std::span<const double> price = program_.prices().first(resources_);
        return std::accumulate(price.begin(), price.end(), 0.0) / static_cast<double>(resources_);
    }

    void set_costs() {
        const std::span<const double> price = program_.prices();
        const double haste = std::max(1e-9, options_.haste * mean_price());
        for (std::size_t arc = 0; arc < cost_.size(); ++arc) {
            // Rounding may leave a price slightly below nothing.
            cost_[arc] = std::max(0.0, graph_.held_at(arc, price)) * ticks_[arc];
            length_[arc] = cost_[arc] + haste * hop_[arc];
        }
    }

    // Takes in a tree (or a pair) of one root if it is cheaper than what its bytes are worth, a shallow one if
    // possible.
    bool improve(std::size_t offer, double tolerance) {
        const std::size_t demand = is_paired_ ? 0 : offer;
        const std::int32_t root = is_paired_ ? demand_.free_roots[offer] : demand_.root[offer];
        const double most = (1.0 - tolerance) * program_.prices()[resources_ + demand] / part(demand);
        if (most <= 0.0) return false;
        set_costs();
        const std::span<std::int32_t> into = std::span(arcs_).first(nodes_), outof = std::span(arcs_).last(nodes_);
        std::ranges::fill(arcs_, -1);
        const auto lay = [&](auto tree) { return tree(away_, into) + (is_paired_ ? tree(towards_, outof) : 0.0); };
        double price = lay([&](TreeFinder& finder, std::span<std::int32_t> arcs) {
            return finder.early(root, demand_.wanted_by(demand, nodes_), cost_, length_, arcs);
        });
        if (price >= most) {
            price = lay([&](TreeFinder& finder, std::span<std::int32_t> arcs) {
                return finder.cheapest(root, demand_.wanted_by(demand, nodes_), cost_, arcs);
            });
        }
        if (price >= most) return false;
        enter_tree(demand, root);
        relax(tolerance);
        return true;
    }

    // Rows that are no longer scarce.
    void relax(double tolerance) {
        const double mean = mean_price();
        while (program_.exchanges() < options_.most_steps && program_.relax(-kScarce * tolerance * mean)) {
        }
    }

    void enter_tree(std::size_t demand, std::int32_t root) {
        std::ranges::fill(entry_, 0.0);
        for (const std::int32_t arc : arcs_) {
            if (arc >= 0) graph_.hold(at(arc), ticks_[at(arc)], entry_);
        }
        std::vector<std::int32_t> rows{static_cast<std::int32_t>(resources_ + demand)};
        std::vector<double> values{-1.0};
        for (std::size_t resource = 0; resource < resources_; ++resource) {
            if (entry_[resource] == 0.0) continue;
            rows.push_back(static_cast<std::int32_t>(resource));
            values.push_back(entry_[resource] * part(demand));
        }
        tree_demand_.push_back(static_cast<std::int32_t>(demand));
        tree_root_.push_back(root);
        tree_arcs_.insert(tree_arcs_.end(), arcs_.begin(), arcs_.end());
        program_.enter(rows, values, 0.0, static_cast<std::int32_t>(tree_root_.size()));
    }

    TreeShares result() const {
        TreeShares made;
        made.steps = program_.exchanges();
        const std::vector<double> together = amounts();
        if (std::ranges::min(together) <= 0.0) return made;
        for (std::size_t row = 0; row < program_.names().size(); ++row) {
            if (program_.names()[row] <= kSpeed) continue;
            const std::size_t tree = at(program_.names()[row]) - 1;
            const double share = program_.amounts()[row] / together[at(tree_demand_[tree])];
            if (share <= kLeastShare) continue;
            const auto arcs = tree_arcs_.begin() + static_cast<std::ptrdiff_t>(2 * tree * nodes_);
            const auto middle = arcs + static_cast<std::ptrdiff_t>(nodes_);
            made.demand.push_back(tree_demand_[tree]);
            made.root.push_back(tree_root_[tree]);
            made.share.push_back(share);
            made.arc_into.insert(made.arc_into.end(), arcs, middle);
            if (is_paired_)
                made.arc_outof.insert(made.arc_outof.end(), middle, middle + static_cast<std::ptrdiff_t>(nodes_));
        }
        made.peak_ticks = peak(made);
        return made;
    }

    // What the trees of each demand carry.
    std::vector<double> amounts() const {
        std::vector<double> together(demands_);
        for (std::size_t row = 0; row < program_.names().size(); ++row) {
            const std::int32_t name = program_.names()[row];
            if (name > kSpeed) together[at(tree_demand_[at(name) - 1])] += program_.amounts()[row];
        }
        return together;
    }

    double peak(const TreeShares& made) const {
        std::vector<double> load(resources_);
        const auto count = [&](const std::vector<std::int32_t>& arcs) {
            for (std::size_t place = 0; place < arcs.size(); ++place) {
                if (arcs[place] < 0) continue;
                const std::size_t tree = place / nodes_, arc = at(arcs[place]);
                const double ticks = made.share[tree] * part(at(made.demand[tree])) * ticks_[arc] * unit_ticks_;
                graph_.hold(arc, ticks, load);
            }
        };
        count(made.arc_into);
        count(made.arc_outof);
        return std::ranges::max(load);
    }

    static constexpr double kLeastShare = 1e-9;

    const ArcGraph& graph_;
    const TreeDemand& demand_;
    const ShareOptions& options_;
    std::size_t nodes_;
    bool is_paired_;
    std::size_t demands_, resources_;
    TreeFinder away_, towards_;
    ColumnProgram program_;
    std::vector<double> ticks_;  // of all bytes on each arc, in units of the mean
    double total_bytes_ = 0.0, unit_ticks_ = 1.0;
    std::vector<double> hop_;  // time on the way, in the same units
    std::vector<double> cost_, length_;
    std::vector<std::int32_t> arcs_;  // of a tree away from its root, then of one towards it
    std::vector<double> entry_;
    std::vector<std::int32_t> tree_demand_, tree_root_, tree_arcs_;
    std::size_t offer_ = 0;
};

}  // namespace

TreeShares share_trees(const ArcGraph& graph, const TreeDemand& demand, const ShareOptions& options) {
    check_demand(graph, demand);
    require(options.hop_ticks.size() == graph.num_arcs(), "every arc needs a time");
    require(!demand.root.empty() && std::ranges::all_of(demand.bytes, [](std::int64_t bytes) { return bytes > 0; }),
            "every demand must be of something");
    require(options.tolerance > 0.0 && options.haste >= 0.0, "tolerance must be positive, haste not negative");
    require(options.tolerance < 1e9 && options.haste < 1e9, "tolerance and haste must be below 1e9");
    for (const double ticks : options.hop_ticks) require(ticks >= 0.0 && ticks < 0x1p62, "hops must take finite time");
    require(options.most_steps >= 0 && options.most_steps <= 10'000'000, "steps must be between 0 and 10,000,000");
    return Sharer(graph, demand, options).share();
}

}  // namespace interlock
