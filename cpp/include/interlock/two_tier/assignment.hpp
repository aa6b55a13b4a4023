#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "interlock/two_tier/ports.hpp"
#include "interlock/two_tier/tiles.hpp"

namespace interlock {

/// Bytes that take one route.
struct RouteBytes {
    Route route;
    std::int64_t bytes;
};

/// Which bytes take which ports.
///
/// Where the two ends of the wire can be chosen apart, `out_bytes` and `in_bytes` say how a rank's bytes divide over
/// the NICs of its server; elsewhere `far` lists the routes of every pair, by sending server, receiving server, src and
/// dst. What is not in `near` goes straight inside its server.
struct Assignment {
    std::vector<std::int64_t> out_bytes, in_bytes;  ///< [ranks, width]
    std::vector<RouteBytes> far, near;              ///< `near` by src and dst
    std::vector<double> load;                       ///< [ports] bytes
    double level_s = 0;                             ///< of the port that is busy longest
    double nic_s = 0, up_s = 0;                     ///< of the NIC or uplink, and of the scale-up port or link
    bool has_hops = false;                          ///< whether bytes between servers take NICs of other ranks
    bool is_whole = false;                          ///< whether all bytes have a way
    [[nodiscard]] bool has_far() const { return !out_bytes.empty() || !far.empty(); }
};

/// How far an assignment goes from everybody's own NIC.
struct AssignmentGoal {
    /// [ranks] that a rank's NIC is busy besides its bytes, with messages or opening a stage
    std::span<const double> busy_s = {};
    double worth_s = 0;       ///< of a port's time that a move must save: what its messages cost
    bool may_loop = true;     ///< whether bytes between neighbours may take NICs
    bool may_move = true;     ///< false: everybody's own NIC, dead ones aside
    bool evens_out = false;   ///< whether ports below the level are relieved too
    bool shares_all = false;  ///< begins with equal shares of all bytes, by NIC rate, instead of everybody's own NIC
};

/// Fills NICs, scale-up ports, links and uplinks to one water level: bytes move from the busiest port to the least busy
/// way around it, until no move lowers the level. Empty where some bytes have no way.
Assignment assign_bytes(std::span<const std::int64_t> demand_bytes, const RankLoads& loads, const Ports& ports,
                        const AssignmentGoal& goal);

/// Seconds that no assignment can beat: the NICs of a server, all ports of a rank.
double floor_seconds(const RankLoads& loads, const Ports& ports);

}  // namespace interlock
