#include "interlock/two_tier/port_loads.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier/lanes.hpp"
#include "interlock/two_tier/parcels.hpp"
#include "interlock/two_tier/wires.hpp"

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

namespace {

/// Adds up what every port of a plan is busy with, as it will be written.
class PortCount {
public:
    PortCount(const Ports& ports, double message_overhead_s)
        : ports_(ports),
          overhead_s_(message_overhead_s),
          rate_(ports.rates()),
          busy_s_(rate_.size(), 0.0),
          passed_s_(rate_.size(), 0.0) {}

    /// Bytes along a route, whose messages are begun at its first port.
    void add(const Route& route, std::int64_t bytes, double messages) {
        const RoutePorts on(ports_, route);
        for (const std::size_t port : on.all()) busy_s_[port] += static_cast<double>(bytes) / rate_[port];
        if (!on.all().empty()) busy_s_[on.all().front()] += messages * overhead_s_;
    }
    /// Bytes that would go straight inside a server, another way.
    void divert(const Route& route, std::int64_t bytes, double messages) {
        add({route.from, route.to, -1, -1, -1}, -bytes, 0);
        add(route, bytes, messages);
    }
    /// What a wire brought, on its way to its GPU.
    void pass_on(std::int32_t from, std::int32_t to, std::int64_t bytes, double messages) {
        const Route route{from, to, -1, -1, -1};
        add(route, bytes, messages);
        const RoutePorts on(ports_, route);
        for (const std::size_t port : on.all()) passed_s_[port] += static_cast<double>(bytes) / rate_[port];
    }
    [[nodiscard]] PortLevels levels() const {
        PortLevels levels;
        for (std::size_t port = 0; port < busy_s_.size(); ++port) {
            const bool is_inside = port >= 2 * ports_.ranks() && port < ports_.first_uplink();
            double& most = is_inside ? levels.up_s : levels.nic_s;
            most = std::max(most, busy_s_[port]);
            levels.passed_s = std::max(levels.passed_s, passed_s_[port]);
        }
        return levels;
    }

private:
    const Ports& ports_;
    double overhead_s_;
    std::vector<double> rate_, busy_s_, passed_s_;  // [ports]
};

}  // namespace

PortLevels port_levels(std::span<const std::int64_t> demand, const TwoTierDecision& decision, const Ports& ports,
                       double message_overhead_s) {
    const DecidedPlan decided(demand, decision, kEveryone);
    const TwoTierPlan& plan = decided.plan();
    const std::size_t width = plan.width, ranks = plan.servers * width;
    PortCount count(ports, message_overhead_s);
    for (std::size_t src = 0; src < ranks; ++src) {
        for (std::size_t dst = src / width * width; dst < (src / width + 1) * width; ++dst) {
            const std::int64_t bytes = demand[src * ranks + dst];
            if (bytes > 0) count.add({to_int32(src), to_int32(dst), -1, -1, -1}, bytes, 1);
        }
    }
    for (const auto& [route, bytes] : plan.assignment->near)
        count.divert(route, bytes, relay_slices(bytes, route, plan.hop_costs));
    const WireTable table = cut_wires(demand, plan);
    std::vector<std::int32_t> slices(ranks * ranks, 0);  // by NIC out and in
    for (const Wire& wire : table.wires) ++slices[to_size(wire.src) * ranks + to_size(wire.dst)];
    // What hops between two GPUs in one wave is one message.
    std::vector<std::uint8_t> is_begun(2 * to_size(table.num_waves) * ranks * width, 0);
    const auto begins = [&](std::int32_t from, std::int32_t to, std::int32_t wave, std::size_t side) {
        const std::size_t move = (2 * to_size(wave) + side) * ranks + to_size(from);
        return std::exchange(is_begun[move * width + to_size(to) % width], std::uint8_t{1}) == 0 ? 1 : 0;
    };
    double hopping = 0, last = 0;
    std::int32_t before = kNoWire;
    for (const WirePiece& piece : table.pieces) {
        const Wire& wire = table.wires[to_size(piece.wire)];
        const auto [sender, receiver, id, offset, bytes] = piece;
        if (sender != wire.src)
            count.add({sender, wire.src, -1, -1, -1}, bytes, begins(sender, wire.src, wire.balance_wave, 0));
        count.add({wire.src, wire.dst, wire.src, wire.dst, -1}, bytes, std::exchange(before, id) == id ? 0 : 1);
        if (receiver != wire.dst)
            count.pass_on(wire.dst, receiver, bytes, begins(wire.dst, receiver, wire.restore_wave, 1));
        if (sender == wire.src && receiver == wire.dst) continue;
        hopping += static_cast<double>(bytes);
        last += static_cast<double>(bytes) / slices[to_size(wire.src) * ranks + to_size(wire.dst)];
    }
    PortLevels levels = count.levels();
    if (hopping > 0) levels.last_part = last / hopping;
    return levels;
}

}  // namespace interlock
