#include <algorithm>
#include <array>
#include <utility>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier.hpp"

namespace interlock {
namespace {

constexpr std::int64_t kMostSlices = 128;
constexpr std::int64_t kRampSteps = 4;  // how many slices at each end are smaller
constexpr std::int64_t kMostInFlight = 32;  // slices of one lane on the wire at once
constexpr std::int64_t kHeadShare = 8;  // helped bytes join a lane after this part of it
constexpr std::int32_t kNone = -1;

std::size_t to_size(std::int64_t value) { return static_cast<std::size_t>(value); }
std::int32_t to_int32(std::size_t value) { return static_cast<std::int32_t>(value); }

/// One message on the wire.
struct Wire {
    std::int32_t src, dst;  // ranks
    std::int32_t stage, slice;
    std::int32_t balance_wave, restore_wave;
    std::array<std::int32_t, 2> after;  // wire messages whose arrival lets this one start, or kNone
};

/// Bytes of one item on one wire message.
struct WirePiece {
    std::int32_t item;
    std::int32_t sender, receiver;  // ranks
    std::int32_t wire;
    std::int64_t offset, length;
};

/// Scale-up moves of one phase, gathered into one message per (server, wave, from, to).
struct Moves {
    std::size_t num_waves = 1, width = 0;
    std::vector<std::int32_t> num_pieces, num_wires, last_wire, message;  // per bucket
    std::size_t messages = 0, pieces = 0;

    void resize(std::size_t servers, std::size_t waves, std::size_t gpus) {
        num_waves = waves;
        width = gpus;
        const std::size_t buckets = servers * waves * gpus * gpus;
        num_pieces.assign(buckets, 0);
        num_wires.assign(buckets, 0);
        last_wire.assign(buckets, kNone);
        message.assign(buckets, kNone);
    }
    [[nodiscard]] std::size_t bucket(std::int32_t from, std::int32_t to, std::int32_t wave) const {
        const auto src = static_cast<std::size_t>(from), dst = static_cast<std::size_t>(to);
        return ((src / width * num_waves + static_cast<std::size_t>(wave)) * width + src % width) * width + dst % width;
    }
    void count(std::size_t bucket, std::int32_t wire) {
        ++num_pieces[bucket];
        ++pieces;
        if (last_wire[bucket] == wire) return;
        last_wire[bucket] = wire;
        ++num_wires[bucket];
    }
    void number(std::size_t first_id) {
        for (std::size_t b = 0; b < num_pieces.size(); ++b) {
            if (num_pieces[b] > 0) message[b] = to_int32(first_id + messages++);
        }
    }
};

/// Gives waves to slices: on each server a new wave begins once the last one holds `bytes_per_wave`.
class WaveCounter {
public:
    WaveCounter(std::size_t servers, std::int64_t bytes_per_wave)
        : bytes_per_wave_(bytes_per_wave), wave_(servers, 0), filled_(servers, 0) {}

    std::int32_t next(std::size_t server, std::int64_t bytes) {
        if (filled_[server] >= bytes_per_wave_) {
            ++wave_[server];
            filled_[server] = 0;
        }
        filled_[server] += bytes;
        return wave_[server];
    }

private:
    std::int64_t bytes_per_wave_;
    std::vector<std::int32_t> wave_;
    std::vector<std::int64_t> filled_;
};

/// How many helped bytes are among the first `position` bytes of a lane. They join after a head of own bytes, in
/// proportion, so that the moves that bring them have time and still keep pace.
std::int64_t helped_before(const LaneLoad& load, std::int64_t position) {
    const std::int64_t all = load.own_bytes + load.helped_bytes;
    const std::int64_t head = std::min(load.own_bytes, all / kHeadShare);
    const std::int64_t paced = portion(load.helped_bytes, std::max<std::int64_t>(position - head, 0), all - head);
    return std::clamp(paced, std::max<std::int64_t>(position - load.own_bytes, 0),
                      std::min(position, load.helped_bytes));
}

class Expander {
public:
    Expander(std::span<const std::int64_t> demand, const TwoTierPlan& plan)
        : demand_(demand),
          plan_(plan),
          width_(plan.width),
          ranks_(plan.servers * plan.width),
          lanes_out_(ranks_),
          lanes_in_(ranks_) {
        require(plan.window > 0, "window must be at least 1");
        require(demand.size() == ranks_ * ranks_, "demand_bytes must be [ranks, ranks]");
    }

    ScheduleRows expand() {
        number_items();
        cut_wires();
        gather_moves();
        reserve_rows();
        add_local();
        add_balance();
        add_wires();
        add_restores();
        return std::move(rows_);
    }

private:
    void number_items() {
        item_.resize(ranks_ * ranks_);
        std::int32_t next = 0;
        for (std::size_t src = 0; src < ranks_; ++src) {
            for (std::size_t dst = 0; dst < ranks_; ++dst) {
                item_[src * ranks_ + dst] = next;
                next += src != dst && demand_[src * ranks_ + dst] > 0;
            }
        }
    }

    void cut_wires() {
        LaneAssigner assigner(to_int32(width_));
        std::vector<Lane> scratch;
        // A wave closes at the size of the smallest slices that reach or leave a server.
        const std::int64_t wave = plan_.slice_bytes.empty() ? 1 : std::ranges::min(plan_.slice_bytes);
        WaveCounter sending(plan_.servers, wave), receiving(plan_.servers, wave);
        const std::vector<std::int64_t> typical = typical_lane_bytes();
        for (const Segment& segment : plan_.segments) {
            const auto src = to_size(segment.src_server), dst = to_size(segment.dst_server);
            const std::int64_t* tile = demand_.data() + src * width_ * ranks_ + dst * width_;
            const std::int64_t tile_bytes = sum_tile(tile);
            require(segment.first_byte >= 0 && segment.bytes > 0 && segment.bytes <= tile_bytes - segment.first_byte,
                    "a segment must lie inside its tile");
            const auto lanes = plan_.lanes.of(src, dst, tile_bytes, scratch);
            const auto hot = plan_.lanes.is_hot.empty() ? std::span<const std::uint8_t>{}
                                                        : std::span(plan_.lanes.is_hot).subspan(dst * width_, width_);
            const auto loads = assigner.assign(tile, ranks_, lanes, hot);
            std::int64_t most_slices = 1;
            lane_cuts_.resize(lanes.size());
            for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
                lane_cuts_[lane] = cut_lane(segment, tile_bytes, lanes[lane], loads[lane], typical[src]);
                most_slices = std::max(most_slices, lane_cuts_[lane].count);
            }
            for (std::int64_t slice = 0; slice < most_slices; ++slice) {
                Wire wire{0, 0, segment.stage, static_cast<std::int32_t>(slice), 0, 0, {kNone, kNone}};
                if (plan_.pace != Pace::kBurst) {
                    const std::int64_t share = segment.bytes / (most_slices * static_cast<std::int64_t>(lanes.size()));
                    wire.balance_wave = sending.next(src, share);
                    wire.restore_wave = receiving.next(dst, share);
                }
                for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
                    if (slice >= lane_cuts_[lane].count) continue;
                    wire.src = to_int32(src * width_) + lanes[lane].out_gpu;
                    wire.dst = to_int32(dst * width_) + lanes[lane].in_gpu;
                    add_wire(wire, lane_cuts_[lane], loads[lane], slice);
                }
            }
            if (plan_.pace == Pace::kWindow) remember_lanes(src, dst, lanes);
        }
    }

    /// Later lanes of the same NICs wait for these.
    void remember_lanes(std::size_t src, std::size_t dst, std::span<const Lane> lanes) {
        for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
            if (lane_cuts_[lane].last_ids.empty()) continue;
            const std::int32_t id = lane_cuts_[lane].last_ids.back();
            lanes_out_[src * width_ + to_size(lanes[lane].out_gpu)].push_back(id);
            lanes_in_[dst * width_ + to_size(lanes[lane].in_gpu)].push_back(id);
        }
    }

    /// The last message of the lane that must be over before another one of this NIC begins.
    [[nodiscard]] std::int32_t window_end(const std::vector<std::int32_t>& lanes) const {
        const std::size_t window = to_size(plan_.window);
        return lanes.size() < window ? kNone : lanes[lanes.size() - window];
    }

    /// How a lane's part of a segment is sliced.
    struct LaneCut {
        std::int64_t first, bytes, count;
        std::int64_t in_flight;               // slices on the wire at once
        std::vector<std::int32_t> last_ids;   // wire ids of the slices so far
    };

    [[nodiscard]] LaneCut cut_lane(const Segment& segment, std::int64_t tile_bytes, const Lane& lane,
                                   const LaneLoad& load, std::int64_t typical) const {
        const std::int64_t first = portion(lane.bytes, segment.first_byte, tile_bytes);
        const std::int64_t last = portion(lane.bytes, segment.first_byte + segment.bytes, tile_bytes);
        LaneCut cut{first, last - first, 1, 1, {}};
        const bool hops = load.helped_bytes > 0 || load.own.size() > 1 ||
                          (load.own.size() == 1 && load.own[0].receiver != lane.in_gpu);
        // Flows share a NIC evenly: a lane larger than its neighbours needs more of them to end with them. With a single
        // partner two are needed to keep the wire busy while an arrival is on its way.
        const std::int64_t share = (2 * lane.bytes / std::max<std::int64_t>(typical, 1) + 1) / 2;
        if (plan_.pace != Pace::kWindow) {
            cut.in_flight = plan_.servers == 2 ? 2 : std::clamp<std::int64_t>(share, 1, kMostInFlight);
        }
        if (hops) {
            cut.count = num_slices(cut.bytes, plan_.slice_bytes[to_size(segment.src_server)]);
        } else if (plan_.pace == Pace::kBurst) {
            cut.count = cut.in_flight = std::clamp<std::int64_t>(share, 1, kMostInFlight);
        }
        return cut;
    }

    /// Bytes of an average lane out of each server.
    [[nodiscard]] std::vector<std::int64_t> typical_lane_bytes() const {
        std::vector<std::int64_t> bytes(plan_.servers, 0), lanes(plan_.servers, 0), typical(plan_.servers, 0);
        for (const Segment& segment : plan_.segments) {
            const auto src = to_size(segment.src_server), dst = to_size(segment.dst_server);
            require(src < plan_.servers && dst < plan_.servers && src != dst, "a segment must join two servers");
            bytes[src] += segment.bytes;
            const std::size_t tile = src * plan_.servers + dst;
            const auto& offsets = plan_.lanes.offsets;
            lanes[src] += offsets.empty() ? static_cast<std::int64_t>(width_) : offsets[tile + 1] - offsets[tile];
        }
        for (std::size_t s = 0; s < plan_.servers; ++s) typical[s] = lanes[s] == 0 ? 0 : bytes[s] / lanes[s];
        return typical;
    }

    [[nodiscard]] std::int64_t sum_tile(const std::int64_t* tile) const {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < width_; ++i) {
            for (std::size_t j = 0; j < width_; ++j) sum += tile[i * ranks_ + j];
        }
        return sum;
    }

    /// One slice of a lane as a message.
    void add_wire(Wire wire, LaneCut& cut, const LaneLoad& load, std::int64_t slice) {
        const std::int64_t first = cut.first + slice_start(cut.bytes, slice, cut.count);
        const std::int64_t last = cut.first + slice_start(cut.bytes, slice + 1, cut.count);
        if (first == last) return;
        const std::int32_t id = to_int32(wires_.size());
        const auto sent = static_cast<std::int64_t>(cut.last_ids.size());
        if (plan_.pace != Pace::kExclusive && sent >= cut.in_flight) {
            wire.after[0] = cut.last_ids[to_size(sent - cut.in_flight)];
        } else if (plan_.pace == Pace::kWindow) {
            wire.after = {window_end(lanes_out_[to_size(wire.src)]), window_end(lanes_in_[to_size(wire.dst)])};
        }
        cut.last_ids.push_back(id);
        if (plan_.pace == Pace::kBurst) {
            // Lanes with several slices in flight keep their own time; the others advance together.
            const std::int64_t wave = cut.in_flight == 1 ? slice : kMostSlices + slice;
            wire.balance_wave = wire.restore_wave = static_cast<std::int32_t>(wave);
        }
        const std::int64_t helped_first = helped_before(load, first), helped_last = helped_before(load, last);
        add_range(load.own, first - helped_first, last - helped_last, wire, id);
        add_range(load.helped, helped_first, helped_last, wire, id);
        wires_.push_back(wire);
        num_waves_ = std::max({num_waves_, wire.balance_wave + 1, wire.restore_wave + 1});
    }

    void add_range(std::span<const Parcel> parcels, std::int64_t first, std::int64_t last, const Wire& wire,
                   std::int32_t id) {
        const auto width = to_int32(width_);
        std::int64_t start = 0;
        for (const Parcel& parcel : parcels) {
            const std::int64_t from = std::max(first, start), to = std::min(last, start + parcel.bytes);
            if (from < to) {
                const std::int32_t sender = wire.src / width * width + parcel.sender;
                const std::int32_t receiver = wire.dst / width * width + parcel.receiver;
                const std::int32_t item = item_[to_size(sender) * ranks_ + to_size(receiver)];
                pieces_.push_back({item, sender, receiver, id, parcel.offset + from - start, to - from});
            }
            start += parcel.bytes;
            if (start >= last) break;
        }
    }

    void gather_moves() {
        balance_.resize(plan_.servers, to_size(num_waves_), width_);
        restore_.resize(plan_.servers, to_size(num_waves_), width_);
        for (const WirePiece& piece : pieces_) {
            const Wire& wire = wires_[to_size(piece.wire)];
            if (piece.sender != wire.src) {
                balance_.count(balance_.bucket(piece.sender, wire.src, wire.balance_wave), piece.wire);
            }
            if (piece.receiver != wire.dst) {
                restore_.count(restore_.bucket(wire.dst, piece.receiver, wire.restore_wave), piece.wire);
            }
        }
    }

    void reserve_rows() {
        std::size_t local = 0;
        for (std::size_t src = 0; src < ranks_; ++src) {
            const std::size_t first = src / width_ * width_;
            for (std::size_t dst = first; dst < first + width_; ++dst) local += src != dst && demand_[src * ranks_ + dst] > 0;
        }
        balance_.number(local);
        first_wire_ = local + balance_.messages;
        restore_.number(first_wire_ + wires_.size());
        const std::size_t messages = first_wire_ + wires_.size() + restore_.messages;
        const std::size_t pieces = local + balance_.pieces + pieces_.size() + restore_.pieces;
        require(messages < (1U << 31U) && pieces < (1U << 31U), "a schedule has at most 2^31 rows");
        for (auto* column : {&rows_.src, &rows_.dst, &rows_.stage, &rows_.slice}) column->reserve(messages);
        for (auto* column : {&rows_.size_bytes, &rows_.order}) column->reserve(messages);
        rows_.phase.reserve(messages);
        rows_.dep_offsets.reserve(messages + 1);
        rows_.piece_offsets.reserve(messages + 1);
        rows_.item.reserve(pieces);
        rows_.offset.reserve(pieces);
        rows_.length.reserve(pieces);
        rows_.deps.reserve(2 * messages + restore_.pieces);
    }

    void add_local() {
        for (std::size_t src = 0; src < ranks_; ++src) {
            const std::size_t first = src / width_ * width_;
            for (std::size_t dst = first; dst < first + width_; ++dst) {
                const std::int64_t bytes = demand_[src * ranks_ + dst];
                if (src == dst || bytes == 0) continue;
                add_piece(item_[src * ranks_ + dst], 0, bytes);
                add_message(to_int32(src), to_int32(dst), MessagePhase::kLocal, 0, 0, 0);
            }
        }
    }

    /// Moves between two GPUs go out wave by wave: what is needed first is not slowed by what is needed later.
    void add_balance() {
        const auto order = pieces_by_bucket(balance_, [&](const WirePiece& piece, const Wire& wire) {
            return piece.sender == wire.src ? kNoBucket : balance_.bucket(piece.sender, wire.src, wire.balance_wave);
        });
        std::vector<std::int32_t> earlier(ranks_ * width_, kNone);
        std::size_t next = 0;
        for (std::size_t bucket = 0; bucket < balance_.message.size(); ++bucket) {
            if (balance_.message[bucket] == kNone) continue;
            const std::int32_t sender = pieces_[order[next]].sender;
            const Wire& wire = wires_[to_size(pieces_[order[next]].wire)];
            std::int32_t& before = earlier[to_size(sender) * width_ + to_size(wire.src) % width_];
            if (before != kNone) rows_.deps.push_back(before);
            before = balance_.message[bucket];
            for (std::int32_t n = 0; n < balance_.num_pieces[bucket]; ++n) add_piece(pieces_[order[next++]]);
            add_message(sender, wire.src, MessagePhase::kBalance, wire.stage, wire.balance_wave, 0);
        }
    }

    void add_wires() {
        std::size_t next = 0;
        std::vector<std::int32_t> deps;
        for (std::size_t id = 0; id < wires_.size(); ++id) {
            const Wire& wire = wires_[id];
            deps.clear();
            for (; next < pieces_.size() && to_size(pieces_[next].wire) == id; ++next) {
                const WirePiece& piece = pieces_[next];
                add_piece(piece);
                if (piece.sender == wire.src) continue;
                deps.push_back(balance_.message[balance_.bucket(piece.sender, wire.src, wire.balance_wave)]);
            }
            for (const std::int32_t earlier : wire.after) {
                if (earlier != kNone) deps.push_back(to_int32(first_wire_) + earlier);
            }
            std::sort(deps.begin(), deps.end());
            deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
            rows_.deps.insert(rows_.deps.end(), deps.begin(), deps.end());
            add_message(wire.src, wire.dst, MessagePhase::kScaleOut, wire.stage, wire.slice, static_cast<std::int64_t>(id));
        }
    }

    void add_restores() {
        const auto order = pieces_by_bucket(restore_, [&](const WirePiece& piece, const Wire& wire) {
            return piece.receiver == wire.dst ? kNoBucket : restore_.bucket(wire.dst, piece.receiver, wire.restore_wave);
        });
        std::size_t next = 0;
        for (std::size_t bucket = 0; bucket < restore_.message.size(); ++bucket) {
            if (restore_.message[bucket] == kNone) continue;
            std::int32_t last = kNone, receiver = kNone;
            for (std::int32_t n = 0; n < restore_.num_pieces[bucket]; ++n) {
                const WirePiece& piece = pieces_[order[next++]];
                if (piece.wire != last) rows_.deps.push_back(to_int32(first_wire_) + piece.wire);
                last = piece.wire;
                receiver = piece.receiver;
                add_piece(piece);
            }
            const Wire& wire = wires_[to_size(last)];
            add_message(wire.dst, receiver, MessagePhase::kRedistribute, wire.stage, wire.restore_wave, 0);
        }
    }

    static constexpr std::size_t kNoBucket = static_cast<std::size_t>(-1);

    /// Counting sort: indices of the pieces that move, bucket after bucket, in wire order within each.
    template <typename BucketOf>
    std::vector<std::uint32_t> pieces_by_bucket(const Moves& moves, BucketOf bucket_of) const {
        std::vector<std::uint32_t> place(moves.num_pieces.size());
        std::uint32_t sum = 0;
        for (std::size_t b = 0; b < place.size(); ++b) {
            place[b] = sum;
            sum += static_cast<std::uint32_t>(moves.num_pieces[b]);
        }
        std::vector<std::uint32_t> order(sum);
        for (std::size_t p = 0; p < pieces_.size(); ++p) {
            const std::size_t bucket = bucket_of(pieces_[p], wires_[to_size(pieces_[p].wire)]);
            if (bucket != kNoBucket) order[place[bucket]++] = static_cast<std::uint32_t>(p);
        }
        return order;
    }

    void add_piece(const WirePiece& piece) { add_piece(piece.item, piece.offset, piece.length); }
    void add_piece(std::int32_t item, std::int64_t offset, std::int64_t length) {
        rows_.item.push_back(item);
        rows_.offset.push_back(offset);
        rows_.length.push_back(length);
        message_bytes_ += length;
    }

    /// Closes a message over the pieces and dependencies added since the last one.
    void add_message(std::int32_t src, std::int32_t dst, MessagePhase phase, std::int32_t stage, std::int32_t slice,
                     std::int64_t order) {
        rows_.src.push_back(src);
        rows_.dst.push_back(dst);
        rows_.phase.push_back(static_cast<std::uint8_t>(phase));
        rows_.stage.push_back(stage);
        rows_.slice.push_back(slice);
        rows_.order.push_back(order);
        rows_.size_bytes.push_back(std::exchange(message_bytes_, 0));
        rows_.dep_offsets.push_back(static_cast<std::int64_t>(rows_.deps.size()));
        rows_.piece_offsets.push_back(static_cast<std::int64_t>(rows_.item.size()));
    }

    std::span<const std::int64_t> demand_;
    const TwoTierPlan& plan_;
    std::size_t width_, ranks_;
    std::vector<std::int32_t> item_;  // [ranks, ranks] id where there are bytes to move
    std::vector<Wire> wires_;
    std::vector<WirePiece> pieces_;   // in wire order
    std::vector<LaneCut> lane_cuts_;
    std::vector<std::vector<std::int32_t>> lanes_out_, lanes_in_;  // per NIC, last message of each lane so far
    std::int32_t num_waves_ = 1;
    Moves balance_, restore_;
    std::size_t first_wire_ = 0;
    std::int64_t message_bytes_ = 0;
    ScheduleRows rows_;
};

}  // namespace

std::int64_t num_slices(std::int64_t lane_bytes, std::int64_t slice_bytes) {
    if (slice_bytes <= 0) return 1;
    return std::clamp<std::int64_t>((lane_bytes + slice_bytes / 2) / slice_bytes, 1, kMostSlices);
}

std::int64_t slice_start(std::int64_t bytes, std::int64_t slice, std::int64_t count) {
    // Weights rise 1, 2, … to the ramp's top, stay there, and fall again; this is their running sum.
    const std::int64_t top = std::min(kRampSteps, (count + 1) / 2);
    const auto rising = [&](std::int64_t n) { return n < top ? n * (n + 1) / 2 : top * (top + 1) / 2 + (n - top) * top; };
    const std::int64_t total = rising(count) - top * (top - 1) / 2;
    const std::int64_t until_fall = count - top;
    std::int64_t sum = rising(std::min(slice, until_fall));
    if (slice > until_fall) sum = total - rising(count - slice);
    return portion(bytes, sum, total);
}

ScheduleRows expand_two_tier(std::span<const std::int64_t> demand_bytes, const TwoTierPlan& plan) {
    return Expander(demand_bytes, plan).expand();
}

}  // namespace interlock
