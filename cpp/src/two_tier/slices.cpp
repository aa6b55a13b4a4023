#include "interlock/two_tier/slices.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace interlock {
namespace {

// Slices of an average lane, by how often a message's cost goes into the time of the wire and of the redistribution to hide;
// fewer where lanes are unlike, which end one after the other. Fitted at 1 to 64 MB, 2 to 16 servers.
constexpr double kSlices = 0.45, kPartnersExponent = 0.52, kRoundUp = 0.45, kHidden = 0.65;
constexpr double kMostSlices = 64;  // of all lanes of a NIC
constexpr double kLeastMost = 6;     // of one lane, that it may have all the same
constexpr std::int64_t kMostFlows = 16;  // of one lane, on the wire at once
constexpr double kLongSlice = 10;  // latencies that a slice takes, from which one at a time keeps the wire busy
constexpr double kStageParts = 48;  // a staged plan's slices are this part of the busiest NIC's load
// Finer slices hide more of the last moves, and more flows come closer to a lane's part of a NIC; each costs its overhead: best
// where both grow alike, fitted at 1 to 64 MB.
constexpr double kStageSlice = 3.7, kBurstSlice = 0.5, kDetourSlice = 1.0, kFlow = 2.0;
constexpr double kMostSliceParts = 512;  // no slice is smaller than this part of the busiest NIC's load

}  // namespace

double Slices::choose() const {
    const double partners = std::max(1.0, static_cast<double>(ledger_.tiles().servers) - 1);
    const double most = std::clamp(std::floor(kMostSlices / partners), kLeastMost, 48.0);
    const double bytes = std::accumulate(ledger_.loads().in_far.begin(), ledger_.loads().in_far.end(), 0.0);
    const double nics = std::accumulate(rates_.nic.begin(), rates_.nic.end(), 0.0);
    if (bytes <= 0 || nics <= 0) return 1;
    const double hidden = bytes / nics + kHidden * ledger_.restore_seconds();
    if (slice_seconds() <= 0) return most;
    double slices = kSlices * std::sqrt(hidden / slice_seconds()) * ledger_.likeness();
    slices /= std::pow(partners, kPartnersExponent);
    return std::clamp(std::floor(slices + kRoundUp), 1.0, most);
}

std::int32_t Slices::lane_flows(Way way, double slices) const {
    if (way == Way::kDetour) {
        // Two keep the wire busy while an arrival is on its way, where that is long beside a slice.
        const double slice_s = static_cast<double>(std::ranges::max(bytes(way, slices))) / *std::ranges::max_element(rates_.nic);
        return slice_s < kLongSlice * costs_.scale_out_latency_s ? 2 : 1;
    }
    return kUsualFlows;
}

std::vector<std::int64_t> Slices::bytes(Way way, double slices) const {
    std::vector<std::int64_t> out(ledger_.tiles().servers, 0), partners(ledger_.tiles().servers, 0);
    const auto width = static_cast<double>(rates_.width);
    for (std::size_t src = 0; src < ledger_.tiles().servers; ++src) {
        for (std::size_t dst = 0; dst < ledger_.tiles().servers; ++dst) {
            const std::int64_t bytes = src == dst ? 0 : ledger_.tiles().bytes[src * ledger_.tiles().servers + dst];
            out[src] += bytes;
            partners[src] += bytes > 0;
        }
    }
    const double busiest = busiest_bytes(), fine = std::sqrt(busiest * overhead_bytes());
    std::vector<std::int64_t> sizes(ledger_.tiles().servers, 0);
    for (std::size_t src = 0; src < ledger_.tiles().servers; ++src) {
        double bytes = std::max(busiest / kStageParts, kStageSlice * fine);
        if (way != Way::kStaged) {
            const double lanes = way == Way::kDetour ? width * width : width;
            const double lane = static_cast<double>(out[src]) / lanes / std::max(1.0, static_cast<double>(partners[src]));
            const double least = (way == Way::kDetour ? kDetourSlice : kBurstSlice) * fine;
            bytes = std::max({lane / slices, busiest / kMostSliceParts, least});
        }
        sizes[src] = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes));
    }
    return sizes;
}

std::int64_t Slices::flow_bytes() const {
    const double least = kFlow * std::sqrt(busiest_bytes() * overhead_bytes());
    return std::max<std::int64_t>({1, ledger_.tiles().largest_far / kMostFlows, static_cast<std::int64_t>(least)});
}

double Slices::overhead_bytes() const { return slice_seconds() * *std::ranges::max_element(rates_.nic); }

double Slices::slice_seconds() const {
    return std::max(costs_.message_overhead_s, costs_.scale_out_latency_s / static_cast<double>(kMostFlows));
}

double Slices::busiest_bytes() const {
    const Tiles& tiles = ledger_.tiles();
    double busiest = 0;
    for (std::size_t src = 0; src < tiles.servers; ++src) {
        const auto row = std::span(tiles.bytes).subspan(src * tiles.servers, tiles.servers);
        busiest = std::max(busiest, static_cast<double>(std::accumulate(row.begin(), row.end(), -row[src])) / static_cast<double>(rates_.width));
    }
    for (const double rate : rates_.nic) busiest = std::max(busiest, ledger_.cut_s() * rate);
    return busiest;
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
