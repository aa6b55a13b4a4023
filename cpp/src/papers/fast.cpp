#include "interlock/papers/fast.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <ranges>
#include <utility>
#include <vector>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/papers/decompose.hpp"
#include "interlock/two_tier/tiles.hpp"

namespace interlock {
namespace {

constexpr std::int32_t kFirstStage = 1;  // stage 0 is balance
constexpr std::int32_t kNone = -1;

/// Bytes of one item that leave by one NIC in one stage. Ranks are given as GPUs of their servers.
struct Part {
    std::int64_t offset, length;
    std::int32_t item, stage;
    std::int32_t message;  ///< that moves them last, of those written so far, or kNone
    std::uint16_t src, dst;
    std::uint16_t carrier, landing;  ///< whose NICs they take
};

/// Bytes of one item that a GPU carries.
struct Held {
    std::uint64_t key;  ///< GPUs of its destination and its source
    std::int64_t offset, length;
    std::int32_t item;
    [[nodiscard]] std::uint16_t dst() const { return static_cast<std::uint16_t>(key >> 16U); }
    [[nodiscard]] std::uint16_t src() const { return static_cast<std::uint16_t>(key); }
};

/// What one tile has sent once a stage is over: `share` bytes of each GPU, and one more of the first `rest`.
struct StageEnd {
    std::int64_t share;
    std::int32_t stage;
    std::uint16_t rest;
};

/// Parts by the pair of GPUs of one server that they move between: first counted, then put in.
struct Moves {
    std::vector<std::uint32_t> end;   // per pair, of those put in so far
    std::vector<std::uint32_t> part;  // pair after pair

    void number() {
        std::exclusive_scan(end.begin(), end.end(), end.begin(), 0U);
        part.resize(end.back());
    }
    void put(std::size_t pair, std::size_t p) { part[end[pair]++] = static_cast<std::uint32_t>(p); }
    [[nodiscard]] std::span<const std::uint32_t> of(std::size_t pair) const {
        const std::size_t first = pair == 0 ? 0 : end[pair - 1];
        return std::span(part).subspan(first, end[pair] - first);
    }
};

class Fast {
public:
    Fast(std::span<const std::int64_t> demand, std::size_t servers, std::size_t width,
         std::span<const std::int32_t> out_gpu, std::span<const std::int32_t> in_gpu)
        : demand_(demand),
          servers_(servers),
          width_(width),
          ranks_(servers * width),
          out_gpu_(out_gpu),
          in_gpu_(in_gpu) {
        require(servers > 0 && width > 0 && width < (1U << 16U),
                "there must be a server, and from 1 to 65,535 ranks on each");
        require(out_gpu.empty() == in_gpu.empty(), "GPUs that carry must be given at both ends");
        for (const auto& gpus : {out_gpu, in_gpu}) {
            require(gpus.empty() || gpus.size() == servers * ranks_,
                    "GPUs that carry must be [servers, servers, width]");
            for (const std::int32_t gpu : gpus)
                require(gpu >= 0 && to_size(gpu) < width, "a GPU that carries is out of range");
        }
    }

    ScheduleRows run(bool is_exclusive) {
        const Tiles tiles = sum_tiles(demand_, servers_, width_);
        item_ = number_items(demand_, ranks_);
        one_to_one_stages(tiles);
        // At most one part per item, one more per GPU of a tile that takes over from another, and one more per stage
        // and GPU.
        parts_.resize(to_size(item_.back()) + 1 + (2 * servers_ * servers_ + ends_.size()) * width_);
        first_part_.reserve(servers_ * ranks_ + 1);
        for (Moves* moves : {&hops_, &fans_}) moves->end.resize(ranks_ * width_ + 1);
        for (std::size_t tile = 0; tile < servers_ * servers_; ++tile) {
            const bool is_empty = first_end_[tile] == first_end_[tile + 1];
            if (!is_empty) balance(tile, tiles.bytes[tile]);
            for (std::size_t gpu = 0; gpu < width_; ++gpu) {
                if (!is_empty) cut_into_stages(tile, gpu);
                first_part_.push_back(num_parts_);
            }
        }
        pipeline(is_exclusive);
        return writer_.take();
    }

private:
    /// Pad with virtual traffic, decompose into permutations, largest first; virtual traffic is never sent.
    void one_to_one_stages(const Tiles& tiles) {
        std::vector<std::int64_t> between = tiles.bytes;
        for (std::size_t server = 0; server < servers_; ++server) between[server * servers_ + server] = 0;
        first_end_.assign(servers_ * servers_ + 1, 0);
        if (std::ranges::all_of(between, [](std::int64_t bytes) { return bytes == 0; })) return;
        const Permutations stages = decompose(between, to_int32(servers_));
        senders_.resize(stages.partner.size());
        const auto each_end = [&](auto&& use) {
            std::vector<std::int64_t> left = between;
            for (std::size_t stage = 0; stage < stages.weight.size(); ++stage) {
                for (std::size_t src = 0; src < servers_; ++src) {
                    const std::size_t dst = to_size(stages.partner[stage * servers_ + src]),
                                      tile = src * servers_ + dst;
                    senders_[stage * servers_ + dst] = to_int32(src);
                    if (left[tile] == 0) continue;
                    left[tile] -= std::min(left[tile], stages.weight[stage]);
                    use(tile, to_int32(stage), between[tile] - left[tile]);
                }
            }
        };
        each_end([&](std::size_t tile, std::int32_t, std::int64_t) { ++first_end_[tile + 1]; });
        std::partial_sum(first_end_.begin(), first_end_.end(), first_end_.begin());
        ends_.resize(first_end_.back());
        std::vector<std::size_t> next = first_end_;
        const auto count = static_cast<std::int64_t>(width_);
        each_end([&](std::size_t tile, std::int32_t stage, std::int64_t until) {
            ends_[next[tile]++] = {until / count, stage, static_cast<std::uint16_t>(until % count)};
        });
    }

    /// Every GPU carries an equal share of a tile: one above the mean keeps its first bytes and hands the rest to those
    /// below it, in order.
    void balance(std::size_t tile, std::int64_t tile_bytes) {
        const std::size_t src = tile / servers_ * width_, dst = tile % servers_ * width_;
        const auto count = static_cast<std::int64_t>(width_);
        shares_.resize(width_);
        room_.resize(width_);
        surplus_.clear();
        for (std::size_t gpu = 0; gpu < width_; ++gpu) {
            shares_[gpu].clear();
            room_[gpu] = tile_bytes / count + (static_cast<std::int64_t>(gpu) < tile_bytes % count);
        }
        for (std::size_t gpu = 0; gpu < width_; ++gpu) {
            std::int64_t room = room_[gpu];
            for (std::size_t to = 0; to < width_; ++to) {
                const std::size_t cell = (src + gpu) * ranks_ + dst + to;
                const std::int64_t bytes = demand_[cell], kept = std::min(bytes, room);
                if (kept > 0) shares_[gpu].push_back({to << 16U | gpu, 0, kept, item_[cell]});
                if (kept < bytes) surplus_.push_back({to << 16U | gpu, kept, bytes - kept, item_[cell]});
                room -= kept;
            }
            room_[gpu] = room;
        }
        std::size_t taker = 0;
        for (Held part : surplus_) {
            for (std::int64_t left = part.length; left > 0; left -= part.length) {
                while (room_[taker] == 0) ++taker;
                part.length = std::min(left, room_[taker]);
                shares_[taker].push_back(part);
                room_[taker] -= part.length;
                part.offset += part.length;
            }
        }
    }

    /// Cuts a GPU's share of a tile where stages end, destination GPUs in index order.
    void cut_into_stages(std::size_t tile, std::size_t gpu) {
        auto& share = shares_[gpu];
        if (!std::ranges::is_sorted(share, {}, &Held::key)) std::ranges::sort(share, {}, &Held::key);
        const std::size_t way = tile * width_ + gpu;
        const auto carrier = static_cast<std::uint16_t>(out_gpu_.empty() ? to_int32(gpu) : out_gpu_[way]);
        const auto landing = static_cast<std::uint16_t>(in_gpu_.empty() ? to_int32(gpu) : in_gpu_[way]);
        std::uint32_t* const hops = hops_.end.data() + pair(tile / servers_, 0, carrier);
        std::uint32_t* const fans = fans_.end.data() + pair(tile % servers_, landing, 0);
        const StageEnd* stage = ends_.data() + first_end_[tile];
        const auto end_of = [gpu](const StageEnd& end) { return end.share + (gpu < end.rest); };
        std::int64_t position = 0, end = end_of(*stage);
        for (const Held& held : share) {
            std::int64_t offset = held.offset;
            for (std::int64_t left = held.length; left > 0;) {
                while (end == position) end = end_of(*++stage);
                const std::int64_t length = std::min(left, end - position);
                parts_[num_parts_++] = {offset,     length,     held.item, stage->stage, kNone,
                                        held.src(), held.dst(), carrier,   landing};
                hops[held.src() * width_] += held.src() != carrier;
                fans[held.dst()] += held.dst() != landing;
                position += length;
                offset += length;
                left -= length;
            }
        }
    }

    /// Balance before a barrier; then stage k + 1 on the NICs while stage k is redistributed.
    void pipeline(bool is_exclusive) {
        hops_.number();
        fans_.number();
        const std::size_t moved = hops_.part.size() + fans_.part.size(),
                          pieces = ranks_ * (width_ - 1) + num_parts_ + moved;
        writer_.reserve(pieces, pieces, moved);  // as many messages as pieces, at most
        add_hops();
        add_local();  // behind the barrier: rows are in the order in which they may go
        const std::size_t first_wire = writer_.num_messages();
        add_wires();
        // A NIC carries one stage at a time, in order; of several messages of a stage around a dead one, one after the
        // other.
        if (is_exclusive) writer_.order_by_stage(first_wire);
        add_fans();
    }

    /// For all destinations together.
    void add_hops() {
        for (std::size_t server = 0; server < servers_; ++server) {
            for (std::size_t p = first_part_[server * ranks_]; p < first_part_[(server + 1) * ranks_]; ++p) {
                if (parts_[p].carrier != parts_[p].src) hops_.put(pair(server, parts_[p].src, parts_[p].carrier), p);
            }
            add_moves(hops_, server, MessagePhase::kBalance, [](const Part&) { return 0; });
        }
    }

    /// What stays inside servers runs beside the first stage.
    void add_local() {
        for (std::size_t src = 0; src < ranks_; ++src) {
            const std::size_t first = src / width_ * width_;
            for (std::size_t n = 1; n < width_; ++n) {  // in rotation: not all begin with one receiver
                const std::size_t dst = first + (src - first + n) % width_;
                const std::int64_t bytes = demand_[src * ranks_ + dst];
                if (bytes == 0) continue;
                writer_.add_piece(item_[src * ranks_ + dst], 0, bytes);
                writer_.end(to_int32(src), to_int32(dst), MessagePhase::kLocal, kFirstStage);
            }
        }
    }

    void add_wires() {
        std::vector<std::size_t> together;
        const auto stage_of = [](const Part& part) { return kFirstStage + part.stage; };
        for (std::size_t carrier = 0; carrier < ranks_; ++carrier) {
            const std::size_t server = carrier / width_, gpu = carrier % width_;
            for (std::size_t to = 0; to < servers_; ++to) {
                const std::size_t ways = (server * servers_ + to) * width_;
                const auto parts_of = [&](std::size_t way) {
                    return std::views::iota(first_part_[way], first_part_[way + 1]);
                };
                if (out_gpu_.empty()) {
                    add_messages(parts_of(ways + gpu), carrier, to * width_ + gpu, MessagePhase::kScaleOut, stage_of);
                    continue;
                }
                for (std::size_t landing = 0; landing < width_; ++landing) {
                    together.clear();  // several GPUs may take the same NICs
                    for (std::size_t way = ways; way < ways + width_; ++way) {
                        if (to_size(out_gpu_[way]) != gpu || to_size(in_gpu_[way]) != landing) continue;
                        std::ranges::copy(parts_of(way), std::back_inserter(together));
                    }
                    std::ranges::stable_sort(together, {}, [&](std::size_t p) { return parts_[p].stage; });
                    add_messages(together, carrier, to * width_ + landing, MessagePhase::kScaleOut, stage_of);
                }
            }
        }
    }

    /// Redistribution belongs to the stage that it runs beside.
    void add_fans() {
        std::vector<std::size_t> next(ranks_);
        for (std::size_t server = 0; server < servers_; ++server) {
            const auto way = [&](std::size_t from) { return (from * servers_ + server) * width_; };
            for (std::size_t n = 0; n < ranks_; ++n) next[n] = first_part_[way(n / width_) + n % width_];
            for (std::size_t stage = 0; stage < senders_.size() / servers_; ++stage) {
                const std::size_t from = to_size(senders_[stage * servers_ + server]);
                for (std::size_t gpu = 0; gpu < width_; ++gpu) {
                    std::size_t& p = next[from * width_ + gpu];
                    for (; p < first_part_[way(from) + gpu + 1] && to_size(parts_[p].stage) == stage; ++p) {
                        if (parts_[p].landing != parts_[p].dst)
                            fans_.put(pair(server, parts_[p].landing, parts_[p].dst), p);
                    }
                }
            }
            add_moves(fans_, server, MessagePhase::kRedistribute,
                      [](const Part& part) { return kFirstStage + part.stage + 1; });
        }
    }

    [[nodiscard]] std::size_t pair(std::size_t server, std::size_t from, std::size_t to) const {
        return (server * width_ + from) * width_ + to;
    }
    template <typename StageOf>
    void add_moves(const Moves& moves, std::size_t server, MessagePhase phase, StageOf stage_of) {
        for (std::size_t from = 0; from < width_; ++from) {
            for (std::size_t to = 0; to < width_; ++to) {
                add_messages(moves.of(pair(server, from, to)), server * width_ + from, server * width_ + to, phase,
                             stage_of);
            }
        }
    }

    /// One message per stage of parts that lie in their order. It waits for those that brought its parts.
    template <typename Parts, typename StageOf>
    void add_messages(const Parts& parts, std::size_t src, std::size_t dst, MessagePhase phase, StageOf stage_of) {
        std::int32_t stage = kNone, id = kNone;
        for (const std::size_t p : parts) {
            Part& part = parts_[p];
            if (stage_of(part) != stage) {
                if (stage != kNone) writer_.end(to_int32(src), to_int32(dst), phase, stage);
                stage = stage_of(part);
                id = to_int32(writer_.num_messages());
            }
            writer_.add_piece(part.item, part.offset, part.length);
            if (const std::int32_t before = std::exchange(part.message, id); before != kNone) writer_.add_dep(before);
        }
        if (stage != kNone) writer_.end(to_int32(src), to_int32(dst), phase, stage);
    }

    std::span<const std::int64_t> demand_;
    std::size_t servers_, width_, ranks_;
    std::span<const std::int32_t> out_gpu_, in_gpu_;
    std::vector<std::int32_t> item_;         // [ranks, ranks]
    std::vector<std::int32_t> senders_;      // [stages, servers] from whom each hears
    std::vector<std::size_t> first_end_;     // per tile
    std::vector<StageEnd> ends_;             // tile after tile, stage after stage
    std::vector<std::vector<Held>> shares_;  // of one tile, per GPU
    std::vector<Held> surplus_;              // of one tile
    std::vector<std::int64_t> room_;         // of one tile, per GPU
    RowColumn<Part> parts_;                  // tile after tile, GPU after GPU, stage after stage
    std::size_t num_parts_ = 0;
    std::vector<std::size_t> first_part_{0};  // per tile and GPU
    Moves hops_, fans_;                       // [ranks, width] before and after the wire
    RowWriter writer_;
};

}  // namespace

ScheduleRows fast_rows(std::span<const std::int64_t> demand_bytes, std::size_t servers, std::size_t width,
                       std::span<const std::int32_t> out_gpu, std::span<const std::int32_t> in_gpu, bool is_exclusive) {
    require(demand_bytes.size() == servers * width * servers * width, "demand_bytes must be [ranks, ranks]");
    return Fast(demand_bytes, servers, width, out_gpu, in_gpu).run(is_exclusive);
}

}  // namespace interlock
