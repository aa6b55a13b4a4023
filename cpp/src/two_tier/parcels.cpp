#include "interlock/two_tier/parcels.hpp"

#include <algorithm>
#include <numeric>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"

namespace interlock {
TileParcels::TileParcels(std::span<const std::int64_t> demand_bytes, const Assignment& assignment, std::size_t servers,
                         std::size_t width)
    : demand_(demand_bytes),
      assignment_(assignment),
      servers_(servers),
      width_(width),
      ranks_(servers * width),
      out_parts_(width * width),
      in_parts_(width * width) {
    if (assignment.out_bytes.empty()) {
        first_route_.assign(servers * servers + 1, 0);
        for (const RouteBytes& part : assignment.far) {
            ++first_route_[to_size(part.route.from) / width * servers + to_size(part.route.to) / width + 1];
        }
        std::partial_sum(first_route_.begin(), first_route_.end(), first_route_.begin());
        return;
    }
    require(assignment.out_bytes.size() == ranks_ * width && assignment.in_bytes.size() == ranks_ * width,
            "out_bytes and in_bytes must be [ranks, gpus]");
}

void TileParcels::cut(std::size_t src_server, std::size_t dst_server, std::int32_t only_rank) {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) loads_[lane].clear();
    lanes_.clear();
    lane_of_.assign(width_ * width_, -1);
    if (!first_route_.empty()) {
        const std::size_t tile = src_server * servers_ + dst_server;
        std::int32_t from = -1, to = -1;
        std::int64_t offset = 0;
        for (std::size_t n = first_route_[tile]; n < first_route_[tile + 1]; ++n) {
            const auto& [route, bytes] = assignment_.far[n];
            if (route.from != from || route.to != to) offset = 0;
            from = route.from;
            to = route.to;
            const auto width = to_int32(width_);
            add(from % width, to % width, route.out % width, route.in % width, offset, bytes);
            offset += bytes;
        }
    } else {
        out_wanted_.assign(width_, 1);
        in_wanted_.assign(width_, 1);
        if (only_rank >= 0) find_sharers(to_size(only_rank), to_size(only_rank) / width_ == src_server);
        divide(src_server, dst_server, true, out_parts_);
        divide(src_server, dst_server, false, in_parts_);
        for (std::size_t pair = 0; pair < width_ * width_; ++pair) {
            if (out_wanted_[pair / width_] == 0 || in_wanted_[pair % width_] == 0) continue;
            std::int64_t offset = 0;
            auto in = in_parts_[pair].begin();
            for (Part out : out_parts_[pair]) {
                while (out.bytes > 0) {
                    const std::int64_t bytes = std::min(out.bytes, in->bytes);
                    add(to_int32(pair / width_), to_int32(pair % width_), out.nic, in->nic, offset, bytes);
                    offset += bytes;
                    out.bytes -= bytes;
                    in->bytes -= bytes;
                    if (in->bytes == 0) ++in;
                }
            }
        }
    }
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
        if (loads_[lane].size() < 2) continue;
        std::ranges::stable_sort(loads_[lane], {}, [&](const Parcel& parcel) {
            return std::pair{parcel.sender != lanes_[lane].out_gpu, parcel.receiver == lanes_[lane].in_gpu};
        });
    }
}

void TileParcels::find_sharers(std::size_t rank, bool sends) {
    const auto& shares = sends ? assignment_.out_bytes : assignment_.in_bytes;
    const std::size_t own = rank % width_, first = rank - own;
    const auto uses = [&](std::size_t gpu, std::size_t nic) { return shares[(first + gpu) * width_ + nic] > 0; };
    auto& wanted = sends ? out_wanted_ : in_wanted_;
    for (std::size_t gpu = 0; gpu < width_; ++gpu) {
        wanted[gpu] = gpu == own;
        for (std::size_t nic = 0; nic < width_ && wanted[gpu] == 0; ++nic) {
            wanted[gpu] = uses(gpu, nic) && (nic == own || uses(own, nic));
        }
    }
}

void TileParcels::divide(std::size_t src_server, std::size_t dst_server, bool sends,
                         std::vector<std::vector<Part>>& parts) {
    const std::size_t server = sends ? src_server : dst_server;
    const auto& shares = sends ? assignment_.out_bytes : assignment_.in_bytes;
    const auto pair_of = [&](std::size_t own, std::size_t other) {
        return sends ? own * width_ + other : other * width_ + own;
    };
    const auto bytes_of = [&](std::size_t pair) {
        return demand_[(src_server * width_ + pair / width_) * ranks_ + dst_server * width_ + pair % width_];
    };
    const auto& is_wanted = sends ? out_wanted_ : in_wanted_;
    line_.resize(width_);
    for (std::size_t own = 0; own < width_; ++own) {
        if (is_wanted[own] == 0) continue;
        const auto share = std::span(shares).subspan((server * width_ + own) * width_, width_);
        const std::int64_t whole = std::accumulate(share.begin(), share.end(), std::int64_t{0});
        std::int64_t line = 0;
        for (std::size_t other = 0; other < width_; ++other) {
            const std::size_t turn = (own + other) % width_, pair = pair_of(own, turn);
            line_[other] = {bytes_of(pair), turn};
            parts[pair].clear();
            line += line_[other].first;
        }
        if (line == 0) continue;
        require(whole > 0, "a rank with bytes to move needs NICs that carry them");
        if (share[own] == whole) {
            for (const auto& [bytes, other] : line_) {
                if (bytes > 0) parts[pair_of(own, other)].push_back({to_int32(own), bytes});
            }
            continue;
        }
        const auto place = [&](std::size_t other) { return (other + width_ - own) % width_; };
        std::ranges::sort(line_, [&](const auto& a, const auto& b) {
            return a.first != b.first ? a.first > b.first : place(a.second) < place(b.second);
        });
        // Senders give the first of the line to other NICs, receivers the last: few bytes hop at both ends.
        const auto nic_of = [&](std::size_t turn) { return (own + turn + (sends ? 1 : 0)) % width_; };
        if (!sends) std::ranges::reverse(line_);
        std::size_t turn = 0;
        std::int64_t passed = share[nic_of(0)], at = 0;
        std::int64_t end = portion(line, passed, whole);
        for (const auto& [all, other] : line_) {
            std::int64_t left = all;
            while (left > 0) {
                while (end <= at) {
                    passed += share[nic_of(++turn)];
                    end = portion(line, passed, whole);
                }
                const std::int64_t bytes = std::min(left, end - at);
                parts[pair_of(own, other)].push_back({to_int32(nic_of(turn)), bytes});
                at += bytes;
                left -= bytes;
            }
        }
    }
}

void TileParcels::add(std::int32_t sender, std::int32_t receiver, std::int32_t out, std::int32_t in,
                      std::int64_t offset, std::int64_t bytes) {
    if (bytes <= 0) return;
    std::int32_t& lane = lane_of_[to_size(out) * width_ + to_size(in)];
    if (lane < 0) {
        lane = to_int32(lanes_.size());
        lanes_.push_back({out, in, 0});
        if (loads_.size() < lanes_.size()) loads_.emplace_back();
    }
    lanes_[to_size(lane)].bytes += bytes;
    loads_[to_size(lane)].push_back({sender, receiver, offset, bytes});
}

}  // namespace interlock
