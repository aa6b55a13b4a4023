#include "interlock/synthesis/random_match.hpp"

#include <algorithm>
#include <bit>
#include <queue>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/synthesis/arc_graph.hpp"

namespace interlock {
namespace {

class Matcher {
public:
    Matcher(const TimedLinks& links, std::span<const std::int32_t> origin, std::span<const std::uint8_t> wanted,
            std::uint64_t seed)
        : links_(links),
          wanted_(wanted),
          state_(seed),
          words_((origin.size() + 63) / 64),
          into_(arcs_by_end(links.num_nodes, links.link_dst)),
          outof_(arcs_by_end(links.num_nodes, links.link_src)),
          held_(at(links.num_nodes) * words_),
          taken_(held_.size()),
          free_at_(links.link_src.size()),
          is_touched_(at(links.num_nodes)) {
        for (std::size_t chunk = 0; chunk < origin.size(); ++chunk) {
            mark(held_, origin[chunk], static_cast<std::int32_t>(chunk));
            mark(taken_, origin[chunk], static_cast<std::int32_t>(chunk));
        }
        for (std::int32_t node = 0; node < links.num_nodes; ++node) {
            if (wanted[at(node)] == 0) continue;
            touch(node);
            for (const std::int32_t owner : origin) left_ += owner != node ? 1 : 0;
        }
    }

    RandomMatching run() {
        std::int64_t now = 0;
        while (true) {
            match(now);
            if (events_.empty()) break;
            now = events_.top().ticks;
            while (!events_.empty() && events_.top().ticks == now) {
                arrive(events_.top());
                events_.pop();
            }
        }
        require(left_ == 0, "every node that wants a chunk must be reachable through others that do");
        return std::move(made_);
    }

private:
    struct Event {
        std::int64_t ticks;
        std::int32_t node;
        std::int32_t chunk;  // -1: a link into the node is free again
        bool operator>(const Event& other) const {
            if (ticks != other.ticks) return ticks > other.ticks;
            if (node != other.node) return node > other.node;
            return chunk > other.chunk;
        }
    };

    void mark(std::vector<std::uint64_t>& bits, std::int32_t node, std::int32_t chunk) const {
        bits[at(node) * words_ + at(chunk) / 64] |= std::uint64_t{1} << (at(chunk) % 64);
    }
    bool holds(std::int32_t node, std::int32_t chunk) const {
        return (held_[at(node) * words_ + at(chunk) / 64] >> (at(chunk) % 64) & 1) != 0;
    }
    void touch(std::int32_t node) {
        if (wanted_[at(node)] == 0 || is_touched_[at(node)] != 0) return;
        is_touched_[at(node)] = 1;
        touched_.push_back(node);
    }
    std::uint64_t random() { return scramble(state_++); }

    // What a node receives, those behind it may now take from it.
    void arrive(const Event& event) {
        touch(event.node);
        if (event.chunk < 0) return;
        mark(held_, event.node, event.chunk);
        for (const std::int32_t link : outof_[event.node]) touch(links_.link_dst[at(link)]);
    }

    void match(std::int64_t now) {
        std::ranges::sort(touched_);
        for (const std::int32_t node : touched_) {
            is_touched_[at(node)] = 0;
            match_node(node, now);
        }
        touched_.clear();
    }

    void match_node(std::int32_t node, std::int64_t now) {
        free_.clear();
        for (const std::int32_t link : into_[node]) {
            if (free_at_[at(link)] <= now) free_.push_back(link);
        }
        if (free_.empty()) return;
        // All chunks start now, so the fastest link arrives first; among equals, any.
        for (std::size_t last = free_.size(); last > 1; --last)
            std::swap(free_[below(random(), last)], free_[last - 1]);
        std::ranges::stable_sort(free_, {}, [&](std::int32_t link) {
            return links_.link_ticks[at(link)] + links_.link_latency_ticks[at(link)];
        });
        list_offers(node);
        for (std::size_t last = offers_.size(); last > 0 && !free_.empty(); --last) {
            std::swap(offers_[below(random(), last)], offers_[last - 1]);
            const std::int32_t chunk = offers_[last - 1];
            const auto link = std::ranges::find_if(
                free_, [&](std::int32_t candidate) { return holds(links_.link_src[at(candidate)], chunk); });
            if (link == free_.end()) continue;
            send(*link, chunk, now);
            free_.erase(link);
        }
    }

    // Chunks that the node lacks and that some free link could bring.
    void list_offers(std::int32_t node) {
        offers_.clear();
        for (std::size_t word = 0; word < words_; ++word) {
            std::uint64_t offered = 0;
            for (const std::int32_t link : free_) offered |= held_[at(links_.link_src[at(link)]) * words_ + word];
            offered &= ~taken_[at(node) * words_ + word];
            for (; offered != 0; offered &= offered - 1) {
                offers_.push_back(static_cast<std::int32_t>(word * 64) + std::countr_zero(offered));
            }
        }
    }

    void send(std::int32_t link, std::int32_t chunk, std::int64_t now) {
        const std::int32_t node = links_.link_dst[at(link)];
        const std::int64_t end = now + links_.link_ticks[at(link)], arrival = end + links_.link_latency_ticks[at(link)];
        mark(taken_, node, chunk);
        free_at_[at(link)] = end;
        events_.push({arrival, node, chunk});
        if (arrival != end) events_.push({end, node, -1});
        --left_;
        made_.link.push_back(link);
        made_.chunk.push_back(chunk);
        made_.start_ticks.push_back(now);
        made_.makespan_ticks = std::max(made_.makespan_ticks, arrival);
    }

    const TimedLinks& links_;
    std::span<const std::uint8_t> wanted_;
    std::uint64_t state_;
    std::size_t words_;
    Adjacency into_, outof_;
    std::vector<std::uint64_t> held_, taken_;  // [num_nodes, words]; taken: held or on the way
    std::vector<std::int64_t> free_at_;
    std::vector<std::uint8_t> is_touched_;
    std::vector<std::int32_t> touched_, free_, offers_;
    std::size_t left_ = 0;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    RandomMatching made_;
};

}  // namespace

RandomMatching match_randomly(const TimedLinks& links, std::span<const std::int32_t> origin,
                              std::span<const std::uint8_t> wanted, std::uint64_t seed) {
    const std::size_t count = links.link_src.size();
    require(links.num_nodes >= 1 && wanted.size() == at(links.num_nodes), "every node must want the chunks or not");
    require(
        links.link_dst.size() == count && links.link_ticks.size() == count && links.link_latency_ticks.size() == count,
        "every link needs two ends and its times");
    require_ends(links.link_src, links.link_dst, links.num_nodes, "links must join nodes of the graph");
    for (std::size_t link = 0; link < count; ++link) {
        require(links.link_ticks[link] > 0 && links.link_latency_ticks[link] >= 0, "every link must take time");
        // Nodes get chunks one after the other at worst.
        const double most =
            static_cast<double>(links.link_ticks[link]) + static_cast<double>(links.link_latency_ticks[link]);
        require(most * static_cast<double>(wanted.size()) * static_cast<double>(origin.size()) < 0x1p62,
                "all transfers one after the other must end before tick 2^62");
    }
    require_ids(origin, links.num_nodes, "chunks must start at nodes");
    return Matcher(links, origin, wanted, seed).run();
}

}  // namespace interlock
