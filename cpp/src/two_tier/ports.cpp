#include "interlock/two_tier/ports.hpp"

#include <algorithm>
#include <numeric>

namespace interlock {
namespace {

std::uint64_t mix(std::uint64_t value) {
    value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31U);
}

/// The hash of flows that the simulator uses (`topology/flow_hash.py`), for a pair's first flow.
std::uint64_t hash_pair(std::uint64_t src, std::uint64_t dst, std::int64_t seed) {
    return mix(mix(((src << 32U) ^ dst) ^ (static_cast<std::uint64_t>(seed) * 0x9E3779B97F4A7C15ULL)));
}

}  // namespace

std::size_t Ports::num_leaves() const {
    if (!has_leaf_uplinks()) return 0;
    return scale_out == ScaleOut::kFlat ? servers : width;
}

std::size_t Ports::num_hashed() const {
    const auto radix = static_cast<std::size_t>(hash_radix);
    return is_hashed() ? (ranks() + radix - 1) / radix * uplinks_of_leaf() : 0;
}

double Ports::server_uplink() const {
    if (scale_out != ScaleOut::kFlat || !has_leaf_uplinks()) return 0;
    return std::accumulate(nominal_nic.begin(), nominal_nic.begin() + static_cast<std::ptrdiff_t>(width), 0.0) /
           oversubscription;
}

std::vector<double> Ports::rates() const {
    std::vector<double> rate(count(), link_rate());
    double sum = 0;
    // Flows share an uplink evenly: the NICs behind one have equal parts of it, whatever each could do alone.
    const double part = scale_out == ScaleOut::kFlat && has_leaf_uplinks() && servers > 1 ? 1 / oversubscription : 1;
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
        rate[out(rank)] = nic[rank] * part;
        rate[in(rank)] = nic[rank] * efficiency * part;
        sum += nic[rank];
    }
    const std::size_t leaves = num_leaves();
    for (std::size_t leaf = 0; leaf < leaves; ++leaf) {
        double shared = 0;
        for (std::size_t rank = 0; rank < ranks(); ++rank) {
            if ((scale_out == ScaleOut::kFlat ? rank / width : rank % width) == leaf) shared += nominal_nic[rank];
        }
        rate[first_uplink() + leaf] = rate[first_uplink() + leaves + num_hashed() + leaf] = shared / oversubscription;
    }
    const double mean = sum / static_cast<double>(ranks());
    for (std::size_t uplink = leaves; uplink < leaves + num_hashed(); ++uplink) {
        rate[first_uplink() + uplink] = rate[first_uplink() + leaves + num_hashed() + uplink] = mean;
    }
    return rate;
}

RoutePorts::RoutePorts(const Ports& ports, const Route& route) {
    if (route.relay >= 0) {
        hop(ports, route.from, route.relay);
        hop(ports, route.relay, route.to);
        return;
    }
    if (route.out < 0 && route.in < 0) {
        hop(ports, route.from, route.to);
        return;
    }
    if (route.from >= 0) {
        hop(ports, route.from, route.out);
        add(ports.out(static_cast<std::size_t>(route.out)));
    }
    if (route.from >= 0 && route.to >= 0)
        uplinks(ports, static_cast<std::size_t>(route.out), static_cast<std::size_t>(route.in));
    if (route.to >= 0) {
        add(ports.in(static_cast<std::size_t>(route.in)));
        hop(ports, route.in, route.to);
    }
}

void RoutePorts::hop(const Ports& ports, std::int32_t from, std::int32_t to) {
    if (from == to) return;
    const auto src = static_cast<std::size_t>(from), dst = static_cast<std::size_t>(to);
    const std::size_t first = 2 * ports.ranks();
    if (ports.is_mesh) {
        add(first + src * ports.width + dst % ports.width);
    } else {
        add(first + src);
        add(first + ports.ranks() + dst);
    }
}

void RoutePorts::uplinks(const Ports& ports, std::size_t out, std::size_t in) {
    const std::size_t first = ports.first_uplink(), leaves = ports.num_leaves(), hashed = ports.num_hashed();
    if (leaves > 0) {
        const auto leaf = [&](std::size_t rank) {
            return ports.scale_out == ScaleOut::kFlat ? rank / ports.width : rank % ports.width;
        };
        if (leaf(out) != leaf(in)) {
            add(first + leaf(out));
            add(first + leaves + hashed + leaf(in));
        }
    }
    if (hashed > 0) {
        // Leaves join the NICs of a rail where there is a spine, else those of servers, in rank order.
        const auto leaf = [&](std::size_t rank) {
            const std::size_t place =
                ports.scale_out == ScaleOut::kSpine ? rank % ports.width * ports.servers + rank / ports.width : rank;
            return place / static_cast<std::size_t>(ports.hash_radix);
        };
        if (leaf(out) != leaf(in)) {
            const std::size_t each = ports.uplinks_of_leaf(), uplink = hash_pair(out, in, ports.hash_seed) % each;
            add(first + leaves + leaf(out) * each + uplink);
            add(first + 2 * leaves + hashed + leaf(in) * each + uplink);
        }
    }
}

}  // namespace interlock
