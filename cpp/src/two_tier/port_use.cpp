#include "interlock/two_tier/port_use.hpp"

#include <algorithm>

#include "interlock/port_swaps.hpp"

namespace interlock {
namespace {

std::size_t to_size(std::int32_t value) { return static_cast<std::size_t>(value); }
std::int32_t to_int32(std::size_t value) { return static_cast<std::int32_t>(value); }

/// Of a way: all of it, what comes before or after the wire, or one of two around a link.
enum class Leg { kStraight, kBefore, kAfter, kAround };

class Counter {
public:
    Counter(std::span<const std::int64_t> demand, const Ports& ports)
        : demand_(demand), ports_(ports), before_(ports.ranks() * ports.width, 0.0), after_(before_) {
        use_.bytes.assign(ports.count(), 0.0);
        use_.hops.assign(ports.count(), 0.0);
    }

    void hop(std::size_t from, std::size_t to, double bytes, Leg leg) {
        if (from == to || bytes <= 0) return;
        const RoutePorts on(ports_, {to_int32(from), to_int32(to), -1, -1, -1});
        for (const std::size_t port : on.all()) {
            use_.bytes[port] += bytes;
            if (leg != Leg::kStraight) use_.hops[port] += bytes;
        }
        if (leg == Leg::kBefore) before_[from * ports_.width + to % ports_.width] += bytes;
        if (leg == Leg::kAfter) after_[from * ports_.width + to % ports_.width] += bytes;
    }

    void wire(std::size_t out, std::size_t in, double bytes) {
        const auto src = to_int32(out), dst = to_int32(in);
        const RoutePorts on(ports_, {src, dst, src, dst, -1});
        for (const std::size_t port : on.all()) use_.bytes[port] += bytes;
    }

    void port(std::size_t port, double bytes) { use_.bytes[port] += bytes; }

    /// Bytes inside servers, straight.
    void near() {
        const std::size_t ranks = ports_.ranks();
        for (std::size_t src = 0; src < ranks; ++src) {
            const std::size_t first = src / ports_.width * ports_.width;
            for (std::size_t dst = first; dst < first + ports_.width; ++dst) {
                hop(src, dst, static_cast<double>(demand_[src * ranks + dst]), Leg::kStraight);
            }
        }
    }

    /// Takes bytes of a pair inside a server off the straight way.
    void divert(std::size_t src, std::size_t dst, double bytes) {
        const RoutePorts on(ports_, {to_int32(src), to_int32(dst), -1, -1, -1});
        for (const std::size_t port : on.all()) use_.bytes[port] -= bytes;
    }

    void lanes(std::span<const Lane> lanes, std::span<const LaneLoad> loads, std::size_t src_first, std::size_t dst_first) {
        for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
            const std::size_t out = src_first + to_size(lanes[lane].out_gpu), in = dst_first + to_size(lanes[lane].in_gpu);
            if (lanes[lane].bytes > 0) wire(out, in, static_cast<double>(lanes[lane].bytes));
            for (const auto* parcels : {&loads[lane].own, &loads[lane].helped}) {
                for (const Parcel& parcel : *parcels) {
                    const auto bytes = static_cast<double>(parcel.bytes);
                    hop(src_first + to_size(parcel.sender), out, bytes, Leg::kBefore);
                    hop(in, dst_first + to_size(parcel.receiver), bytes, Leg::kAfter);
                }
            }
        }
    }

    PortUse done() {
        const std::size_t ranks = ports_.ranks(), width = ports_.width;
        use_.given_to.assign(ranks, 0);
        use_.passed_to.assign(ranks, 0);
        use_.restored.assign(ranks, 0.0);
        use_.passed.assign(ranks, 0.0);
        use_.is_helper.assign(ranks, 0);
        for (std::size_t link = 0; link < before_.size(); ++link) {
            use_.given_to[link / width] += before_[link] > 0;
            use_.passed_to[link / width] += after_[link] > 0;
            use_.passed[link / width] += after_[link];
            use_.largest_hop = std::max({use_.largest_hop, before_[link], after_[link]});
            if (before_[link] > 0) use_.is_helper[link / width / width * width + link % width] = 1;
            double& restored = use_.restored[link / width / width * width + link % width];
            restored = ports_.is_mesh ? std::max(restored, after_[link]) : restored + after_[link];
        }
        return std::move(use_);
    }

private:
    std::span<const std::int64_t> demand_;
    const Ports& ports_;
    std::vector<double> before_, after_;  // [ranks, width] bytes that hop, by sender and GPU index
    PortUse use_;
};

}  // namespace

PortUse count_lanes(std::span<const std::int64_t> demand, const Ports& ports, const TwoTierDecision& decision) {
    Counter count(demand, ports);
    count.near();
    for (const HeavyPair& pair : decision.heavy_pairs) {
        if (pair.nic_bytes <= 0) continue;
        const auto bytes = static_cast<double>(pair.nic_bytes);
        count.divert(to_size(pair.src), to_size(pair.dst), bytes);
        count.wire(to_size(pair.src), to_size(pair.dst), bytes);
    }
    for (const NearRelay& way : decision.near_relays) {
        const auto bytes = static_cast<double>(way.bytes);
        count.divert(to_size(way.src), to_size(way.dst), bytes);
        count.hop(to_size(way.src), to_size(way.relay), bytes, Leg::kAround);
        count.hop(to_size(way.relay), to_size(way.dst), bytes, Leg::kAround);
    }
    const DecidedPlan decided(demand, decision, kEveryone);
    const TwoTierPlan& plan = decided.plan();
    const std::size_t width = ports.width, ranks = ports.ranks();
    LaneAssigner assigner(to_int32(width), decision.least_part_bytes);
    if (plan.is_pair_burst && plan.most_port_bytes > 0) {
        const PairLoads loads = even_pair(demand, plan, assigner);
        std::vector<Lane> scratch;
        for (std::size_t src = 0; src < 2; ++src) {
            if (loads[src].empty()) continue;
            const std::int64_t bytes = decision.tile_bytes[src * 2 + 1 - src];
            count.lanes(plan.lanes.of(src, 1 - src, bytes, scratch), loads[src], src * width, (1 - src) * width);
        }
        return count.done();
    }
    std::vector<Lane> scratch;
    for (std::size_t src = 0; src < ports.servers; ++src) {
        for (std::size_t dst = 0; dst < ports.servers; ++dst) {
            const std::int64_t bytes = decision.tile_bytes[src * ports.servers + dst];
            if (src == dst || bytes == 0) continue;
            const auto lanes = plan.lanes.of(src, dst, bytes, scratch);
            const std::int64_t* tile = demand.data() + src * width * ranks + dst * width;
            count.lanes(lanes, assigner.assign(tile, ranks, lanes, plan.lanes.hot(src, dst)), src * width, dst * width);
        }
    }
    return count.done();
}

PortUse count_routes(std::span<const std::int64_t> demand, const Ports& ports, const Assignment& assignment) {
    Counter count(demand, ports);
    count.near();
    const std::size_t width = ports.width, uplinks = ports.first_uplink();
    const auto count_route = [&](const Route& route, double bytes) {
        const std::size_t from = to_size(route.from), to = to_size(route.to);
        if (route.relay >= 0) {
            count.hop(from, to_size(route.relay), bytes, Leg::kAround);
            count.hop(to_size(route.relay), to, bytes, Leg::kAround);
            return;
        }
        const bool is_near = from / width == to / width;
        count.hop(from, to_size(route.out), bytes, is_near ? Leg::kAround : Leg::kBefore);
        count.wire(to_size(route.out), to_size(route.in), bytes);
        count.hop(to_size(route.in), to, bytes, is_near ? Leg::kAround : Leg::kAfter);
    };
    for (const auto& [route, bytes] : assignment.near) {
        count.divert(to_size(route.from), to_size(route.to), static_cast<double>(bytes));
        count_route(route, static_cast<double>(bytes));
    }
    for (const auto& [route, bytes] : assignment.far) count_route(route, static_cast<double>(bytes));
    for (std::size_t cell = 0; cell < assignment.out_bytes.size(); ++cell) {
        const std::size_t rank = cell / width, nic = rank / width * width + cell % width;
        // Shares of a rank without bytes are for later traffic.
        if (assignment.out_bytes[cell] > 1) {
            count.hop(rank, nic, static_cast<double>(assignment.out_bytes[cell]), Leg::kBefore);
            count.port(ports.out(nic), static_cast<double>(assignment.out_bytes[cell]));
        }
        if (assignment.in_bytes[cell] > 1) {
            count.hop(nic, rank, static_cast<double>(assignment.in_bytes[cell]), Leg::kAfter);
            count.port(ports.in(nic), static_cast<double>(assignment.in_bytes[cell]));
        }
    }
    // Uplinks that the ends do not choose are counted with the assignment.
    if (!assignment.out_bytes.empty()) {
        for (std::size_t port = uplinks; port < assignment.load.size(); ++port) count.port(port, assignment.load[port]);
    }
    return count.done();
}

}  // namespace interlock
