#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "interlock/two_tier/assignment.hpp"
#include "interlock/two_tier/ports.hpp"

namespace interlock {

/// What each rank's NIC should carry, [ranks] each; empty vectors stand for equal shares everywhere.
struct NicTargets {
    std::vector<std::int64_t> out_bytes, in_bytes;
    std::vector<std::uint8_t> is_short;  ///< [ranks], or empty: with a port inside that has hardly any time left
    /// Whether what a NIC receives should be its own GPU's, that no port must pass it on.
    [[nodiscard]] bool is_for_own(std::size_t rank) const { return !is_short.empty() && is_short[rank] != 0; }
    [[nodiscard]] bool are_equal() const { return out_bytes.empty(); }
};

/// Loads of NICs as an assignment has them.
/// @param shared that begins with equal shares of all bytes
NicTargets nic_targets(const Assignment& shared, const Ports& ports);

/// Loads in proportion to rates, whatever the traffic; equal shares where all rates are.
NicTargets rate_targets(const Ports& ports);

}  // namespace interlock
