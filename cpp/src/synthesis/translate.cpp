#include "interlock/synthesis/translate.hpp"

#include <algorithm>
#include <queue>

#include "interlock/arithmetic.hpp"
#include "interlock/limits.hpp"
#include "interlock/synthesis/arc_graph.hpp"

namespace interlock {
namespace {

/// Symmetries found so far, by their image of rank 0.
class Closure {
public:
    Closure(std::int32_t num_nodes, std::int32_t num_ranks)
        : nodes_(at(num_nodes)), place_(at(num_ranks), -1), images_(nodes_) {
        for (std::size_t node = 0; node < nodes_; ++node) images_[node] = static_cast<std::int32_t>(node);
        place_[0] = 0;
    }

    /// Closes over the generators; false if two symmetries agree on rank 0 and differ elsewhere.
    bool close(std::span<const std::span<const std::int32_t>> generators) {
        std::vector<std::int32_t> moved(nodes_);
        for (std::size_t done = 0; done * nodes_ < images_.size(); ++done) {
            for (const std::span<const std::int32_t> generator : generators) {
                for (std::size_t node = 0; node < nodes_; ++node) {
                    moved[node] = generator[at(images_[done * nodes_ + node])];
                }
                if (at(moved[0]) >= place_.size()) return false;
                std::int32_t& place = place_[at(moved[0])];
                if (place < 0) {
                    place = static_cast<std::int32_t>(images_.size() / nodes_);
                    images_.insert(images_.end(), moved.begin(), moved.end());
                } else if (!std::equal(moved.begin(), moved.end(),
                                       images_.begin() + place * static_cast<std::ptrdiff_t>(nodes_))) {
                    return false;
                }
            }
        }
        return true;
    }

    /// Rows by image of rank 0; empty unless every rank is one.
    [[nodiscard]] std::vector<std::int32_t> by_rank() const {
        if (std::ranges::find(place_, -1) != place_.end()) return {};
        std::vector<std::int32_t> rows;
        rows.reserve(images_.size());
        for (const std::int32_t place : place_) {
            const auto first = images_.begin() + place * static_cast<std::ptrdiff_t>(nodes_);
            rows.insert(rows.end(), first, first + static_cast<std::ptrdiff_t>(nodes_));
        }
        return rows;
    }

private:
    std::size_t nodes_;
    std::vector<std::int32_t> place_, images_;
};

/// Whether it leaves no rank where it is: another symmetry would move rank 0 there as well.
bool moves_all(std::span<const std::int32_t> generator, std::int32_t num_ranks) {
    for (std::int32_t rank = 0; rank < num_ranks; ++rank) {
        if (generator[at(rank)] == rank) return false;
    }
    return true;
}

class Grower {
public:
    Grower(const OrbitGraph& graph, std::int32_t num_chunks, std::uint64_t seed)
        : graph_(graph),
          num_orbits_(graph.orbit_ticks.size()),
          state_(seed),
          is_taken_(at(graph.num_ranks) * at(num_chunks)),
          frontier_(num_orbits_),
          free_at_(at(graph.num_resources)) {
        left_ = (at(graph.num_ranks) - 1) * at(num_chunks);
        for (std::int32_t chunk = 0; chunk < num_chunks; ++chunk) {
            is_taken_[place(chunk, 0)] = 1;
            hold(chunk, 0);
        }
    }

    Growth run() {
        std::int64_t now = 0;
        while (true) {
            serve(now, true);
            // Faster orbits may lead nowhere new: then slow ones must do.
            if (events_.empty()) serve(now, false);
            if (events_.empty()) break;
            now = events_.top().ticks;
            while (!events_.empty() && events_.top().ticks == now) {
                if (events_.top().rank >= 0) hold(events_.top().chunk, events_.top().rank);
                events_.pop();
            }
        }
        require(left_ == 0, "every rank must be reachable from rank 0");
        return std::move(growth_);
    }

private:
    struct Event {
        std::int64_t ticks;
        std::int32_t chunk, rank;  // rank -1: an orbit becomes free
        bool operator>(const Event& other) const {
            if (ticks != other.ticks) return ticks > other.ticks;
            if (rank != other.rank) return rank > other.rank;
            return chunk > other.chunk;
        }
    };

    [[nodiscard]] std::size_t place(std::int32_t chunk, std::int32_t rank) const {
        return at(chunk) * at(graph_.num_ranks) + at(rank);
    }
    std::uint64_t random() { return scramble(state_++); }

    // A rank that has a chunk may send it over every orbit that leads somewhere new.
    void hold(std::int32_t chunk, std::int32_t rank) {
        for (std::size_t orbit = 0; orbit < num_orbits_; ++orbit) {
            const std::int32_t next = graph_.next[at(rank) * num_orbits_ + orbit];
            if (!is_taken_[place(chunk, next)]) frontier_[orbit].push_back({chunk, rank});
        }
    }

    bool is_free(std::size_t orbit, std::int64_t now) const {
        for (const std::int32_t resource : graph_.orbit_resources[orbit]) {
            if (free_at_[at(resource)] > now) return false;
        }
        return true;
    }

    // Could the faster orbits take all that is left before this one is done with a chunk?
    bool is_too_slow(std::size_t orbit, std::int64_t now) const {
        const std::int64_t end = now + graph_.orbit_ticks[orbit];
        std::size_t others = 0;
        for (std::size_t other = 0; other < num_orbits_ && others < left_; ++other) {
            if (graph_.orbit_ticks[other] >= graph_.orbit_ticks[orbit]) continue;
            std::int64_t from = now;
            for (const std::int32_t resource : graph_.orbit_resources[other]) {
                from = std::max(from, free_at_[at(resource)]);
            }
            if (end > from) others += static_cast<std::size_t>((end - from) / graph_.orbit_ticks[other]);
        }
        return others >= left_;
    }

    void serve(std::int64_t now, bool spares_slow_orbits) {
        // Orbits with the fewest choices choose first.
        order_.clear();
        for (std::size_t orbit = 0; orbit < num_orbits_; ++orbit) {
            if (!frontier_[orbit].empty() && is_free(orbit, now)) order_.push_back(orbit);
        }
        std::ranges::stable_sort(order_, {}, [&](std::size_t orbit) { return frontier_[orbit].size(); });
        for (const std::size_t orbit : order_) {
            if (left_ == 0) return;
            if (is_free(orbit, now) && !(spares_slow_orbits && is_too_slow(orbit, now))) send(orbit, now);
        }
    }

    void send(std::size_t orbit, std::int64_t now) {
        std::vector<std::pair<std::int32_t, std::int32_t>>& choices = frontier_[orbit];
        while (!choices.empty()) {
            const std::size_t pick = random() % choices.size();
            const auto [chunk, rank] = choices[pick];
            choices[pick] = choices.back();
            choices.pop_back();
            const std::int32_t next = graph_.next[at(rank) * num_orbits_ + orbit];
            if (is_taken_[place(chunk, next)]) continue;
            is_taken_[place(chunk, next)] = 1;
            --left_;
            const std::int64_t end = now + graph_.orbit_ticks[orbit], arrival = end + graph_.orbit_latency_ticks[orbit];
            for (const std::int32_t resource : graph_.orbit_resources[orbit]) free_at_[at(resource)] = end;
            events_.push({arrival, chunk, next});
            if (arrival != end) events_.push({end, chunk, -1});
            growth_.route.push_back(static_cast<std::int32_t>(at(rank) * num_orbits_ + orbit));
            growth_.chunk.push_back(chunk);
            growth_.start_ticks.push_back(now);
            growth_.makespan_ticks = std::max(growth_.makespan_ticks, arrival);
            return;
        }
    }

    const OrbitGraph& graph_;
    std::size_t num_orbits_;
    std::uint64_t state_;
    std::vector<std::uint8_t> is_taken_;  // held or on the way
    std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> frontier_;
    std::vector<std::int64_t> free_at_;
    std::vector<std::size_t> order_;
    std::size_t left_ = 0;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    Growth growth_;
};

void check(const OrbitGraph& graph) {
    const std::size_t orbits = graph.orbit_ticks.size();
    require(graph.num_resources >= 0 && graph.num_resources <= 50'000'000, "there are at most 50,000,000 resources");
    require(graph.num_ranks >= 1 && graph.next.size() == at(graph.num_ranks) * orbits,
            "every orbit must lead somewhere");
    require(graph.orbit_latency_ticks.size() == orbits, "every orbit needs a latency");
    graph.orbit_resources.check(orbits, "orbit_resources");
    require_ids(graph.next, graph.num_ranks, "orbits must lead to ranks");
    for (const std::int64_t ticks : graph.orbit_ticks)
        require(ticks > 0 && ticks <= std::int64_t{1} << 61, "every orbit must take time, at most 2^61 ticks");
    for (const std::int64_t ticks : graph.orbit_latency_ticks)
        require(ticks >= 0 && ticks <= std::int64_t{1} << 61, "latencies must be between 0 and 2^61 ticks");
    require_ids(graph.orbit_resources.values, graph.num_resources, "orbits must hold known resources");
}

}  // namespace

std::vector<std::int32_t> translations(std::span<const std::int32_t> generators, std::int32_t num_nodes,
                                       std::int32_t num_ranks) {
    require(num_nodes <= kMostNodes && num_ranks >= 1 && num_ranks <= num_nodes,
            "ranks must be nodes, of at most 1,000,000");
    require(generators.size() % at(num_nodes) == 0, "generators must have one entry per node");
    require_ids(generators, num_nodes, "generators must move nodes to nodes");
    std::vector<std::span<const std::int32_t>> used;
    Closure best(num_nodes, num_ranks);
    for (std::size_t first = 0; first < generators.size(); first += at(num_nodes)) {
        if (!moves_all(generators.subspan(first, at(num_nodes)), num_ranks)) continue;
        used.push_back(generators.subspan(first, at(num_nodes)));
        Closure wider(num_nodes, num_ranks);
        if (wider.close(used)) {
            best = std::move(wider);
        } else {
            used.pop_back();
        }
    }
    return best.by_rank();
}

Growth grow(const OrbitGraph& graph, std::int32_t num_chunks, std::uint64_t seed) {
    check(graph);
    require(num_chunks >= 0 && std::int64_t{num_chunks} * graph.num_ranks <= std::int64_t{1} << 27,
            "chunks of all ranks must be between 0 and 2^27");
    return Grower(graph, num_chunks, seed).run();
}

}  // namespace interlock
