#include "interlock/synthesis/path_routing.hpp"

#include <algorithm>
#include <limits>

#include "interlock/arithmetic.hpp"
#include "interlock/synthesis/prices.hpp"
#include "interlock/synthesis/shortest_tree.hpp"

namespace interlock {
namespace {

class Router {
public:
    Router(const ArcGraph& graph, const PathDemand& demand, const PathOptions& options)
        : graph_(graph),
          demand_(demand),
          options_(options),
          prices_(graph),
          tree_(graph.num_nodes, graph.arc_src, graph.arc_dst),
          length_(graph.num_arcs()),
          paths_(demand.src.size()) {
        cut_into_batches();
    }

    Paths route() {
        prices_.set_slope(kFirstSlope, least_peak());
        for (std::int32_t pass = 0; pass < options_.passes; ++pass) {
            if (pass > 0) {
                prices_.set_slope(kFirstSlope + kSlopePerPass * pass, static_cast<double>(prices_.peak_load()));
            }
            const Shuffle order(batches_.size(), options_.seed * 1000003 + static_cast<std::uint64_t>(pass));
            for (std::size_t step = 0; step < batches_.size(); ++step) lay(batches_[order[step]], pass > 0);
        }
        return collected();
    }

private:
    static constexpr double kFirstSlope = 8.0;
    static constexpr double kSlopePerPass = 16.0;

    struct Batch {
        std::size_t first, last, step;  // demands first, first + step, ... below last
    };

    // The demands of a source are dealt out in turn, so that a batch has destinations everywhere.
    void cut_into_batches() {
        const std::size_t demands = demand_.src.size(), size = at(options_.batch);
        for (std::size_t first = 0; first < demands;) {
            std::size_t last = first;
            while (last < demands && demand_.src[last] == demand_.src[first]) ++last;
            const std::size_t parts = (last - first + size - 1) / size;
            for (std::size_t part = 0; part < parts; ++part) batches_.push_back({first + part, last, parts});
            first = last;
        }
    }

    // If everything took its fastest way and spread evenly: a scale for the first prices.
    double least_peak() {
        double work = 0.0, bytes = 0.0;
        for (const std::int64_t b : demand_.bytes) bytes += static_cast<double>(b);
        const double mean = bytes / static_cast<double>(demand_.bytes.size());
        for (std::size_t arc = 0; arc < length_.size(); ++arc) {
            length_[arc] = static_cast<double>(graph_.overhead_ticks[arc]) + mean * graph_.ticks_per_byte[arc];
        }
        for (std::size_t i = 0; i < demand_.src.size(); ++i) {
            if (i == 0 || demand_.src[i] != demand_.src[i - 1]) tree_.search(demand_.src[i], length_);
            const double distance = tree_.distance()[at(demand_.dst[i])];
            require(std::isfinite(distance), "every destination must be reachable from its source");
            work += distance * static_cast<double>(demand_.bytes[i]) / std::max(1.0, mean);
        }
        return work / static_cast<double>(graph_.num_resources);
    }

    void lay(const Batch& batch, bool has_old) {
        std::int64_t bytes = 0, count = 0;
        for (std::size_t i = batch.first; i < batch.last; i += batch.step) {
            if (has_old) count_path(i, -1);
            bytes += demand_.bytes[i];
            ++count;
        }
        const std::span<const double> cost = prices_.costs(bytes / count);
        const double haste = options_.haste * prices_.mean();
        for (std::size_t arc = 0; arc < length_.size(); ++arc) {
            length_[arc] =
                cost[arc] + haste * static_cast<double>(prices_.ticks(arc, bytes / count) + options_.delay_ticks[arc]);
        }
        tree_.search(demand_.src[batch.first], length_);
        for (std::size_t i = batch.first; i < batch.last; i += batch.step) {
            paths_[i].clear();
            for (std::int32_t node = demand_.dst[i]; node != demand_.src[i];) {
                const std::int32_t arc = tree_.arc_into()[at(node)];
                paths_[i].push_back(arc);
                node = graph_.arc_src[at(arc)];
            }
            count_path(i, 1);
        }
    }
    void count_path(std::size_t i, std::int64_t sign) {
        for (const std::int32_t arc : paths_[i]) prices_.add(arc, demand_.bytes[i], sign);
    }

    Paths collected() {
        Paths made;
        made.offsets.push_back(0);
        for (const std::vector<std::int32_t>& path : paths_) {
            made.arcs.insert(made.arcs.end(), path.rbegin(), path.rend());
            made.offsets.push_back(static_cast<std::int64_t>(made.arcs.size()));
        }
        made.load_ticks = prices_.load();
        return made;
    }

    const ArcGraph& graph_;
    const PathDemand& demand_;
    const PathOptions& options_;
    Prices prices_;
    ShortestTree tree_;
    std::vector<double> length_;
    std::vector<Batch> batches_;
    std::vector<std::vector<std::int32_t>> paths_;  // from the destination back
};

void check(const ArcGraph& graph, const PathDemand& demand, const PathOptions& options) {
    graph.check();
    require(demand.dst.size() == demand.src.size() && demand.bytes.size() == demand.src.size(),
            "every demand needs two ends and a size");
    require_ends(demand.src, demand.dst, graph.num_nodes, "demands must be between nodes of the graph");
    require(std::ranges::is_sorted(demand.src), "demands must be sorted by source");
    double most_bytes = 0.0;
    for (const std::int64_t bytes : demand.bytes) {
        require(bytes >= 0, "sizes must not be negative");
        most_bytes = std::max(most_bytes, static_cast<double>(bytes));
    }
    graph.check_load(most_bytes);
    require(options.passes >= 1 && options.passes <= 100'000 && options.batch >= 1,
            "passes must be between 1 and 100000, batch at least 1");
    require(options.delay_ticks.size() == graph.num_arcs(), "every arc needs a delay");
    for (const std::int64_t delay : options.delay_ticks) {
        require(delay >= 0 && delay < std::int64_t{1} << 62, "delays must be between 0 and 2^62");
    }
    require(options.haste >= 0.0 && options.haste < 1e9, "haste must be between 0 and 1e9");
}

}  // namespace

Paths route_paths(const ArcGraph& graph, const PathDemand& demand, const PathOptions& options) {
    check(graph, demand, options);
    if (demand.src.empty()) return {{0}, {}, std::vector<std::int64_t>(at(graph.num_resources))};
    return Router(graph, demand, options).route();
}

}  // namespace interlock
