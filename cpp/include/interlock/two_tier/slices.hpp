#pragma once

#include <cstdint>
#include <vector>

#include "interlock/two_tier/ledger.hpp"

namespace interlock {

/// Slices: how finely a lane is cut, so that hops hide behind the wire. More hide more of what comes last, but each is
/// a message.
class Slices {
public:
    Slices(const Ledger& ledger, const Ports& ports, const TwoTierCosts& costs)
        : ledger_(ledger), ports_(ports), costs_(costs) {}

    /// Of an average lane.
    [[nodiscard]] double choose() const;
    /// What one slice of a server's lanes carries.
    [[nodiscard]] std::vector<std::int64_t> bytes(Way way, double slices) const;
    /// Bytes of a lane for which it has one slice on the wire at once.
    [[nodiscard]] std::int64_t flow_bytes() const;
    /// Bytes of an average pair between servers, out of the server where that is most.
    [[nodiscard]] std::int64_t pair_bytes() const;

    /// Pieces that hold ports alone, inside servers as long as on the wire.
    [[nodiscard]] PieceBytes pieces() const;

private:
    [[nodiscard]] double fine_bytes() const;  ///< of a NIC's slices where they cost as much as the last of them shows
    [[nodiscard]] double overhead_bytes() const;  ///< that a NIC could send while it begins a message
    [[nodiscard]] double slice_seconds() const;   ///< that a slice takes at least: so many are on the wire in a latency
    [[nodiscard]] double busiest_bytes() const;   ///< of the busiest NIC
    const Ledger& ledger_;
    const Ports& ports_;
    const TwoTierCosts& costs_;
};

}  // namespace interlock
