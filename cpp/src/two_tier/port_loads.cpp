#include "interlock/two_tier/port_loads.hpp"

#include <algorithm>
#include <optional>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier/lanes.hpp"
#include "interlock/two_tier/parcels.hpp"

namespace interlock {
namespace {

NicLoads direct_loads(std::span<const std::int64_t> demand, const TwoTierDecision& decision) {
    const std::size_t width = decision.width, ranks = decision.servers * width;
    require(demand.size() == ranks * ranks, "demand_bytes must be [ranks, ranks]");
    NicLoads loads{std::vector<std::int64_t>(ranks, 0), std::vector<std::int64_t>(ranks, 0), false};
    for (std::size_t src = 0; src < ranks; ++src) {
        for (std::size_t dst = 0; dst < ranks; ++dst) {
            if (src / width == dst / width) continue;
            loads.out_bytes[src] += demand[src * ranks + dst];
            loads.in_bytes[dst] += demand[src * ranks + dst];
        }
    }
    return loads;
}

}  // namespace

NicLoads port_loads(std::span<const std::int64_t> demand, const TwoTierDecision& decision) {
    if (decision.way == Way::kDirect) return direct_loads(demand, decision);
    const DecidedPlan decided(demand, decision, kEveryone);
    const TwoTierPlan& plan = decided.plan();
    const std::size_t width = plan.width, ranks = plan.servers * width;
    NicLoads loads{std::vector<std::int64_t>(ranks, 0), std::vector<std::int64_t>(ranks, 0), false};
    std::vector<std::int32_t> lanes_out(ranks, 0), lanes_in(ranks, 0);
    std::optional<TileParcels> parcels;
    if (plan.assignment->has_far()) parcels.emplace(demand, *plan.assignment, plan.servers, width);
    std::vector<Lane> scratch;
    for (const Segment& segment : plan.segments) {
        const std::size_t src = to_size(segment.src_server), dst = to_size(segment.dst_server);
        const bool is_first = segment.first_byte == 0;  // lanes are those of the whole tile
        if (!is_first && plan.pace != Pace::kWindow) continue;
        if (parcels) parcels->cut(src, dst);
        for (const Lane& lane :
             parcels ? parcels->lanes() : plan.lanes.of(src, dst, decided.tile_bytes(src, dst), scratch)) {
            const std::size_t out = src * width + to_size(lane.out_gpu), in = dst * width + to_size(lane.in_gpu);
            if (is_first) loads.out_bytes[out] += lane.bytes;
            if (is_first) loads.in_bytes[in] += lane.bytes;
            if (lane.bytes == 0) continue;
            // With a window a lane waits for earlier ones of its NICs.
            const std::int32_t before = std::max(lanes_out[out]++, lanes_in[in]++);
            loads.take_turns |= plan.pace == Pace::kExclusive || !decision.turns.empty() ||
                                (plan.pace == Pace::kWindow && before >= plan.window);
        }
    }
    return loads;
}

double switch_port_seconds(std::span<const std::int64_t> demand, const TwoTierDecision& decision,
                           double port_bytes_per_s) {
    const DecidedPlan decided(demand, decision, kEveryone);
    const TwoTierPlan& plan = decided.plan();
    const std::size_t width = plan.width, ranks = plan.servers * width;
    std::vector<std::int64_t> out(ranks, 0), in(ranks, 0);
    const auto add = [&](std::size_t from, std::size_t to, std::int64_t bytes) {
        if (from == to) return;
        out[from] += bytes;
        in[to] += bytes;
    };
    for (const NearPair& pair : plan.near_pairs) add(to_size(pair.src), to_size(pair.dst), -pair.nic_bytes);
    LaneAssigner assigner(static_cast<std::int32_t>(width), plan.least_part_bytes);
    std::vector<Lane> scratch;
    for (std::size_t tile = 0; tile < plan.servers * plan.servers; ++tile) {
        const std::size_t src = tile / plan.servers * width, dst = tile % plan.servers * width;
        if (src == dst) {
            for (std::size_t pair = 0; pair < width * width; ++pair) {
                const std::size_t from = src + pair / width, to = src + pair % width;
                add(from, to, demand[from * ranks + to]);
            }
            continue;
        }
        const std::int64_t bytes = decided.tile_bytes(src / width, dst / width);
        if (bytes == 0) continue;
        const auto lanes = plan.lanes.of(src / width, dst / width, bytes, scratch);
        const auto loads =
            assigner.assign(demand.data() + src * ranks + dst, ranks, lanes, plan.lanes.hot(src / width, dst / width));
        for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
            for (const auto* parcels : {&loads[lane].own, &loads[lane].helped}) {
                for (const Parcel& parcel : *parcels) {
                    add(src + to_size(parcel.sender), src + to_size(lanes[lane].out_gpu), parcel.bytes);
                    add(dst + to_size(lanes[lane].in_gpu), dst + to_size(parcel.receiver), parcel.bytes);
                }
            }
        }
    }
    return static_cast<double>(std::max(std::ranges::max(out), std::ranges::max(in))) / port_bytes_per_s;
}

}  // namespace interlock
