#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace interlock {

/// Bytes that flow through ports beside others.
struct SharingLane {
    std::array<std::int32_t, 6> port;  ///< its NICs and uplinks
    std::int32_t num_ports;
    double bytes, flows;             ///< a port gives equal shares to all flows that want more
    double most_rate;                ///< of the lane, whatever ports have left
    std::array<std::int32_t, 2> after;  ///< lanes that must have arrived before it begins; -1: none

    [[nodiscard]] std::span<const std::int32_t> ports() const {
        return std::span(port).first(static_cast<std::size_t>(num_ports));
    }
};

struct Span {
    double start_s = 0, end_s = 0;
};

/// When each lane begins and ends: at every moment rates are max-min fair between flows, which is how the simulator
/// shares links.
///
/// @param rate bytes per second of every port
/// @param latency_s from the end of a lane to the start of those after it
/// @param lose changes the rates of ports for the lanes that are under way
std::vector<Span> share_ports(std::span<const SharingLane> lanes, std::span<const double> rate, double latency_s,
                              const std::function<void(std::span<const std::int32_t>, std::span<double>)>& lose);

}  // namespace interlock
