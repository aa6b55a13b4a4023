#include "interlock/synthesis/slot_replay.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"

namespace interlock {
namespace {

template <typename Slot, typename Time>
std::int64_t replay(std::span<const Slot> table, std::span<const std::int32_t> link_src,
                    std::span<const std::int32_t> link_dst, std::int32_t num_nodes, std::int32_t num_chunks) {
    const std::size_t links = link_src.size(), chunks = at(num_chunks);
    std::vector<Time> there(at(num_nodes) * chunks), free(links), ended;
    Time last = 0;
    for (std::size_t row = 0; row < table.size(); row += links) {
        // What arrives in a slot is not there for others of the same slot.
        ended.assign(links, 0);
        for (std::size_t link = 0; link < links; ++link) {
            const Slot chunk = table[row + link];
            if (chunk == std::numeric_limits<Slot>::max()) continue;
            require(chunk < chunks, "the table must name known chunks");
            const Time start = std::max(free[link], there[at(link_src[link]) * chunks + chunk]);
            ended[link] = free[link] = static_cast<Time>(start + 1);
            last = std::max(last, ended[link]);
        }
        for (std::size_t link = 0; link < links; ++link) {
            if (ended[link] == 0) continue;
            Time& arrival = there[at(link_dst[link]) * chunks + table[row + link]];
            arrival = std::max(arrival, ended[link]);
        }
    }
    return static_cast<std::int64_t>(last);
}

}  // namespace

template <typename Slot>
std::int64_t replay_slots(std::span<const Slot> table, std::span<const std::int32_t> link_src,
                          std::span<const std::int32_t> link_dst, std::int32_t num_nodes, std::int32_t num_chunks) {
    const std::size_t links = link_src.size();
    require(num_nodes >= 1 && num_chunks >= 0, "there must be nodes");
    require(std::int64_t{num_nodes} * num_chunks <= std::int64_t{1} << 32, "nodes times chunks must be at most 2^32");
    require(links > 0 && link_dst.size() == links && table.size() % links == 0,
            "the table must have one column per link");
    require_ends(link_src, link_dst, num_nodes, "links must join nodes of the graph");
    const std::size_t slots = table.size() / links;
    if (slots < std::numeric_limits<std::uint16_t>::max()) {
        return replay<Slot, std::uint16_t>(table, link_src, link_dst, num_nodes, num_chunks);
    }
    return replay<Slot, std::uint32_t>(table, link_src, link_dst, num_nodes, num_chunks);
}

template std::int64_t replay_slots<std::uint16_t>(std::span<const std::uint16_t>, std::span<const std::int32_t>,
                                                  std::span<const std::int32_t>, std::int32_t, std::int32_t);
template std::int64_t replay_slots<std::uint32_t>(std::span<const std::uint32_t>, std::span<const std::int32_t>,
                                                  std::span<const std::int32_t>, std::int32_t, std::int32_t);

}  // namespace interlock
