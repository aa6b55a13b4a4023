#include "interlock/validate/slot_delivery.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <vector>

#include "interlock/arithmetic.hpp"
#include "interlock/limits.hpp"

namespace interlock {
namespace {

/// One bit per node and chunk.
class ChunkBits {
public:
    ChunkBits(std::int32_t num_nodes, std::size_t num_chunks)
        : words_per_node_((num_chunks + 63) / 64), words_(at(num_nodes) * words_per_node_, 0) {}

    [[nodiscard]] bool has(std::int32_t node, std::size_t chunk) const {
        return (words_[at(node) * words_per_node_ + chunk / 64] >> (chunk % 64)) & 1;
    }
    /// False if it was set already.
    bool set(std::int32_t node, std::size_t chunk) {
        std::uint64_t& word = words_[at(node) * words_per_node_ + chunk / 64];
        const std::uint64_t bit = std::uint64_t{1} << (chunk % 64);
        const bool is_new = (word & bit) == 0;
        word |= bit;
        return is_new;
    }

    /// The first chunk from `chunk` on that the node lacks, or num_chunks.
    [[nodiscard]] std::size_t next_missing(std::int32_t node, std::size_t chunk, std::size_t num_chunks) const {
        while (chunk < num_chunks) {
            const std::uint64_t lacks = ~words_[at(node) * words_per_node_ + chunk / 64] >> (chunk % 64);
            if (lacks != 0) return std::min(num_chunks, chunk + static_cast<std::size_t>(std::countr_zero(lacks)));
            chunk = (chunk / 64 + 1) * 64;
        }
        return num_chunks;
    }

private:
    std::size_t words_per_node_;
    std::vector<std::uint64_t> words_;
};

ChunkBits at_start(const ChunkGoal& goal) {
    ChunkBits held(goal.num_nodes, goal.origin.size());
    for (std::size_t chunk = 0; chunk < goal.origin.size(); ++chunk) held.set(goal.origin[chunk], chunk);
    return held;
}

void check_destinations(const ChunkGoal& goal, const ChunkBits& held, Findings& found) {
    const std::size_t num_chunks = goal.origin.size();
    const auto report = [&](std::int32_t node, std::size_t chunk) {
        found.add(Rule::destination_holds, -1, node, static_cast<std::int32_t>(chunk));
    };
    if (goal.destinations.num_rows() == 1) {
        for (const std::int32_t node : goal.destinations[0])
            for (auto c = held.next_missing(node, 0, num_chunks); c < num_chunks;
                 c = held.next_missing(node, c + 1, num_chunks))
                report(node, c);
        return;
    }
    for (std::size_t chunk = 0; chunk < num_chunks; ++chunk)
        for (const std::int32_t node : goal.destinations[chunk])
            if (!held.has(node, chunk)) report(node, chunk);
}

}  // namespace

void ChunkGoal::check() const {
    require(num_nodes > 0 && num_nodes <= kMostNodes, "num_nodes must be between 1 and 1,000,000");
    require(link_src.size() == link_dst.size(), "link columns must have equal length");
    require(origin.size() < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()),
            "at most 2^31 - 2 chunks");
    destinations.check(destinations.num_rows() == 1 ? 1 : origin.size(), "destinations");
    for (const auto nodes : {origin, destinations.values, link_src, link_dst})
        require_ids(nodes, num_nodes, "every node must be one of the graph");
}

template <typename Chunk>
SlotCheck check_slot_table(std::span<const Chunk> table, const ChunkGoal& goal, bool is_reversed) {
    goal.check();
    constexpr Chunk kNothing = std::numeric_limits<Chunk>::max();
    const std::size_t num_links = goal.link_src.size();
    require(num_links > 0 ? table.size() % num_links == 0 : table.empty(), "the table must have one column per link");
    const auto from = is_reversed ? goal.link_dst : goal.link_src;
    const auto to = is_reversed ? goal.link_src : goal.link_dst;
    const std::size_t num_slots = num_links > 0 ? table.size() / num_links : 0;
    SlotCheck result;
    ChunkBits held = at_start(goal);
    std::vector<std::size_t> sending;  // links, in this slot
    for (std::size_t step = 0; step < num_slots; ++step) {
        const std::size_t first = (is_reversed ? num_slots - 1 - step : step) * num_links;
        const auto report = [&](Rule rule, std::size_t link, std::int32_t node) {
            const auto chunk = static_cast<std::int64_t>(table[first + link]);
            const auto item = chunk < std::numeric_limits<std::int32_t>::max() ? static_cast<std::int32_t>(chunk) : -1;
            result.found.add(rule, static_cast<std::int64_t>(first + link), node, item);
        };
        sending.clear();
        for (std::size_t link = 0; link < num_links; ++link) {
            const Chunk chunk = table[first + link];
            if (chunk == kNothing) continue;
            if (chunk >= goal.origin.size()) {
                report(Rule::item_exists, link, -1);
                continue;
            }
            if (!held.has(from[link], chunk)) report(Rule::held_before_sent, link, from[link]);
            sending.push_back(link);
        }
        // Only now: what arrives in a slot can be sent in the next one.
        for (const std::size_t link : sending)
            if (!held.set(to[link], table[first + link])) report(Rule::arrives_once, link, to[link]);
        result.num_transfers += static_cast<std::int64_t>(sending.size());
    }
    check_destinations(goal, held, result.found);
    return result;
}

template SlotCheck check_slot_table(std::span<const std::uint16_t>, const ChunkGoal&, bool);
template SlotCheck check_slot_table(std::span<const std::uint32_t>, const ChunkGoal&, bool);

template <typename Chunk>
std::vector<std::int32_t> slot_table_roots(std::span<const Chunk> table, std::span<const std::int32_t> link_src,
                                           std::size_t num_chunks, std::int32_t num_ranks) {
    const std::size_t num_links = link_src.size();
    require(num_links > 0 ? table.size() % num_links == 0 : table.empty(), "the table must have one column per link");
    require(num_ranks > 0 && num_ranks <= kMostNodes, "num_ranks must be between 1 and 1,000,000");
    require(num_chunks <= std::size_t{1} << 26, "at most 2^26 chunks");
    for (const std::int32_t node : link_src) require(node >= 0, "every node must be one of the graph");
    // Of all ranks but one, the sum of their numbers tells which one is missing.
    const std::int64_t everyone = std::int64_t{num_ranks} * (num_ranks - 1) / 2;
    std::vector<std::int64_t> missing(num_chunks, everyone);
    std::vector<std::int32_t> num_senders(num_chunks, 0);
    for (std::size_t first = 0; first < table.size(); first += num_links) {
        for (std::size_t link = 0; link < num_links; ++link) {
            const Chunk chunk = table[first + link];
            if (chunk >= num_chunks) continue;
            missing[chunk] -= link_src[link];
            ++num_senders[chunk];
        }
    }
    std::vector<std::int32_t> roots(num_chunks, -1);
    for (std::size_t chunk = 0; chunk < num_chunks; ++chunk)
        if (num_senders[chunk] == num_ranks - 1 && missing[chunk] >= 0 && missing[chunk] < num_ranks)
            roots[chunk] = static_cast<std::int32_t>(missing[chunk]);
    return roots;
}

template std::vector<std::int32_t> slot_table_roots(std::span<const std::uint16_t>, std::span<const std::int32_t>,
                                                    std::size_t, std::int32_t);
template std::vector<std::int32_t> slot_table_roots(std::span<const std::uint32_t>, std::span<const std::int32_t>,
                                                    std::size_t, std::int32_t);

}  // namespace interlock
