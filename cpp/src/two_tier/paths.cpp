#include "interlock/two_tier/paths.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "interlock/arithmetic.hpp"
#include "interlock/two_tier/parcels.hpp"
#include "interlock/two_tier/tiles.hpp"

namespace interlock {
namespace {

struct Leg {
    std::int32_t from, to;
    MessagePhase phase;
};

class Paths {
public:
    Paths(std::span<const std::int64_t> demand, const TwoTierDecision& decision, const PieceBytes& piece_bytes)
        : demand_(demand),
          assignment_(decision.assignment),
          piece_bytes_(piece_bytes),
          servers_(decision.servers),
          width_(decision.width),
          ranks_(servers_ * width_),
          item_(number_items(demand, ranks_)) {}

    ScheduleRows write() {
        for (std::size_t src = 0; src < ranks_; ++src) {
            for (std::size_t dst = src / width_ * width_; dst < (src / width_ + 1) * width_; ++dst) {
                if (src != dst) stay(to_int32(src), to_int32(dst));
            }
        }
        TileParcels parcels(demand_, assignment_, servers_, width_);
        for (std::size_t src = 0; src < servers_; ++src) {
            for (std::size_t dst = 0; dst < servers_; ++dst) {
                if (src != dst) cross(parcels, src, dst);
            }
        }
        return writer_.take();
    }

private:
    [[nodiscard]] std::size_t pair(std::int32_t from, std::int32_t to) const {
        return to_size(from) * ranks_ + to_size(to);
    }

    /// Inside a server: the last bytes of a pair take the routes that the assignment has for them, the others go
    /// straight.
    void stay(std::int32_t from, std::int32_t to) {
        constexpr MessagePhase kNear = MessagePhase::kLocal;
        std::int64_t left = demand_[pair(from, to)];
        const auto routes =
            std::ranges::equal_range(assignment_.near, std::pair{from, to}, {},
                                     [](const RouteBytes& part) { return std::pair{part.route.from, part.route.to}; });
        for (const auto& [route, wanted] : routes) {
            const std::int64_t bytes = std::min(left, wanted);
            left -= bytes;
            if (route.relay >= 0) {
                const std::array legs = {Leg{from, route.relay, kNear}, Leg{route.relay, to, kNear}};
                add(pair(from, to), left, bytes, piece_bytes_.hop, legs);
            } else {
                const std::array legs = {Leg{from, route.out, kNear}, Leg{route.out, route.in, MessagePhase::kScaleOut},
                                         Leg{route.in, to, kNear}};
                add(pair(from, to), left, bytes, piece_bytes_.wire, legs);
            }
        }
        add(pair(from, to), 0, left, piece_bytes_.hop, std::array{Leg{from, to, kNear}});
    }

    void cross(TileParcels& parcels, std::size_t src_server, std::size_t dst_server) {
        const auto first_src = to_int32(src_server * width_), first_dst = to_int32(dst_server * width_);
        parcels.cut(src_server, dst_server);
        for (std::size_t lane = 0; lane < parcels.lanes().size(); ++lane) {
            const std::int32_t out = first_src + parcels.lanes()[lane].out_gpu,
                               in = first_dst + parcels.lanes()[lane].in_gpu;
            for (const Parcel& parcel : parcels.loads()[lane]) {
                const std::int32_t from = first_src + parcel.sender, to = first_dst + parcel.receiver;
                const std::array legs = {Leg{from, out, MessagePhase::kBalance}, Leg{out, in, MessagePhase::kScaleOut},
                                         Leg{in, to, MessagePhase::kRedistribute}};
                add(pair(from, to), parcel.offset, parcel.bytes, piece_bytes_.wire, legs);
            }
        }
    }

    /// Some bytes of a pair, piece by piece along all legs; one that goes nowhere is none.
    void add(std::size_t pair, std::int64_t first, std::int64_t bytes, std::int64_t piece_bytes,
             std::span<const Leg> legs) {
        if (bytes == 0) return;
        const std::int64_t pieces = std::min(bytes, num_slices(bytes, piece_bytes));
        for (std::int64_t piece = 0; piece < pieces; ++piece) {
            const std::int64_t start = portion(bytes, piece, pieces), end = portion(bytes, piece + 1, pieces);
            const std::size_t first_leg = writer_.num_messages();
            for (const Leg& leg : legs) {
                if (leg.from == leg.to) continue;
                writer_.add_piece(item_[pair], first + start, end - start);
                if (writer_.num_messages() > first_leg) writer_.add_dep(to_int32(writer_.num_messages()) - 1);
                writer_.end(leg.from, leg.to, leg.phase, 0, static_cast<std::int32_t>(piece));
            }
        }
    }

    std::span<const std::int64_t> demand_;
    const Assignment& assignment_;
    PieceBytes piece_bytes_;
    std::size_t servers_, width_, ranks_;
    std::vector<std::int32_t> item_;  // [ranks, ranks] id where there are bytes to move
    RowWriter writer_;
};

}  // namespace

ScheduleRows expand_paths(std::span<const std::int64_t> demand_bytes, const TwoTierDecision& decision,
                          const PieceBytes& pieces) {
    return Paths(demand_bytes, decision, pieces).write();
}

}  // namespace interlock
