#include "interlock/two_tier/fast.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier/decompose.hpp"
#include "interlock/two_tier/tiles.hpp"

namespace interlock {
namespace {

constexpr std::int32_t kFirstStage = 1;  // stage 0 is balance

/// Bytes of one item that leave by one NIC in one stage.
struct Part {
    std::int32_t item, src, dst;
    std::int32_t carrier, landing;  ///< ranks whose NICs they take
    std::int32_t stage;
    std::int64_t offset, length;
};

/// A part by number, in the order of stages: one number, which sorts fast.
struct StagedPart {
    std::uint64_t key;
    StagedPart() = default;
    StagedPart(std::int32_t stage, std::size_t part) : key(static_cast<std::uint64_t>(stage) << 32U | part) {}
    [[nodiscard]] std::uint64_t stage() const { return key >> 32U; }
    [[nodiscard]] std::size_t part() const { return key & 0xffffffffU; }
};

/// What one tile has sent once a stage is over.
struct StageEnd {
    std::int32_t stage;
    std::int64_t until_bytes;
};

class Fast {
public:
    Fast(std::span<const std::int64_t> demand, std::size_t servers, std::size_t width, std::span<const std::int32_t> out_gpu,
         std::span<const std::int32_t> in_gpu)
        : demand_(demand), servers_(servers), width_(width), ranks_(servers * width), out_gpu_(out_gpu), in_gpu_(in_gpu) {
        for (const auto& gpus : {out_gpu, in_gpu}) {
            require(gpus.empty() || gpus.size() == servers * ranks_, "GPUs that carry must be [servers, servers, width]");
            for (const std::int32_t gpu : gpus) require(gpu >= 0 && to_size(gpu) < width, "a GPU that carries is out of range");
        }
    }

    ScheduleRows run(bool is_exclusive) {
        const Tiles tiles = sum_tiles(demand_, servers_, width_);
        item_ = number_items(demand_, ranks_);
        one_to_one_stages(tiles);
        reserve_parts();
        ways_end_.assign(servers_ * ranks_, 0);
        for (std::size_t tile = 0; tile < servers_ * servers_; ++tile) {
            const bool is_empty = tile / servers_ == tile % servers_ || tiles.bytes[tile] == 0;
            if (!is_empty) balance(tile, tiles.bytes[tile]);
            for (std::size_t way = tile * width_; way < (tile + 1) * width_; ++way) {
                if (!is_empty) cut_into_stages(tile, way - tile * width_);
                ways_end_[way] = parts_.size();
            }
        }
        pipeline(is_exclusive);
        rows_.slice.assign(rows_.src.size(), 0);
        return std::move(rows_);
    }

private:
    /// What stays inside servers runs beside the first stage.
    void add_local() {
        for (std::size_t src = 0; src < ranks_; ++src) {
            const std::size_t first = src / width_ * width_;
            for (std::size_t n = 1; n < width_; ++n) {  // in rotation: not all begin with one receiver
                const std::size_t dst = first + (src - first + n) % width_;
                const std::int64_t bytes = demand_[src * ranks_ + dst];
                if (src == dst || bytes == 0) continue;
                add_piece(item_[src * ranks_ + dst], 0, bytes);
                add_message(to_int32(src), to_int32(dst), kFirstStage);
            }
        }
        end_phase(MessagePhase::kLocal);
    }

    /// Pad with virtual traffic, decompose into permutations, largest first; virtual traffic is never sent.
    void one_to_one_stages(const Tiles& tiles) {
        std::vector<std::int64_t> between = tiles.bytes;
        for (std::size_t server = 0; server < servers_; ++server) between[server * servers_ + server] = 0;
        stages_.resize(servers_ * servers_);
        if (std::ranges::all_of(between, [](std::int64_t bytes) { return bytes == 0; })) return;
        const Permutations stages = decompose(between, to_int32(servers_));
        for (std::size_t stage = 0; stage < stages.weight.size(); ++stage) {
            for (std::size_t src = 0; src < servers_; ++src) {
                const std::size_t tile = src * servers_ + to_size(stages.partner[stage * servers_ + src]);
                auto& ends = stages_[tile];
                const std::int64_t before = ends.empty() ? 0 : ends.back().until_bytes;
                const std::int64_t until = std::min(between[tile], before + stages.weight[stage]);
                if (until > before) ends.push_back({to_int32(stage), until});
            }
        }
    }

    /// At most one part per item, one more per GPU of a tile that takes over from another, and one more per stage and GPU.
    void reserve_parts() {
        std::size_t cuts = 0;
        for (const auto& ends : stages_) cuts += ends.empty() ? 0 : 2 + ends.size();
        parts_.reserve((item_.empty() ? 0 : to_size(item_.back()) + 1) + cuts * width_);
    }

    /// Every GPU carries an equal share of a tile: one above the mean keeps its first bytes and hands the rest to those below
    /// it, in order.
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
            for (std::size_t to = 0; to < width_; ++to) {
                const std::int64_t bytes = demand_[(src + gpu) * ranks_ + dst + to];
                if (bytes == 0) continue;
                const std::int64_t kept = std::min(bytes, room_[gpu]);
                const std::int32_t item = item_[(src + gpu) * ranks_ + dst + to];
                const Part part{item, to_int32(src + gpu), to_int32(dst + to), 0, 0, 0, 0, kept};
                if (kept > 0) shares_[gpu].push_back(part);
                room_[gpu] -= kept;
                if (kept < bytes) {
                    surplus_.push_back(part);
                    surplus_.back().offset = kept;
                    surplus_.back().length = bytes - kept;
                }
            }
        }
        std::size_t taker = 0;
        for (Part part : surplus_) {
            while (part.length > 0) {
                while (room_[taker] == 0) ++taker;
                Part given = part;
                given.length = std::min(part.length, room_[taker]);
                shares_[taker].push_back(given);
                room_[taker] -= given.length;
                part.offset += given.length;
                part.length -= given.length;
            }
        }
    }

    /// Cuts a GPU's share of a tile where stages end, destination GPUs in index order.
    void cut_into_stages(std::size_t tile, std::size_t gpu) {
        const auto count = static_cast<std::int64_t>(width_);
        auto& share = shares_[gpu];
        std::ranges::sort(share, [](const Part& a, const Part& b) { return std::pair{a.dst, a.src} < std::pair{b.dst, b.src}; });
        const std::size_t way = tile * width_ + gpu;
        const auto out = out_gpu_.empty() ? gpu : to_size(out_gpu_[way]), in = in_gpu_.empty() ? gpu : to_size(in_gpu_[way]);
        std::size_t stage = 0;
        const auto end_of = [&] {
            const std::int64_t until = stages_[tile][stage].until_bytes;
            return until / count + (static_cast<std::int64_t>(gpu) < until % count);
        };
        std::int64_t position = 0, end = share.empty() ? 0 : end_of();
        for (Part part : share) {
            part.carrier = to_int32(tile / servers_ * width_ + out);
            part.landing = to_int32(tile % servers_ * width_ + in);
            while (part.length > 0) {
                for (; end == position; end = end_of()) ++stage;
                Part cut = part;
                cut.stage = kFirstStage + stages_[tile][stage].stage;
                cut.length = std::min(part.length, end - position);
                parts_.push_back(cut);
                position += cut.length;
                part.offset += cut.length;
                part.length -= cut.length;
            }
        }
    }

    /// Balance before a barrier; then stage k + 1 on the NICs while stage k is redistributed.
    void pipeline(bool is_exclusive) {
        const std::size_t count = parts_.size();
        reserve_rows();
        hop_.assign(count, -1);
        wire_.assign(count, -1);
        const auto is_helped = [](const Part& part) { return part.carrier != part.src; };
        const auto is_misplaced = [](const Part& part) { return part.landing != part.dst; };
        std::vector<std::size_t> gpu(ranks_);  // of each rank in its server: a division per part would take longer
        for (std::size_t rank = 0; rank < ranks_; ++rank) gpu[rank] = rank % width_;
        const auto pair = [&](std::int32_t from, std::int32_t to) { return to_size(from) * width_ + gpu[to_size(to)]; };
        // For all destinations together.
        add_groups(
            ranks_ * width_, is_helped, [&](const Part& part) { return pair(part.src, part.carrier); },
            [](const Part&) { return 0; },
            [&](std::span<const StagedPart> group) {
                const Part& part = parts_[group.front().part()];
                for (const StagedPart& one : group) hop_[one.part()] = to_int32(rows_.src.size());
                add_message(part.src, part.carrier, 0);
            });
        end_phase(MessagePhase::kBalance);
        add_local();  // behind the barrier: rows are in the order in which they may go
        const std::size_t first_wire = rows_.src.size();
        const auto close_wire = [&](std::span<const StagedPart> group) {
            const Part& part = parts_[group.front().part()];
            for (const StagedPart& one : group) wire_[one.part()] = to_int32(rows_.src.size());
            add_deps(group, hop_);
            add_message(part.carrier, part.landing, part.stage);
        };
        if (out_gpu_.empty()) {  // parts lie as they leave: all of a way are together, stage after stage
            for (std::size_t carrier = 0; carrier < ranks_; ++carrier) {
                for (std::size_t to = 0; to < servers_; ++to) {
                    const std::size_t way = (carrier / width_ * servers_ + to) * width_ + gpu[carrier];
                    order_.clear();
                    for (std::size_t p = way == 0 ? 0 : ways_end_[way - 1]; p < ways_end_[way]; ++p) order_.emplace_back(parts_[p].stage, p);
                    add_bucket(order_, close_wire);
                }
            }
        } else {
            add_groups(
                ranks_ * ranks_, [](const Part&) { return true; },
                [&](const Part& part) { return to_size(part.carrier) * ranks_ + to_size(part.landing); },
                [](const Part& part) { return part.stage; }, close_wire);
        }
        end_phase(MessagePhase::kScaleOut);
        const auto num_wires = static_cast<std::int64_t>(rows_.src.size() - first_wire);
        // A NIC carries one stage at a time, in order; of several messages of a stage around a dead one, one after the other.
        for (std::size_t wire = first_wire; is_exclusive && wire < rows_.src.size(); ++wire) {
            rows_.order[wire] = rows_.stage[wire] * num_wires + static_cast<std::int64_t>(wire - first_wire);
        }
        // Redistribution belongs to the stage that it runs beside.
        add_groups(
            ranks_ * width_, is_misplaced, [&](const Part& part) { return pair(part.landing, part.dst); },
            [](const Part& part) { return part.stage; },
            [&](std::span<const StagedPart> group) {
                const Part& part = parts_[group.front().part()];
                add_deps(group, wire_);
                add_message(part.landing, part.dst, part.stage + 1);
            });
        end_phase(MessagePhase::kRedistribute);
    }

    /// Room for as many messages as there are pieces.
    void reserve_rows() {
        std::size_t pieces = ranks_ * (width_ - 1) + parts_.size();
        for (const Part& part : parts_) pieces += (part.carrier != part.src) + (part.landing != part.dst);
        for (auto* column : {&rows_.src, &rows_.dst, &rows_.stage, &rows_.item}) column->reserve(pieces);
        for (auto* column : {&rows_.size_bytes, &rows_.order, &rows_.offset, &rows_.length}) column->reserve(pieces);
        for (auto* column : {&rows_.dep_offsets, &rows_.piece_offsets}) column->reserve(pieces + 1);
        rows_.phase.reserve(pieces);
        rows_.deps.reserve(pieces);
    }

    /// One message per bucket and stage, ascending; parts keep their order.
    template <typename Chosen, typename BucketOf, typename StageOf, typename Close>
    void add_groups(std::size_t num_buckets, Chosen is_chosen, BucketOf bucket_of, StageOf stage_of, Close close) {
        first_.assign(num_buckets + 1, 0);
        for (const Part& part : parts_) {
            if (is_chosen(part)) ++first_[bucket_of(part) + 1];
        }
        std::partial_sum(first_.begin(), first_.end(), first_.begin());
        order_.resize(first_.back());
        std::vector<std::uint32_t>& next = next_;
        next.assign(first_.begin(), first_.end() - 1);
        for (std::size_t p = 0; p < parts_.size(); ++p) {
            if (is_chosen(parts_[p])) order_[next[bucket_of(parts_[p])]++] = {stage_of(parts_[p]), p};
        }
        for (std::size_t bucket = 0; bucket < num_buckets; ++bucket) {
            const std::span<StagedPart> own = std::span(order_).subspan(first_[bucket], first_[bucket + 1] - first_[bucket]);
            if (!std::ranges::is_sorted(own, {}, &StagedPart::key)) std::ranges::sort(own, {}, &StagedPart::key);
            add_bucket(own, close);
        }
    }

    /// One message per stage.
    template <typename Close>
    void add_bucket(std::span<const StagedPart> own, Close close) {
        for (std::size_t begin = 0, end = 0; begin < own.size(); begin = end) {
            for (end = begin; end < own.size() && own[end].stage() == own[begin].stage(); ++end) {
                const Part& part = parts_[own[end].part()];
                add_piece(part.item, part.offset, part.length);
            }
            close(own.subspan(begin, end - begin));
        }
    }

    void add_deps(std::span<const StagedPart> group, const std::vector<std::int32_t>& messages) {
        auto& deps = rows_.deps;
        const auto first = static_cast<std::ptrdiff_t>(deps.size());
        std::int32_t last = -1;
        bool ascends = true;
        for (const StagedPart& one : group) {
            const std::int32_t message = messages[one.part()];
            if (message < 0 || message == last) continue;
            ascends = ascends && message > last;
            last = message;
            deps.push_back(message);
        }
        if (ascends) return;
        std::sort(deps.begin() + first, deps.end());
        deps.erase(std::unique(deps.begin() + first, deps.end()), deps.end());
    }

    void add_piece(std::int32_t item, std::int64_t offset, std::int64_t length) {
        rows_.item.push_back(item);
        rows_.offset.push_back(offset);
        rows_.length.push_back(length);
        message_bytes_ += length;
    }

    /// Closes a message over the pieces and dependencies added since the last one.
    void add_message(std::int32_t src, std::int32_t dst, std::int32_t stage) {
        rows_.src.push_back(src);
        rows_.dst.push_back(dst);
        rows_.stage.push_back(stage);
        rows_.size_bytes.push_back(std::exchange(message_bytes_, 0));
        rows_.dep_offsets.push_back(static_cast<std::int64_t>(rows_.deps.size()));
        rows_.piece_offsets.push_back(static_cast<std::int64_t>(rows_.item.size()));
    }

    /// Messages since the last phase are of this one.
    void end_phase(MessagePhase phase) {
        rows_.phase.resize(rows_.src.size(), static_cast<std::uint8_t>(phase));
        rows_.order.resize(rows_.src.size(), 0);
    }

    std::span<const std::int64_t> demand_;
    std::size_t servers_, width_, ranks_;
    std::span<const std::int32_t> out_gpu_, in_gpu_;
    std::vector<std::int32_t> item_;                // [ranks, ranks]
    std::vector<std::vector<StageEnd>> stages_;     // per tile
    std::vector<std::vector<Part>> shares_;         // of one tile, per GPU
    std::vector<std::int64_t> room_;                // of one tile, per GPU
    std::vector<Part> surplus_;                     // of one tile
    std::vector<Part> parts_;                       // tile after tile, GPU after GPU, stage after stage
    std::vector<std::size_t> ways_end_;             // per tile and GPU, after its last part
    std::vector<std::int32_t> hop_, wire_;          // per part, the message that balances it and that carries it, or -1
    std::vector<std::uint32_t> first_, next_;
    std::vector<StagedPart> order_;
    std::int64_t message_bytes_ = 0;
    ScheduleRows rows_;
};

}  // namespace

ScheduleRows fast_rows(std::span<const std::int64_t> demand_bytes, std::size_t servers, std::size_t width,
                       std::span<const std::int32_t> out_gpu, std::span<const std::int32_t> in_gpu, bool is_exclusive) {
    require(demand_bytes.size() == servers * width * servers * width, "demand_bytes must be [ranks, ranks]");
    return Fast(demand_bytes, servers, width, out_gpu, in_gpu).run(is_exclusive);
}

}  // namespace interlock
