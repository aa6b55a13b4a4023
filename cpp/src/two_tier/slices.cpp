#include "interlock/two_tier/slices.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "interlock/two_tier/constants.hpp"

namespace interlock {

double Slices::choose() const {
    const double partners = std::max(1.0, static_cast<double>(ledger_.tiles().servers) - 1);
    const double most = std::max(std::floor(kMostSlices / partners), static_cast<double>(kLeastMost));
    const double bytes = std::accumulate(ledger_.loads().in_far.begin(), ledger_.loads().in_far.end(), 0.0);
    const double nics = std::accumulate(ports_.nic.begin(), ports_.nic.end(), 0.0);
    if (bytes <= 0 || nics <= 0) return 1;
    if (slice_seconds() <= 0) return most;
    // Fewer where lanes are unlike, which end one after the other.
    const double slices =
        std::sqrt(kExposed * std::max(bytes / nics, ledger_.restore_seconds()) / (slice_seconds() * partners)) *
        ledger_.likeness();
    return std::clamp(std::round(slices), 1.0, most);
}

std::vector<std::int64_t> Slices::bytes(Way way, double slices) const {
    const Tiles& tiles = ledger_.tiles();
    const double fine = fine_bytes(), staged = std::max(busiest_bytes() / kMostSlices, kInFlight * fine);
    std::vector<std::int64_t> sizes(tiles.servers, static_cast<std::int64_t>(staged) + 1);
    if (way == Way::kStaged) return sizes;
    const auto width = static_cast<double>(ports_.width), lanes = way == Way::kDetour ? width * width : width;
    for (std::size_t src = 0; src < tiles.servers; ++src) {
        const auto row = std::span(tiles.bytes).subspan(src * tiles.servers, tiles.servers);
        const auto out = static_cast<double>(std::accumulate(row.begin(), row.end(), -row[src]));
        const auto partners = static_cast<double>(
            std::ranges::count_if(row, [](std::int64_t bytes) { return bytes > 0; }) - (row[src] > 0));
        // None is much finer than what is best for a NIC with one lane: lanes of a hot receiver, or of a server with
        // little to send.
        const double least = (way == Way::kDetour ? 1.0 : std::sqrt(kExposed)) * fine;
        const double bytes = std::max(out / lanes / std::max(1.0, partners) / slices, least);
        sizes[src] = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes));
    }
    return sizes;
}

std::int64_t Slices::flow_bytes() const {
    const auto least = static_cast<std::int64_t>(kInFlight * fine_bytes());
    return std::max<std::int64_t>({1, ledger_.tiles().largest_far / kMostFlows, least});
}

PieceBytes Slices::pieces() const {
    const double wire = std::max(busiest_bytes() / kMostSlices, fine_bytes());
    const double hop = wire * ports_.link_rate() / *std::ranges::max_element(ports_.nic);
    return {static_cast<std::int64_t>(wire) + 1, static_cast<std::int64_t>(hop) + 1};
}

double Slices::fine_bytes() const { return std::sqrt(busiest_bytes() * overhead_bytes()); }

double Slices::overhead_bytes() const { return slice_seconds() * *std::ranges::max_element(ports_.nic); }

double Slices::slice_seconds() const {
    return std::max(costs_.message_overhead_s, costs_.scale_out_latency_s / static_cast<double>(kMostFlows));
}

double Slices::busiest_bytes() const {
    const Tiles& tiles = ledger_.tiles();
    double busiest = 0;
    for (std::size_t src = 0; src < tiles.servers; ++src) {
        const auto row = std::span(tiles.bytes).subspan(src * tiles.servers, tiles.servers);
        busiest = std::max(busiest, static_cast<double>(std::accumulate(row.begin(), row.end(), -row[src])) /
                                        static_cast<double>(ports_.width));
    }
    for (const double rate : ports_.nic) busiest = std::max(busiest, ledger_.cut_s() * rate);
    return busiest;
}

std::int64_t Slices::pair_bytes() const {
    std::int64_t most = 1;
    for (std::size_t first = 0; first < ports_.nic.size(); first += ports_.width) {
        std::int64_t bytes = 0, pairs = 0;
        for (std::size_t rank = first; rank < first + ports_.width; ++rank) {
            bytes += ledger_.loads().out_far[rank];
            pairs += ledger_.tiles().num_far[rank];
        }
        if (pairs > 0) most = std::max(most, bytes / pairs);
    }
    return most;
}

}  // namespace interlock
