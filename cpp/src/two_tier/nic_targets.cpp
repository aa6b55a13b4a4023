#include "interlock/two_tier/nic_targets.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "interlock/two_tier/constants.hpp"

namespace interlock {
namespace {

/// Whether NICs of each server carry the same, but for rounding.
bool are_alike(std::span<const std::int64_t> bytes, std::size_t width) {
    for (std::size_t first = 0; first < bytes.size(); first += width) {
        const auto [least, most] = std::ranges::minmax(bytes.subspan(first, width));
        if (most - least > 1) return false;
    }
    return true;
}

}  // namespace

NicTargets nic_targets(const Assignment& shared, const Ports& ports) {
    NicTargets targets;
    const double full_s = (1 - kSumsErr) * shared.level_s;
    for (std::size_t rank = 0; rank < ports.ranks(); ++rank) {
        const auto bytes = [&](std::size_t port) {
            return std::llround(shared.load[port]) + (ports.nic[rank] > 0 ? 1 : 0);
        };
        targets.out_bytes.push_back(bytes(ports.out(rank)));
        targets.in_bytes.push_back(bytes(ports.in(rank)));
        const double inside =
            ports.is_mesh ? 0.0 : std::max(shared.load[ports.up_out(rank)], shared.load[ports.up_in(rank)]);
        targets.is_short.push_back(inside > full_s * ports.scale_up ? 1 : 0);
    }
    const bool is_any_short =
        std::ranges::any_of(targets.is_short, [](std::uint8_t is_short) { return is_short != 0; });
    if (ports.is_even() && !is_any_short && are_alike(targets.out_bytes, ports.width) &&
        are_alike(targets.in_bytes, ports.width))
        return {};
    return targets;
}

NicTargets rate_targets(const Ports& ports) {
    NicTargets targets;
    if (ports.is_even()) return targets;
    for (const double rate : ports.nic) targets.out_bytes.push_back(static_cast<std::int64_t>(rate) + (rate > 0));
    targets.in_bytes = targets.out_bytes;
    return targets;
}

}  // namespace interlock
