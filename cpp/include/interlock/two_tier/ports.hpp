#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// How the NICs of a cluster reach each other.
enum class ScaleOut : std::int32_t {
    kFlat = 0,   ///< every NIC reaches every other; the NICs of a server may share an uplink
    kSpine = 1,  ///< equal GPU indices share a leaf; what changes leaves shares the leaf's uplink
    kRail = 2,   ///< equal GPU indices only
};

/// The ports of a two-tier cluster and what each can carry.
///
/// Numbered: NIC out of rank r, NIC in, then scale-up out and in of each rank, or with a mesh the link from each rank
/// to each GPU index of its server; then uplinks, upwards and downwards, where there are some.
struct Ports {
    std::size_t servers = 0, width = 0;
    std::span<const double> nic;            ///< [ranks] bytes per second, 0 where a NIC is dead or missing
    std::span<const std::uint8_t> present;  ///< [ranks] whether the GPU is there
    double scale_up = 0;                    ///< bytes per second of one GPU, each direction, over all its links
    bool is_mesh = false;
    double efficiency = 1;  ///< part of its rate at which a NIC receives
    ScaleOut scale_out = ScaleOut::kFlat;
    double oversubscription = 1;
    std::span<const double> nominal_nic;  ///< [ranks] with nothing broken
    std::int32_t hash_radix = 0;          ///< NICs of a leaf that hashes pairs of NICs to its uplinks; 0: none does
    std::int32_t hash_uplinks = 0;        ///< of such a leaf; 0: as many as NICs
    std::int64_t hash_seed = 0;

    [[nodiscard]] std::size_t ranks() const { return servers * width; }
    [[nodiscard]] std::size_t out(std::size_t rank) const { return rank; }
    [[nodiscard]] std::size_t in(std::size_t rank) const { return ranks() + rank; }
    /// Where a switch joins the GPUs of a server.
    [[nodiscard]] std::size_t up_out(std::size_t rank) const { return 2 * ranks() + rank; }
    [[nodiscard]] std::size_t up_in(std::size_t rank) const { return 3 * ranks() + rank; }
    [[nodiscard]] std::size_t first_uplink() const { return 2 * ranks() + (is_mesh ? ranks() * width : 2 * ranks()); }
    /// Whether all NICs have one rate.
    [[nodiscard]] bool is_even() const {
        return std::ranges::all_of(nic, [&](double rate) { return rate == nic[0]; });
    }
    /// What all NICs of a server share on their way to others; 0: nothing.
    [[nodiscard]] double server_uplink() const;
    [[nodiscard]] bool is_hashed() const { return hash_radix > 0 && scale_out != ScaleOut::kRail; }
    [[nodiscard]] bool has_leaf_uplinks() const { return oversubscription > 1 && scale_out != ScaleOut::kRail; }
    /// Uplinks of one direction: those between leaf and spine, then hashed ones.
    [[nodiscard]] std::size_t num_leaves() const;
    [[nodiscard]] std::size_t num_hashed() const;
    [[nodiscard]] std::size_t uplinks_of_leaf() const {
        return static_cast<std::size_t>(hash_uplinks > 0 ? hash_uplinks : hash_radix);
    }
    [[nodiscard]] std::size_t count() const { return first_uplink() + 2 * (num_leaves() + num_hashed()); }
    /// Whether the NICs of one server reach each other.
    [[nodiscard]] bool joins_own() const {
        return scale_out == ScaleOut::kFlat || (scale_out == ScaleOut::kSpine && oversubscription <= 1);
    }
    /// Whether it matters which NIC reaches which, so that the two ends cannot be chosen apart.
    [[nodiscard]] bool couples_ends() const {
        return servers > 1 &&
               (scale_out == ScaleOut::kRail || is_hashed() || (scale_out == ScaleOut::kSpine && has_leaf_uplinks()));
    }
    [[nodiscard]] bool is_joined(std::size_t out_rank, std::size_t in_rank) const {
        if (nic[out_rank] <= 0 || nic[in_rank] <= 0) return false;
        return scale_out != ScaleOut::kRail || out_rank % width == in_rank % width;
    }
    [[nodiscard]] double link_rate() const {
        return is_mesh ? scale_up / static_cast<double>(width > 1 ? width - 1 : 1) : scale_up;
    }
    [[nodiscard]] std::vector<double> rates() const;  ///< [count()]
};

/// The way of some bytes: out by NIC `out`, in by NIC `in`; or inside a server straight, or by a `relay`; -1 where
/// there is none. Without `to` (or `from`) it is only the first (or last) part of the way.
struct Route {
    std::int32_t from = -1, to = -1, out = -1, in = -1, relay = -1;
    friend bool operator==(const Route&, const Route&) = default;
};

/// The ports that a route occupies.
class RoutePorts {
public:
    RoutePorts(const Ports& ports, const Route& route);
    [[nodiscard]] std::span<const std::size_t> all() const { return std::span(ports_).first(count_); }
    [[nodiscard]] bool has(std::size_t port) const {
        for (const std::size_t own : all()) {
            if (own == port) return true;
        }
        return false;
    }

private:
    void hop(const Ports& ports, std::int32_t from, std::int32_t to);
    void uplinks(const Ports& ports, std::size_t out, std::size_t in);
    void add(std::size_t port) { ports_[count_++] = port; }
    std::array<std::size_t, 10> ports_;
    std::size_t count_ = 0;
};

}  // namespace interlock
