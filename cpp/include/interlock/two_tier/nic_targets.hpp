#pragma once

#include <cstdint>
#include <vector>

#include "interlock/two_tier/assignment.hpp"
#include "interlock/two_tier/ports.hpp"

namespace interlock {

/// What each rank's NIC should carry, [ranks] each; empty vectors stand for equal shares everywhere.
struct NicTargets {
    std::vector<std::int64_t> out_bytes, in_bytes;
    std::vector<std::uint8_t> is_hot;  ///< whether a port of a rank inside its server has hardly any time left
    [[nodiscard]] bool are_equal() const { return out_bytes.empty(); }
};

/// Loads of NICs as an assignment has them.
/// @param shared that begins with equal shares of all bytes
NicTargets nic_targets(const Assignment& shared, const Ports& ports);

/// Loads in proportion to rates, whatever the traffic; equal shares where all rates are.
NicTargets rate_targets(const Rates& rates);

}  // namespace interlock
