#include "interlock/two_tier/slices.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace interlock {
namespace {

constexpr std::size_t kFewServers = 12, kManyServers = 24;
constexpr double kManyPartners = 24;  // so many lanes end one after the other that few slices hide as much
// Slices of an average lane, by how often a message's cost goes into the time of the wire and of the redistribution to hide;
// fewer where lanes are unlike, which end one after the other, or all alike. Fitted at 1 to 64 MB, 2 to 16 servers.
constexpr double kSlices = 0.45, kPartnersExponent = 0.52, kRoundUp = 0.45, kHidden = 0.65, kEqualLanes = 0.58;
constexpr std::size_t kFewToWait = 4;  // servers up to which two slices of a lane are in flight, and equal lanes hardly wait
constexpr double kSlicesPerFlow = 8;  // of a typical lane, from which it may have twice the flows
constexpr double kAlike = 0.93;       // likeness of tiles from which it need not
constexpr std::int64_t kMostFlows = 16;  // of one lane, on the wire at once
constexpr double kFlowsCost = 0.005;  // of a NIC's time that the messages of these may cost
constexpr double kLongSlice = 10;  // latencies that a slice takes, from which one at a time keeps the wire busy
constexpr double kFreeSlices = 128;  // of one NIC's traffic, where messages cost nothing
// A staged plan's slices are this part of the busiest NIC's load. From 13 servers on many of them end up in the last moves
// of a hot receiver, and twice as many pay; from 25 on most segments are smaller than that.
constexpr double kStageParts = 48;
// Finer slices hide more of the last moves, each costs its overhead: best where both grow alike, fitted at 1 to 64 MB.
constexpr double kStageSlice = 3.7, kBurstSlice = 0.5, kDetourSlice = 1.0;
constexpr double kMostSliceParts = 512;  // no slice is smaller than this part of the busiest NIC's load

}  // namespace

double Slices::choose() const {
    const double partners = std::max(1.0, static_cast<double>(ledger_.tiles().servers) - 1);
    const double most = std::clamp(std::floor(64 / partners), partners < kManyPartners ? 6.0 : 4.0, 48.0);
    if (costs_.message_overhead_s <= 0) return std::max(most, std::floor(kFreeSlices / partners));
    const double bytes = std::accumulate(ledger_.loads().in_far.begin(), ledger_.loads().in_far.end(), 0.0);
    const double nics = std::accumulate(rates_.nic.begin(), rates_.nic.end(), 0.0);
    if (bytes <= 0 || nics <= 0) return 1;
    const double hidden = bytes / nics + kHidden * ledger_.restore_seconds();
    double slices = kSlices * std::sqrt(hidden / costs_.message_overhead_s) * ledger_.likeness();
    slices /= std::pow(partners, kPartnersExponent);
    if (ledger_.is_balanced() && ledger_.tiles().servers > kFewToWait) slices *= kEqualLanes;
    return std::clamp(std::floor(slices + kRoundUp), 1.0, most);
}

std::int32_t Slices::lane_flows(Way way, double slices) const {
    if (way == Way::kDetour) {
        // Two keep the wire busy while an arrival is on its way, where that is long beside a slice.
        const double slice_s = static_cast<double>(std::ranges::max(bytes(way, slices))) / *std::ranges::max_element(rates_.nic);
        return slice_s < kLongSlice * costs_.scale_out_latency_s ? 2 : 1;
    }
    const std::int32_t few = usual_flows(ledger_.tiles().servers);
    const bool has_many = way == Way::kBurst && ledger_.tiles().servers > 2 && slices >= kSlicesPerFlow * few;
    return has_many && costs_.is_switched && ledger_.likeness() < kAlike ? 2 * few : few;
}

std::vector<std::int64_t> Slices::bytes(Way way, double slices) const {
    std::vector<std::int64_t> out(ledger_.tiles().servers, 0), partners(ledger_.tiles().servers, 0);
    const auto width = static_cast<double>(rates_.width);
    double busiest = 0;
    for (std::size_t src = 0; src < ledger_.tiles().servers; ++src) {
        for (std::size_t dst = 0; dst < ledger_.tiles().servers; ++dst) {
            const std::int64_t bytes = src == dst ? 0 : ledger_.tiles().bytes[src * ledger_.tiles().servers + dst];
            out[src] += bytes;
            partners[src] += bytes > 0;
        }
        busiest = std::max(busiest, static_cast<double>(out[src]) / width);
    }
    for (std::size_t rank = 0; rank < rates_.nic.size(); ++rank) busiest = std::max(busiest, ledger_.cut_s() * rates_.nic[rank]);
    const bool is_middling = ledger_.tiles().servers > kFewServers && ledger_.tiles().servers <= kManyServers;
    const double overhead = costs_.message_overhead_s * *std::ranges::max_element(rates_.nic);  // in bytes
    const double stage_parts = is_middling ? 2 * kStageParts : kStageParts;
    std::vector<std::int64_t> sizes(ledger_.tiles().servers, 0);
    for (std::size_t src = 0; src < ledger_.tiles().servers; ++src) {
        double bytes = std::max(busiest / stage_parts, kStageSlice * std::sqrt(busiest * overhead));
        if (way != Way::kStaged) {
            const double lanes = way == Way::kDetour ? width * width : width;
            const double lane = static_cast<double>(out[src]) / lanes / std::max(1.0, static_cast<double>(partners[src]));
            const double least = (way == Way::kDetour ? kDetourSlice : kBurstSlice) * std::sqrt(busiest * overhead);
            bytes = std::max({lane / slices, busiest / kMostSliceParts, least});
        }
        sizes[src] = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes));
    }
    return sizes;
}

std::int64_t Slices::flow_bytes() const {
    const double least = costs_.message_overhead_s / kFlowsCost * *std::ranges::max_element(rates_.nic);
    return std::max<std::int64_t>({1, ledger_.tiles().largest_far / kMostFlows, static_cast<std::int64_t>(least)});
}

std::int64_t Slices::pair_bytes() const {
    std::int64_t most = 1;
    for (std::size_t first = 0; first < rates_.nic.size(); first += rates_.width) {
        std::int64_t bytes = 0, pairs = 0;
        for (std::size_t rank = first; rank < first + rates_.width; ++rank) {
            bytes += ledger_.loads().out_far[rank];
            pairs += ledger_.tiles().num_far[rank];
        }
        if (pairs > 0) most = std::max(most, bytes / pairs);
    }
    return most;
}

}  // namespace interlock
