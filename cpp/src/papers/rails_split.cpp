#include "interlock/papers/rails_split.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/papers/rail_shares.hpp"
#include "interlock/two_tier/tiles.hpp"

namespace interlock {
namespace {

constexpr std::int64_t kSlicesInAll = 24;                    // of one NIC's traffic, over all destination servers
constexpr std::int64_t kFewestSlices = 4, kMostSlices = 12;  // of one rail and destination server
constexpr std::int64_t kSmallestSliceBytes = 1 << 17;        // below, fixed costs outweigh what a slice hides
constexpr std::int64_t kRampSteps = 3;  // how many slices at each end are smaller, since nothing hides behind them

/// Bytes of one pair of ranks that one NIC sends in one slice.
struct Part {
    std::int32_t src, dst;
    std::int32_t carrier;  // rank whose NIC they take; they land on the same GPU index
    std::int32_t slice;
    std::int64_t offset, length;
};

/// Parts by what they travel with: in the order of their keys, those with equal keys as they came.
using Keyed = std::vector<std::pair<std::uint64_t, std::uint32_t>>;

class RailsSplit {
public:
    RailsSplit(std::span<const std::int64_t> demand, std::span<const double> rates, std::size_t servers,
               std::int32_t slices)
        : demand_(demand),
          rates_(rates),
          servers_(servers),
          width_(rates.size() / servers),
          ranks_(rates.size()),
          tiles_(sum_tiles(demand, servers, width_)),
          counts_(servers, slices) {
        if (slices == 0) {
            for (std::size_t own = 0; own < servers; ++own) counts_[own] = choose_slices(own);
        }
        most_slices_ = std::ranges::max(counts_);
    }

    ScheduleRows run() {
        item_ = number_items(demand_, ranks_);
        std::vector<std::int64_t> shares(ranks_);
        for (std::size_t own = 0; own < servers_; ++own) {
            const auto owed = std::span(tiles_.bytes).subspan(own * servers_, servers_);
            require(rail_shares(owed, rates_, to_int32(own), to_int32(width_), shares),
                    "bytes are owed to a server that no rail reaches");
            for (std::size_t other = 0; other < servers_; ++other) {
                if (other == own || owed[other] == 0) continue;
                balance(own, other, std::span(shares).subspan(other * width_, width_));
                cut_slices(own);
            }
        }
        add_local();
        add_hops();
        add_wires();
        add_fans();
        return writer_.take();
    }

private:
    /// Enough to hide the hops at both ends, none too small to pay its fixed costs. A server chooses for itself.
    [[nodiscard]] std::int32_t choose_slices(std::size_t own) const {
        const auto others = static_cast<std::int64_t>(std::max<std::size_t>(1, servers_ - 1));
        std::int64_t owed = 0;
        for (std::size_t other = 0; other < servers_; ++other)
            owed += other == own ? 0 : tiles_.bytes[own * servers_ + other];
        const std::int64_t wanted = std::clamp((kSlicesInAll + others - 1) / others, kFewestSlices, kMostSlices);
        const std::int64_t mean = owed / (static_cast<std::int64_t>(width_) * others);
        return static_cast<std::int32_t>(std::max<std::int64_t>(1, std::min(wanted, mean / kSmallestSliceBytes)));
    }

    /// Gives the bytes of a tile their carriers: a GPU keeps its first bytes up to its share, the rest goes to GPUs
    /// below theirs.
    void balance(std::size_t own, std::size_t other, std::span<const std::int64_t> share) {
        tile_parts_.clear();
        room_.assign(share.begin(), share.end());
        surplus_.clear();
        for (std::size_t gpu = 0; gpu < width_; ++gpu) {
            const std::size_t src = own * width_ + gpu;
            for (std::size_t dst = other * width_; dst < (other + 1) * width_; ++dst) {
                const std::int64_t bytes = demand_[src * ranks_ + dst], kept = std::min(bytes, room_[gpu]);
                room_[gpu] -= kept;
                if (kept > 0) tile_parts_.push_back({to_int32(src), to_int32(dst), to_int32(src), 0, 0, kept});
                if (kept < bytes) surplus_.push_back({to_int32(src), to_int32(dst), 0, 0, kept, bytes - kept});
            }
        }
        std::size_t taker = 0;
        for (Part& part : surplus_) {
            while (part.length > 0) {
                while (taker < room_.size() && room_[taker] <= 0) ++taker;
                require(taker < room_.size(), "shares of a tile must hold its bytes");
                const std::int64_t bytes = std::min(part.length, room_[taker]);
                tile_parts_.push_back({part.src, part.dst, to_int32(own * width_ + taker), 0, part.offset, bytes});
                part.offset += bytes;
                part.length -= bytes;
                room_[taker] -= bytes;
            }
        }
    }

    /// Cuts what each carrier takes into slices. Bytes already in place go first. Final GPUs come in rotation from the
    /// carrier's own index, so that slices which land together do not all go on to one GPU; those for the GPU where
    /// they land come last.
    void cut_slices(std::size_t own) {
        if (most_slices_ == 1) {
            parts_.insert(parts_.end(), tile_parts_.begin(), tile_parts_.end());
            return;
        }
        const auto width = to_int32(width_);
        const auto turn = [&](const Part& part) {
            return (part.dst % width - part.carrier % width + width - 1) % width;
        };
        std::ranges::sort(tile_parts_, {}, [&](const Part& part) {
            return std::tuple(part.carrier, part.carrier != part.src, turn(part), part.src);
        });
        const std::int64_t count = counts_[own];
        for (std::size_t first = 0, last = 0; first < tile_parts_.size(); first = last) {
            std::int64_t total = 0;
            for (; last < tile_parts_.size() && tile_parts_[last].carrier == tile_parts_[first].carrier; ++last) {
                total += tile_parts_[last].length;
            }
            std::int64_t slice = 0, at = 0, end = slice_end(total, 0, count);
            for (std::size_t n = first; n < last; ++n) {
                Part part = tile_parts_[n];
                while (part.length > 0) {
                    while (end <= at) end = slice_end(total, ++slice, count);
                    Part cut = part;
                    cut.slice = static_cast<std::int32_t>(slice);
                    cut.length = std::min(part.length, end - at);
                    parts_.push_back(cut);
                    at += cut.length;
                    part.offset += cut.length;
                    part.length -= cut.length;
                }
            }
        }
    }

    static std::int64_t slice_end(std::int64_t total, std::int64_t slice, std::int64_t count) {
        if (slice + 1 >= count) return total;
        std::int64_t until = 0, all = 0;
        for (std::int64_t n = 0; n < count; ++n) {
            const std::int64_t weight = std::min({n + 1, count - n, kRampSteps});
            all += weight;
            if (n <= slice) until += weight;
        }
        return static_cast<std::int64_t>(static_cast<double>(total) *
                                         (static_cast<double>(until) / static_cast<double>(all)));
    }

    [[nodiscard]] std::int32_t landing(const Part& part) const {
        const auto width = to_int32(width_);
        return part.dst - part.dst % width + part.carrier % width;
    }

    template <typename Wanted, typename KeyOf>
    Keyed keyed(Wanted is_wanted, KeyOf key_of) const {
        Keyed made;
        made.reserve(parts_.size());
        for (std::size_t n = 0; n < parts_.size(); ++n) {
            if (is_wanted(parts_[n])) made.emplace_back(key_of(parts_[n]), static_cast<std::uint32_t>(n));
        }
        std::ranges::sort(made);
        return made;
    }
    /// Receivers in rotation from the one after their sender: not all begin with the same one.
    [[nodiscard]] std::uint64_t turn(std::int32_t from, std::int32_t to) const {
        return (to_size(to) + ranks_ - to_size(from)) % ranks_;
    }
    [[nodiscard]] std::uint64_t key(std::int32_t from, std::int32_t to, std::int32_t slice) const {
        return (to_size(from) * ranks_ + turn(from, to)) * to_size(most_slices_) + to_size(slice);
    }

    void add_piece(std::int32_t src, std::int32_t dst, std::int64_t offset, std::int64_t length) {
        writer_.add_piece(item_[to_size(src) * ranks_ + to_size(dst)], offset, length);
    }

    /// One message per distinct key. `deps_of` lists those of a message's parts, `ends` says who sends it to whom.
    template <typename Ends, typename DepOf>
    void add_messages(const Keyed& keyed, MessagePhase phase, bool in_turn, std::vector<std::int32_t>& message_of,
                      Ends ends, DepOf dep_of) {
        std::pair<std::int32_t, std::int32_t> before{-1, -1};
        for (std::size_t first = 0, last = 0; first < keyed.size(); first = last) {
            const std::int32_t id = to_int32(writer_.num_messages());
            for (; last < keyed.size() && keyed[last].first == keyed[first].first; ++last) {
                const Part& part = parts_[keyed[last].second];
                add_piece(part.src, part.dst, part.offset, part.length);
                message_of[keyed[last].second] = id;
                if (const std::int32_t dep = dep_of(keyed[last].second); dep >= 0) writer_.add_dep(dep);
            }
            const std::pair<std::int32_t, std::int32_t> pair = ends(parts_[keyed[first].second]);
            if (in_turn && std::exchange(before, pair) == pair) writer_.add_dep(id - 1);
            writer_.end(pair.first, pair.second, phase);
        }
    }

    void add_local() {
        for (std::size_t src = 0; src < ranks_; ++src) {
            const std::size_t first = src / width_ * width_;
            for (std::size_t n = 1; n < width_; ++n) {  // in rotation: not all begin with one receiver
                const std::size_t dst = first + (src - first + n) % width_;
                if (src == dst || demand_[src * ranks_ + dst] == 0) continue;
                add_piece(to_int32(src), to_int32(dst), 0, demand_[src * ranks_ + dst]);
                writer_.end(to_int32(src), to_int32(dst), MessagePhase::kLocal);
            }
        }
    }

    void add_hops() {
        hop_of_.assign(parts_.size(), -1);
        const auto moves = [](const Part& part) { return part.carrier != part.src; };
        const auto hops = keyed(moves, [&](const Part& part) { return key(part.src, part.carrier, part.slice); });
        add_messages(
            hops, MessagePhase::kBalance, true, hop_of_,
            [](const Part& part) { return std::pair{part.src, part.carrier}; }, [](std::size_t) { return -1; });
    }

    void add_wires() {
        wire_of_.assign(parts_.size(), -1);
        const auto wires = keyed([](const Part&) { return true; },
                                 [&](const Part& part) { return key(part.carrier, landing(part), part.slice); });
        add_messages(
            wires, MessagePhase::kScaleOut, true, wire_of_,
            [&](const Part& part) { return std::pair{part.carrier, landing(part)}; },
            [&](std::size_t part) { return hop_of_[part]; });
    }

    void add_fans() {
        std::vector<std::int32_t> fan_of(parts_.size(), -1);
        const auto moves = [&](const Part& part) { return landing(part) != part.dst; };
        const auto fans = keyed(moves, [&](const Part& part) {
            return ((to_size(landing(part)) * ranks_ + turn(landing(part), part.dst)) * ranks_ +
                    to_size(part.carrier)) *
                       to_size(most_slices_) +
                   to_size(part.slice);
        });
        add_messages(
            fans, MessagePhase::kRedistribute, false, fan_of,
            [&](const Part& part) { return std::pair{landing(part), part.dst}; },
            [&](std::size_t part) { return wire_of_[part]; });
    }

    std::span<const std::int64_t> demand_;
    std::span<const double> rates_;
    std::size_t servers_, width_, ranks_;
    Tiles tiles_;
    std::vector<std::int32_t> counts_;  // slices of each server's lanes
    std::int32_t most_slices_ = 1;
    std::vector<std::int32_t> item_;  // [ranks, ranks] id where there are bytes to move
    std::vector<Part> parts_, tile_parts_, surplus_;
    std::vector<std::int64_t> room_;              // of each GPU of a tile
    std::vector<std::int32_t> hop_of_, wire_of_;  // per part, the messages that bring it
    RowWriter writer_;
};

}  // namespace

ScheduleRows rails_split(std::span<const std::int64_t> demand_bytes, std::span<const double> rates, std::size_t servers,
                         std::int32_t slices) {
    require(servers > 0 && rates.size() % servers == 0 && demand_bytes.size() == rates.size() * rates.size(),
            "demand_bytes must be [ranks, ranks], rates [servers, rails] with a rail for every GPU");
    require(slices >= 0 && slices <= 1000, "slices must be from 0 to 1,000");
    double total = 0;
    for (const std::int64_t bytes : demand_bytes) {
        require(bytes >= 0, "demand_bytes must not be negative");
        total += static_cast<double>(bytes);
    }
    require(total < 9e18, "demand_bytes must sum to less than 2^63");
    for (const double rate : rates) require(rate >= 0 && std::isfinite(rate), "rates must be finite and not negative");
    return RailsSplit(demand_bytes, rates, servers, slices).run();
}

}  // namespace interlock
