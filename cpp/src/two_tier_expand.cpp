#include <algorithm>
#include <array>
#include <utility>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/wires.hpp"

namespace interlock {
namespace {

constexpr std::size_t kBalanceWaves = 5;  // of one GPU, on their way at once; two where tiles take turns
constexpr std::size_t kStreams = 3;  // of balance out of one GPU that do not wait for each other
constexpr std::int64_t kGivenParts = 20;  // of what is redistributed to a GPU, from which what it is given counts as much
constexpr std::int64_t kRelaySlices = 32;  // at most, of what goes around a link inside a server
constexpr std::int64_t kLoopParts = 4;  // of what takes NICs inside a server without a hop
constexpr std::int32_t kNone = -1;

std::size_t to_size(std::int64_t value) { return static_cast<std::size_t>(value); }
std::int32_t to_int32(std::size_t value) { return static_cast<std::int32_t>(value); }

/// Scale-up moves of one phase, gathered into one message per (server, wave, from, to).
struct Moves {
    std::size_t num_waves = 1, width = 0, first_rank = 0;
    std::vector<std::int32_t> num_pieces, num_wires, last_wire, message;  // per bucket
    std::size_t messages = 0, pieces = 0;

    void resize(const TwoTierPlan& plan, std::size_t waves) {
        const bool is_all = plan.only_rank == kEveryone;
        num_waves = waves;
        width = plan.width;
        first_rank = is_all ? 0 : to_size(plan.only_rank) / width * width;
        const std::size_t buckets = (is_all ? plan.servers : 1) * waves * width * width;
        num_pieces.assign(buckets, 0);
        num_wires.assign(buckets, 0);
        last_wire.assign(buckets, kNone);
        message.assign(buckets, kNone);
    }
    [[nodiscard]] std::size_t bucket(std::int32_t from, std::int32_t to, std::int32_t wave) const {
        const std::size_t src = static_cast<std::size_t>(from) - first_rank, dst = static_cast<std::size_t>(to) - first_rank;
        // Peers in turn from the next on, so that the GPUs of a server do not all begin with the same one.
        const std::size_t turn = (dst + width - src % width) % width;
        return ((src / width * num_waves + static_cast<std::size_t>(wave)) * width + src % width) * width + turn;
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

class Expander {
public:
    Expander(std::span<const std::int64_t> demand, const TwoTierPlan& plan)
        : demand_(demand),
          plan_(plan),
          width_(plan.width),
          ranks_(plan.servers * plan.width),
          loops_into_(ranks_),
          loops_from_(ranks_) {
        require(plan.window > 0 && plan.local_window > 0, "windows must be at least 1");
        require(demand.size() == ranks_ * ranks_, "demand_bytes must be [ranks, ranks]");
    }

    ScheduleRows expand() {
        if (plan_.only_rank == kEveryone) number_items();
        add_local();
        table_ = cut_wires(demand_, item_, plan_);
        gather_moves();
        reserve_rows();
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

    [[nodiscard]] std::int32_t item_of(std::size_t src, std::size_t dst) const {
        return item_.empty() ? to_int32(src * ranks_ + dst) : item_[src * ranks_ + dst];
    }

    void gather_moves() {
        balance_.resize(plan_, to_size(table_.num_waves));
        restore_.resize(plan_, to_size(table_.num_waves));
        for (const WirePiece& piece : table_.pieces) {
            const Wire& wire = table_.wires[to_size(piece.wire)];
            if (moves_before(piece, wire)) {
                balance_.count(balance_.bucket(piece.sender, wire.src, wire.balance_wave), piece.wire);
            }
            if (moves_after(piece, wire)) {
                restore_.count(restore_.bucket(wire.dst, piece.receiver, wire.restore_wave), piece.wire);
            }
        }
    }

    [[nodiscard]] bool moves_before(const WirePiece& piece, const Wire& wire) const {
        return piece.sender != wire.src && plan_.wants(to_size(wire.src) / width_);
    }
    [[nodiscard]] bool moves_after(const WirePiece& piece, const Wire& wire) const {
        return piece.receiver != wire.dst && plan_.wants(to_size(wire.dst) / width_);
    }

    void reserve_rows() {
        const std::size_t local = rows_.src.size(), local_pieces = rows_.item.size();
        balance_.number(local);
        first_wire_ = local + balance_.messages;
        restore_.number(first_wire_ + table_.wires.size());
        const std::size_t messages = first_wire_ + table_.wires.size() + restore_.messages;
        const std::size_t pieces = local_pieces + balance_.pieces + table_.pieces.size() + restore_.pieces;
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

    /// Traffic inside a server goes to each peer in turn, a few messages at a time, which leaves the ports to what the wire
    /// waits for. Heavy pairs start at once, in parts.
    void add_local() {
        std::vector<std::int32_t> ids;
        const std::size_t window = to_size(plan_.local_window);
        for (std::size_t src = 0; src < ranks_; ++src) {
            const std::size_t first = src / width_ * width_;
            if (!plan_.wants(src / width_)) continue;
            ids.clear();
            for (std::size_t turn = 1; turn < width_; ++turn) {
                const std::size_t dst = first + (src - first + turn) % width_;
                std::int64_t bytes = demand_[src * ranks_ + dst];
                if (bytes == 0) continue;
                bytes = add_routed(src, dst, bytes);
                if (bytes == 0) continue;
                if (const HeavyPair* heavy = find_heavy(src, dst)) {
                    const std::int64_t inside = bytes - std::min(bytes, heavy->nic_bytes);
                    add_parts(src, dst, 0, add_relayed(src, dst, inside), heavy->parts, MessagePhase::kLocal);
                    add_loop(src, dst, inside, bytes, heavy->parts);
                    continue;
                }
                const std::int64_t straight = add_relayed(src, dst, bytes);
                if (!plan_.lanes.is_hot_receiver(dst)) {
                    if (ids.size() >= window) rows_.deps.push_back(ids[ids.size() - window]);
                    ids.push_back(to_int32(rows_.src.size()));
                }
                add_parts(src, dst, 0, straight, 1, MessagePhase::kLocal);
            }
        }
    }

    /// The last of a pair's first `bytes` that the assignment sends another way: by a relay or by NICs, in slices that hop on
    /// as they come, or all at once where there is no hop.
    /// @returns how many are left to go straight
    std::int64_t add_routed(std::size_t src, std::size_t dst, std::int64_t bytes) {
        if (plan_.assignment == nullptr) return bytes;
        const auto routes = std::ranges::equal_range(plan_.assignment->near, std::pair{to_int32(src), to_int32(dst)}, {},
                                                     [](const RouteBytes& part) { return std::pair{part.route.from, part.route.to}; });
        for (const auto& [route, wanted] : routes) {
            const std::int64_t taken = std::min(bytes, wanted), first = bytes - taken;
            bytes = first;
            struct Leg {
                std::int32_t from, to;
                MessagePhase phase;
            };
            std::array<Leg, 3> legs;
            std::size_t num_legs = 0;
            const auto leg = [&](std::int32_t from, std::int32_t to, MessagePhase phase) {
                if (from != to) legs[num_legs++] = {from, to, phase};
            };
            if (route.relay >= 0) {
                leg(route.from, route.relay, MessagePhase::kLocal);
                leg(route.relay, route.to, MessagePhase::kLocal);
            } else {
                leg(route.from, route.out, MessagePhase::kLocal);
                leg(route.out, route.in, MessagePhase::kScaleOut);
                leg(route.in, route.to, MessagePhase::kLocal);
            }
            const std::int64_t slices = std::clamp<std::int64_t>(taken / (4 * plan_.least_part_bytes), 1, kRelaySlices);
            const std::int64_t parts = num_legs == 1 ? std::min<std::int64_t>(slices, kLoopParts) : slices;
            std::int32_t before = kNone;
            for (std::int64_t slice = 0; slice < parts; ++slice) {
                const std::int64_t start = first + portion(taken, slice, parts);
                const std::int64_t length = first + portion(taken, slice + 1, parts) - start;
                if (length == 0) continue;
                for (std::size_t n = 0; n < num_legs; ++n) {
                    if (n > 0) rows_.deps.push_back(to_int32(rows_.src.size()) - 1);
                    if (n == 0 && num_legs > 1 && before != kNone) rows_.deps.push_back(before);
                    if (n == 0) before = to_int32(rows_.src.size());
                    add_piece(item_of(src, dst), start, length);
                    add_message(legs[n].from, legs[n].to, legs[n].phase, 0, static_cast<std::int32_t>(slice), 0);
                }
            }
        }
        return bytes;
    }

    /// The last of a pair's first `bytes` go around its link, in slices, each passed on when it has come.
    /// @returns how many are left to go straight
    std::int64_t add_relayed(std::size_t src, std::size_t dst, std::int64_t bytes) {
        const auto ways = std::ranges::equal_range(plan_.near_relays, std::pair{to_int32(src), to_int32(dst)}, {},
                                                   [](const NearRelay& way) { return std::pair{way.src, way.dst}; });
        for (const NearRelay& way : ways) {
            const std::int64_t taken = std::min(bytes, way.bytes), first = bytes - taken;
            bytes = first;
            std::int32_t before = kNone;
            const std::int64_t slices = std::clamp<std::int64_t>(taken / (4 * plan_.least_part_bytes), 1, kRelaySlices);
            for (std::int64_t slice = 0; slice < slices; ++slice) {
                const std::int64_t start = first + portion(taken, slice, slices);
                const std::int64_t length = first + portion(taken, slice + 1, slices) - start;
                if (length == 0) continue;
                const auto number = static_cast<std::int32_t>(slice);
                if (before != kNone) rows_.deps.push_back(before);
                add_piece(item_of(src, dst), start, length);
                before = to_int32(rows_.src.size());
                add_message(to_int32(src), way.relay, MessagePhase::kLocal, 0, number, 0);
                rows_.deps.push_back(before);
                add_piece(item_of(src, dst), start, length);
                add_message(way.relay, to_int32(dst), MessagePhase::kLocal, 0, number, 0);
            }
        }
        return bytes;
    }

    /// Bytes between neighbours that take their NICs. Where a NIC should have one sender at a time these come first: one pair
    /// after the other into each NIC, then what other servers send. The sender of the first pair has its NIC for it alone.
    void add_loop(std::size_t src, std::size_t dst, std::int64_t first, std::int64_t last, std::int32_t parts) {
        if (first == last) return;
        const std::vector<std::int32_t> before = plan_.loops_in_turn ? loops_into_[dst] : std::vector<std::int32_t>{};
        const std::size_t id = rows_.src.size();
        add_parts(src, dst, first, last, parts, MessagePhase::kScaleOut, before);
        if (!plan_.loops_in_turn) return;
        loops_into_[dst].clear();
        for (std::size_t part = id; part < rows_.src.size(); ++part) {
            loops_into_[dst].push_back(to_int32(part));
            if (before.empty()) loops_from_[src].push_back(to_int32(part));
        }
    }

    void add_parts(std::size_t src, std::size_t dst, std::int64_t first, std::int64_t last, std::int64_t parts,
                   MessagePhase phase, std::span<const std::int32_t> before = {}) {
        for (std::int64_t part = 0; part < parts; ++part) {
            const std::int64_t start = first + portion(last - first, part, parts);
            const std::int64_t end = first + portion(last - first, part + 1, parts);
            if (start == end) continue;
            rows_.deps.insert(rows_.deps.end(), before.begin(), before.end());
            add_piece(item_of(src, dst), start, end - start);
            add_message(to_int32(src), to_int32(dst), phase, 0, static_cast<std::int32_t>(part), 0);
        }
    }

    [[nodiscard]] const HeavyPair* find_heavy(std::size_t src, std::size_t dst) const {
        const auto place = std::ranges::lower_bound(plan_.heavy_pairs, std::pair{to_int32(src), to_int32(dst)}, {},
                                                    [](const HeavyPair& pair) { return std::pair{pair.src, pair.dst}; });
        const bool found = place != plan_.heavy_pairs.end() && to_size(place->src) == src && to_size(place->dst) == dst;
        return found ? &*place : nullptr;
    }

    /// A GPU's moves go out wave by wave, a few waves at a time and to each helper one after the other: what is needed first
    /// is not slowed by what is needed later, and one slow receiver does not stop the others at once.
    void add_balance() {
        struct Ids {
            std::int32_t first = 0, last = 0;
        };
        struct Waves {
            std::int32_t current = kNone;
            std::array<Ids, kBalanceWaves + 1> ids;  // of the current wave and those before it
        };
        const auto order = pieces_by_bucket(balance_, [&](const WirePiece& piece, const Wire& wire) {
            return !moves_before(piece, wire) ? kNoBucket : balance_.bucket(piece.sender, wire.src, wire.balance_wave);
        });
        // Neither lanes that keep their own time nor helpers that have hardly any to receive stop the others.
        const std::size_t first_rank = balance_.first_rank, ranks = plan_.only_rank == kEveryone ? ranks_ : width_;
        std::vector<Waves> waves(kStreams * ranks);
        std::vector<std::array<std::int32_t, 2>> pairs(kStreams * ranks * width_, {kNone, kNone});  // last two messages of each
        const bool is_burst = plan_.pace == Pace::kBurst;
        const std::size_t window = plan_.servers == 2 ? 1 : 0;  // a single partner leaves more to do inside servers
        std::size_t next = 0;
        for (std::size_t bucket = 0; bucket < balance_.message.size(); ++bucket) {
            const std::int32_t id = balance_.message[bucket];
            if (id == kNone) continue;
            const std::int32_t sender = table_.pieces[order[next]].sender;
            const Wire& wire = table_.wires[to_size(table_.pieces[order[next]].wire)];
            const auto is_slow = [&](std::int32_t helper) { return plan_.lanes.is_hot_receiver(to_size(helper)); };
            const std::size_t kind = is_slow(wire.src) ? 2 : wire.keeps_own_time ? 1 : 0;
            const std::size_t stream = kStreams * (to_size(sender) - first_rank) + kind;
            Waves& sent = waves[stream];
            if (std::exchange(sent.current, wire.balance_wave) != wire.balance_wave) {
                std::ranges::copy_backward(sent.ids.begin(), sent.ids.end() - 1, sent.ids.end());
                sent.ids.front() = {id, id};
            }
            sent.ids.front().last = id + 1;
            const Ids& over = sent.ids[is_burst ? kBalanceWaves : 2];
            for (std::int32_t dep = over.first; dep < over.last; ++dep) {
                if (is_slow(rows_.dst[to_size(dep)]) == is_slow(wire.src)) rows_.deps.push_back(dep);
            }
            auto& pair = pairs[stream * width_ + to_size(wire.src) % width_];
            for (std::int32_t n = 0; n < balance_.num_pieces[bucket]; ++n) add_piece(table_.pieces[order[next++]]);
            const std::size_t depth = message_bytes_ < plan_.least_part_bytes ? 1 : window;
            if (is_burst && pair[depth] >= over.last) rows_.deps.push_back(pair[depth]);
            pair = {id, pair[0]};
            add_message(sender, wire.src, MessagePhase::kBalance, wire.stage, wire.slice, 0);
        }
    }

    void add_wires() {
        std::size_t next = 0;
        std::vector<std::int32_t> deps;
        for (std::size_t id = 0; id < table_.wires.size(); ++id) {
            const Wire& wire = table_.wires[id];
            deps.clear();
            for (; next < table_.pieces.size() && to_size(table_.pieces[next].wire) == id; ++next) {
                const WirePiece& piece = table_.pieces[next];
                add_piece(piece);
                if (!moves_before(piece, wire)) continue;
                deps.push_back(balance_.message[balance_.bucket(piece.sender, wire.src, wire.balance_wave)]);
            }
            for (const std::int32_t earlier : wire.after) {
                if (earlier != kNone) deps.push_back(to_int32(first_wire_) + earlier);
            }
            if (wire.after[0] == kNone && plan_.loops_in_turn) {
                for (const auto& loops : {loops_into_[to_size(wire.dst)], loops_from_[to_size(wire.src)]}) {
                    deps.insert(deps.end(), loops.begin(), loops.end());
                }
            }
            std::sort(deps.begin(), deps.end());
            deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
            rows_.deps.insert(rows_.deps.end(), deps.begin(), deps.end());
            add_message(wire.src, wire.dst, MessagePhase::kScaleOut, wire.stage, wire.slice, static_cast<std::int64_t>(id));
        }
    }

    void add_restores() {
        const auto order = pieces_by_bucket(restore_, [&](const WirePiece& piece, const Wire& wire) {
            return !moves_after(piece, wire) ? kNoBucket : restore_.bucket(wire.dst, piece.receiver, wire.restore_wave);
        });
        std::size_t next = 0;
        std::vector<std::int32_t> in_turn, to_helper;  // last one of each lane, and to each receiver of a lane
        std::vector<bool> is_helper;
        if (plan_.is_pair_burst) {
            in_turn.assign(ranks_ * width_, kNone);
            to_helper.assign(ranks_ * width_ * width_, kNone);
            is_helper = find_helpers();
        }
        for (std::size_t bucket = 0; bucket < restore_.message.size(); ++bucket) {
            if (restore_.message[bucket] == kNone) continue;
            std::int32_t last = kNone, receiver = kNone;
            for (std::int32_t n = 0; n < restore_.num_pieces[bucket]; ++n) {
                const WirePiece& piece = table_.pieces[order[next++]];
                if (piece.wire != last) rows_.deps.push_back(to_int32(first_wire_) + piece.wire);
                last = piece.wire;
                receiver = piece.receiver;
                add_piece(piece);
            }
            const Wire& wire = table_.wires[to_size(last)];
            // What GPUs short of time to receive get does not wait for others; only the time that helpers among them need for
            // what they are given must not be crowded out.
            const bool is_hot = plan_.lanes.is_hot_receiver(to_size(receiver));
            if (plan_.is_pair_burst && (!is_hot || is_helper[to_size(receiver)])) {
                const std::size_t lane = to_size(wire.dst) * width_ + to_size(wire.src) % width_;
                auto& before = is_hot ? to_helper[lane * width_ + to_size(receiver) % width_] : in_turn[lane];
                const std::int32_t earlier = std::exchange(before, restore_.message[bucket]);
                if (earlier != kNone) rows_.deps.push_back(earlier);
            }
            add_message(wire.dst, receiver, MessagePhase::kRedistribute, wire.stage, wire.slice, 0);
        }
    }

    /// Ranks whose NICs wait for much that neighbours must give them: what is redistributed to them should leave time for it.
    [[nodiscard]] std::vector<bool> find_helpers() const {
        std::vector<std::int64_t> given(ranks_, 0), restored(ranks_, 0);
        for (const WirePiece& piece : table_.pieces) {
            const Wire& wire = table_.wires[to_size(piece.wire)];
            if (piece.sender != wire.src) given[to_size(wire.src)] += piece.length;
            if (piece.receiver != wire.dst) restored[to_size(piece.receiver)] += piece.length;
        }
        std::vector<bool> is_helper(ranks_);
        for (std::size_t rank = 0; rank < ranks_; ++rank) is_helper[rank] = given[rank] > restored[rank] / kGivenParts;
        return is_helper;
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
        for (std::size_t p = 0; p < table_.pieces.size(); ++p) {
            const std::size_t bucket = bucket_of(table_.pieces[p], table_.wires[to_size(table_.pieces[p].wire)]);
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
    std::vector<std::vector<std::int32_t>> loops_into_, loops_from_;  // per NIC, messages that wires wait for
    WireTable table_;
    Moves balance_, restore_;
    std::size_t first_wire_ = 0;
    std::int64_t message_bytes_ = 0;
    ScheduleRows rows_;
};

}  // namespace

ScheduleRows expand_two_tier(std::span<const std::int64_t> demand_bytes, const TwoTierPlan& plan) {
    return Expander(demand_bytes, plan).expand();
}

}  // namespace interlock
