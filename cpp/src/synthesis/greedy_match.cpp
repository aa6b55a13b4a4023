#include "interlock/synthesis/greedy_match.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <bit>
#include <limits>
#include <thread>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/synthesis/arc_graph.hpp"

namespace interlock {
namespace {

struct Delivery {
    std::int32_t node;
    std::int32_t chunk;
};

/// The nodes one thread decides for. Choices read only the holdings before the round, so threads never wait for each
/// other within it and their number does not matter.
template <typename Slot>
class Matcher {
public:
    Matcher(const MatchGraph& graph, const Holdings& holdings, const MatchOptions& options, const Adjacency& into,
            std::int32_t first_node, std::int32_t last_node)
        : graph_(graph), holdings_(holdings), options_(options), into_(into), words_((at(graph.num_chunks) + 63) / 64) {
        for (std::int32_t node = first_node; node < last_node; ++node) {
            if (holdings.missing[at(node)] > 0) active_.push_back(node);
        }
    }

    /// Chooses for every link into this thread's nodes; returns how many chunks will move.
    std::size_t choose(std::int64_t round, Slot* row) {
        deliveries_.clear();
        const std::uint64_t salt = scramble(options_.seed ^ (static_cast<std::uint64_t>(round) << 20));
        for (std::size_t i = 0; i < active_.size(); ++i) {
            if (i + kAhead < active_.size()) prefetch(active_[i + kAhead], salt);
            choose_for(active_[i], salt, row);
        }
        return deliveries_.size();
    }

    void deliver() {
        for (const auto [node, chunk] : deliveries_) {
            held(node)[at(chunk) / 64] |= std::uint64_t{1} << (at(chunk) % 64);
            std::atomic_ref(holdings_.holders[at(chunk)]).fetch_add(1, std::memory_order_relaxed);
            --holdings_.missing[at(node)];
        }
        std::erase_if(active_, [&](std::int32_t node) { return holdings_.missing[at(node)] == 0; });
    }

private:
    static constexpr std::size_t kAhead = 4;

    std::uint64_t* held(std::int32_t node) const { return holdings_.held.data() + at(node) * words_; }
    std::size_t first_word(std::int32_t node, std::uint64_t salt) const {
        return below(scramble(salt + static_cast<std::uint64_t>(node)), words_);
    }
    void prefetch(std::int32_t node, std::uint64_t salt) const {
        const std::size_t word = first_word(node, salt);
        __builtin_prefetch(held(node) + word);
        for (const std::int32_t link : into_[node]) __builtin_prefetch(held(graph_.link_src[at(link)]) + word);
    }

    void choose_for(std::int32_t node, std::uint64_t salt, Slot* row) {
        const std::span<const std::int32_t> links = into_[node];
        const std::size_t first = deliveries_.size(), start = first_word(node, salt);
        // Which link chooses first changes from round to round.
        std::size_t turn = below(scramble(salt ^ (static_cast<std::uint64_t>(node) << 32)), links.size());
        std::int32_t lacks = holdings_.missing[at(node)];
        for (std::size_t k = 0; k < links.size() && lacks > 0; ++k) {
            const std::int32_t link = links[turn];
            if (++turn == links.size()) turn = 0;
            const std::int32_t chunk = rarest(held(graph_.link_src[at(link)]), held(node), start, first);
            if (chunk < 0) continue;
            row[link] = static_cast<Slot>(chunk);
            deliveries_.push_back({node, chunk});
            --lacks;
        }
    }

    // The chunk with the fewest holders among the first few that the source has, the node lacks and nobody brings yet.
    std::int32_t rarest(const std::uint64_t* source, const std::uint64_t* own, std::size_t word,
                        std::size_t first) const {
        std::int32_t best = -1, seen = 0;
        std::uint32_t fewest = std::numeric_limits<std::uint32_t>::max();
        for (std::size_t i = 0; i < words_; ++i) {
            std::uint64_t offered = source[word] & ~own[word];
            while (offered != 0) {
                const auto chunk = static_cast<std::int32_t>(word * 64) + std::countr_zero(offered);
                offered &= offered - 1;
                if (is_chosen(chunk, first)) continue;
                if (holdings_.holders[at(chunk)] < fewest) {
                    fewest = holdings_.holders[at(chunk)];
                    best = chunk;
                }
                if (++seen == options_.candidates) return best;
            }
            if (++word == words_) word = 0;
        }
        return best;
    }
    bool is_chosen(std::int32_t chunk, std::size_t first) const {
        for (std::size_t i = first; i < deliveries_.size(); ++i) {
            if (deliveries_[i].chunk == chunk) return true;
        }
        return false;
    }

    const MatchGraph& graph_;
    const Holdings& holdings_;
    const MatchOptions& options_;
    const Adjacency& into_;
    std::size_t words_;
    std::vector<std::int32_t> active_;
    std::vector<Delivery> deliveries_;
};

void check(const MatchGraph& graph, const Holdings& holdings, const MatchOptions& options) {
    const std::size_t words = (at(graph.num_chunks) + 63) / 64;
    require(graph.num_nodes >= 1 && graph.num_chunks >= 1, "there must be nodes and chunks");
    require(graph.link_src.size() == graph.link_dst.size(), "every link needs both ends");
    require_ends(graph.link_src, graph.link_dst, graph.num_nodes, "links must join nodes of the graph");
    require(holdings.held.size() == at(graph.num_nodes) * words && holdings.holders.size() == at(graph.num_chunks) &&
                holdings.missing.size() == at(graph.num_nodes),
            "holdings must have one entry per node and chunk");
    const std::uint64_t beyond = graph.num_chunks % 64 == 0 ? 0 : ~std::uint64_t{0} << (graph.num_chunks % 64);
    for (std::size_t last = words - 1; last < holdings.held.size(); last += words) {
        require((holdings.held[last] & beyond) == 0, "nodes must hold no chunks beyond the last");
    }
    require(options.first_round >= 0 && options.first_round <= std::int64_t{1} << 62,
            "first_round must be at most 2^62");
    require(options.candidates >= 1 && options.threads >= 1 && options.threads <= 1024,
            "candidates must be at least 1, threads between 1 and 1024");
}

}  // namespace

template <typename Slot>
std::size_t match_rounds(const MatchGraph& graph, const Holdings& holdings, const MatchOptions& options,
                         std::span<Slot> table) {
    check(graph, holdings, options);
    const std::size_t links = graph.link_src.size();
    require(links > 0 && table.size() % links == 0, "the table must have one column per link");
    require(at(graph.num_chunks) <= std::numeric_limits<Slot>::max(), "the table's type is too small for the chunks");
    const Adjacency into = arcs_by_end(graph.num_nodes, graph.link_dst);
    const std::size_t rows = table.size() / links;
    std::fill(table.begin(), table.end(), std::numeric_limits<Slot>::max());

    const auto threads = std::min(options.threads, graph.num_nodes);
    std::vector<Matcher<Slot>> matchers;
    for (std::int32_t t = 0; t < threads; ++t) {
        const auto bound = [&](std::int32_t k) {
            return static_cast<std::int32_t>(static_cast<std::int64_t>(graph.num_nodes) * k / threads);
        };
        matchers.emplace_back(graph, holdings, options, into, bound(t), bound(t + 1));
    }

    std::atomic<std::size_t> moved{0};
    std::size_t done = 0, last_moved = 0;
    bool is_over = rows == 0;
    std::barrier chosen(threads), delivered(threads, [&]() noexcept {
        last_moved = moved.exchange(0);
        if (last_moved > 0) ++done;
        is_over = last_moved == 0 || done == rows;
    });
    const auto work = [&](Matcher<Slot>& matcher) {
        while (!is_over) {
            moved += matcher.choose(options.first_round + static_cast<std::int64_t>(done), table.data() + done * links);
            chosen.arrive_and_wait();
            matcher.deliver();
            delivered.arrive_and_wait();
        }
    };
    {
        std::vector<std::jthread> others;
        for (std::size_t t = 1; t < matchers.size(); ++t) others.emplace_back([&, t] { work(matchers[t]); });
        work(matchers[0]);
    }
    const bool is_stuck = done < rows && std::ranges::any_of(holdings.missing, [](std::int32_t m) { return m > 0; });
    require(!is_stuck, "every node must be reachable from every chunk's holder");
    return done;
}

template std::size_t match_rounds<std::uint16_t>(const MatchGraph&, const Holdings&, const MatchOptions&,
                                                 std::span<std::uint16_t>);
template std::size_t match_rounds<std::uint32_t>(const MatchGraph&, const Holdings&, const MatchOptions&,
                                                 std::span<std::uint32_t>);

}  // namespace interlock
