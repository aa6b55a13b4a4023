#include "interlock/two_tier/two_tier_expand.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier/constants.hpp"
#include "interlock/two_tier/tiles.hpp"
#include "interlock/two_tier/wires.hpp"

namespace interlock {
namespace {

constexpr std::int32_t kNone = -1;

/// Scale-up moves of one phase, gathered into one message per (server, wave, from, to).
struct Moves {
    std::size_t num_waves = 1, num_servers = 1, width = 0, first_rank = 0, num_turns = 0;
    std::vector<std::int32_t> turn;      // [width, width] of a pair of GPUs within a wave, kNone where it is not wanted
    std::vector<std::int32_t> slot;      // per bucket its pieces while they are counted, then the place of its message
    std::vector<std::uint64_t> is_used;  // a bit per bucket: most have no pieces
    std::vector<std::int32_t> bucket_of;  // per piece, kNone where it does not move
    std::vector<std::uint32_t> first;     // per message, of its pieces among all that move; then their number
    std::size_t first_id = 0;             // of the messages

    void resize(const TwoTierPlan& plan, std::size_t waves) {
        const bool is_all = plan.only_rank == kEveryone;
        num_waves = waves;
        num_servers = is_all ? plan.servers : 1;
        width = plan.width;
        first_rank = is_all ? 0 : to_size(plan.only_rank) / width * width;
        turn.assign(width * width, kNone);
        for (std::size_t src = 0; src < width; ++src) {
            // Peers in turn from the next on, so that the GPUs of a server do not all begin with the same one.
            for (std::size_t step = 0; step < width; ++step) {
                const std::size_t dst = (src + step) % width, own = is_all ? src : to_size(plan.only_rank) - first_rank;
                if (is_all || src == own || dst == own) turn[src * width + dst] = to_int32(num_turns++);
            }
        }
        slot.assign(num_servers * waves * num_turns, 0);
        is_used.assign(slot.size() / 64 + 1, 0);
    }
    [[nodiscard]] std::size_t bucket(std::int32_t from, std::int32_t to, std::int32_t wave) const {
        const std::size_t src = to_size(from) - first_rank, dst = to_size(to) - first_rank;
        const std::size_t server = num_servers == 1 ? 0 : src / width,
                          pair = (src - server * width) * width + (dst - server * width);
        return (server * num_waves + to_size(wave)) * num_turns + to_size(turn[pair]);
    }
    void count(std::size_t piece, std::size_t bucket) {
        ++slot[bucket];
        is_used[bucket / 64] |= std::uint64_t{1} << bucket % 64;
        bucket_of[piece] = to_int32(bucket);
    }
    /// One message for every bucket that has any pieces.
    void number(std::size_t first_message) {
        first_id = first_message;
        first.reserve(std::min(slot.size(), bucket_of.size()) + 1);
        std::uint32_t sum = 0;
        for (std::size_t word = 0; word < is_used.size(); ++word) {
            for (std::uint64_t bits = is_used[word]; bits != 0; bits &= bits - 1) {
                std::int32_t& count = slot[64 * word + to_size(std::countr_zero(bits))];
                first.push_back(sum);
                sum += static_cast<std::uint32_t>(count);
                count = to_int32(first.size() - 1);
            }
        }
        first.push_back(sum);
    }
    [[nodiscard]] std::size_t messages() const { return first.size() - 1; }
    [[nodiscard]] std::size_t pieces() const { return first.back(); }
    /// The message that carries a piece.
    [[nodiscard]] std::int32_t message_of(std::size_t piece) const {
        return to_int32(first_id) + slot[to_size(bucket_of[piece])];
    }
    /// Pieces message after message, in wire order within each.
    [[nodiscard]] std::vector<std::uint32_t> ordered() const {
        std::vector<std::uint32_t> order(pieces()), next(first);
        for (std::size_t piece = 0; piece < bucket_of.size(); ++piece) {
            if (bucket_of[piece] != kNone)
                order[next[to_size(slot[to_size(bucket_of[piece])])]++] = static_cast<std::uint32_t>(piece);
        }
        return order;
    }
};

/// Rows of everybody, one after the other.
class AllRows {
public:
    AllRows(std::span<const std::int64_t> demand, std::size_t ranks)
        : ranks_(ranks), item_(number_items(demand, ranks)) {}

    void reserve(std::size_t messages, std::size_t pieces) {
        writer_.reserve(messages, pieces, 2 * messages + pieces / 2);
    }
    /// Begins a message; false where nobody wants to know what it carries.
    bool begin(std::int32_t src, std::int32_t dst) {
        src_ = src;
        dst_ = dst;
        return true;
    }
    void add_piece(std::int32_t sender, std::int32_t receiver, std::int64_t offset, std::int64_t length, std::int64_t) {
        writer_.add_piece(item_[to_size(sender) * ranks_ + to_size(receiver)], offset, length);
    }
    void add_dep(std::int32_t message) { writer_.add_dep(message); }
    void end(MessagePhase phase, std::int32_t stage, std::int32_t slice, std::int64_t order, std::int64_t) {
        writer_.end(src_, dst_, phase, stage, slice, order);
    }
    ScheduleRows take() { return writer_.take(); }

private:
    std::size_t ranks_;
    std::vector<std::int32_t> item_;  // [ranks, ranks] id where there are bytes to move
    std::int32_t src_ = 0, dst_ = 0;  // of the message at hand
    RowWriter writer_;
};

/// Rows of one rank; of others' messages only the numbers are counted.
class OwnRows {
public:
    OwnRows(std::int32_t rank, std::size_t ranks, bool is_exclusive)
        : rank_(rank), ranks_(static_cast<std::int64_t>(ranks)), is_exclusive_(is_exclusive) {}

    void reserve(std::size_t messages, std::size_t pieces) {
        own_row_.reserve(messages);
        for (RankRows* rows : {&part_.sends, &part_.receives}) {
            rows->rows.reserve(messages);
            rows->pieces.reserve(pieces);
            rows->deps.reserve(2 * messages);
        }
    }
    bool begin(std::int32_t src, std::int32_t dst) {
        rows_ = src == rank_ ? &part_.sends : dst == rank_ ? &part_.receives : nullptr;
        const std::size_t row = rows_ == nullptr ? 0 : rows_->size();
        own_row_.push_back(rows_ == nullptr ? kNotOwn : src == rank_ ? as_send(row) : as_receive(row));
        peer_ = src == rank_ ? dst : src;
        return rows_ != nullptr;
    }
    void add_piece(std::int32_t sender, std::int32_t receiver, std::int64_t offset, std::int64_t length,
                   std::int64_t number) {
        const std::int64_t item = sender == rank_     ? receiver
                                  : receiver == rank_ ? ranks_ + sender
                                                      : 2 * ranks_ + number;
        rows_->pieces.push_back({item, offset, length});
    }
    void add_dep(std::int32_t message) {
        if (const std::int32_t row = own_row_[to_size(message)]; row != kNotOwn) rows_->deps.push_back(row);
    }
    void end(MessagePhase phase, std::int32_t stage, std::int32_t, std::int64_t order, std::int64_t bytes) {
        if (rows_ == nullptr) return;
        const bool is_alone = is_exclusive_ && phase == MessagePhase::kScaleOut;
        const std::int64_t place = is_alone ? order : static_cast<std::int64_t>(own_row_.size()) - 1;
        rows_->rows.push_back({bytes, place, peer_, stage, 0, static_cast<std::uint8_t>(phase), 0,
                               static_cast<std::uint8_t>(is_alone ? 1 : 0), rows_->pieces.size(), rows_->deps.size()});
    }
    RankPart take() { return std::move(part_); }

private:
    static constexpr std::int32_t kNotOwn = std::numeric_limits<std::int32_t>::min();

    std::int32_t rank_;
    std::int64_t ranks_;
    bool is_exclusive_;
    RankPart part_;
    RankRows* rows_ = nullptr;           // of the message at hand; null where it is others'
    std::int32_t peer_ = 0;              // of the message at hand
    std::vector<std::int32_t> own_row_;  // per message
};

/// @tparam Rows what takes the messages
template <typename Rows>
class Expander {
public:
    Expander(std::span<const std::int64_t> demand, const TwoTierPlan& plan, Rows& rows)
        : demand_(demand),
          plan_(plan),
          width_(plan.width),
          ranks_(plan.servers * plan.width),
          wanted_first_(to_int32(plan.only_rank == kEveryone ? 0 : to_size(plan.only_rank) / width_ * width_)),
          wanted_last_(plan.only_rank == kEveryone ? to_int32(ranks_) : wanted_first_ + to_int32(width_)),
          rows_(rows) {
        require(plan.window > 0, "the window must be at least 1");
        require(demand.size() == ranks_ * ranks_, "demand_bytes must be [ranks, ranks]");
    }

    void expand() {
        add_local();
        table_ = cut_wires(demand_, plan_);
        gather_moves();
        number_moves();
        add_balance();
        add_wires();
        add_restores();
    }

private:
    void gather_moves() {
        balance_.resize(plan_, to_size(table_.num_waves));
        restore_.resize(plan_, to_size(table_.num_waves));
        balance_.bucket_of.assign(table_.pieces.size(), kNone);
        restore_.bucket_of.assign(table_.pieces.size(), kNone);
        for (std::size_t p = 0; p < table_.pieces.size(); ++p) {
            const WirePiece& piece = table_.pieces[p];
            const Wire& wire = table_.wires[to_size(piece.wire)];
            if (piece.sender != wire.src && is_wanted_rank(wire.src)) {
                balance_.count(p, balance_.bucket(piece.sender, wire.src, wire.balance_wave));
            }
            if (piece.receiver != wire.dst && is_wanted_rank(wire.dst)) {
                restore_.count(p, restore_.bucket(wire.dst, piece.receiver, wire.restore_wave));
            }
        }
    }

    /// Whether a rank is on a server whose moves are wanted.
    [[nodiscard]] bool is_wanted_rank(std::int32_t rank) const { return wanted_first_ <= rank && rank < wanted_last_; }

    void number_moves() {
        const std::size_t local = to_size(next_id_);
        balance_.number(local);
        first_wire_ = local + balance_.messages();
        restore_.number(first_wire_ + table_.wires.size());
        const std::size_t messages = first_wire_ + table_.wires.size() + restore_.messages();
        const std::size_t pieces = num_pieces_ + balance_.pieces() + table_.pieces.size() + restore_.pieces();
        require(messages < (1U << 31U) && pieces < (1U << 31U), "a schedule has at most 2^31 rows");
        rows_.reserve(messages, pieces);
    }

    /// Traffic inside a server, peers in turn from the next on; a few messages at a time where wires wait for the same
    /// port.
    void add_local() {
        rows_.reserve(width_ * to_size(wanted_last_ - wanted_first_), width_ * to_size(wanted_last_ - wanted_first_));
        for (std::size_t src = to_size(wanted_first_); src < to_size(wanted_last_); ++src) {
            const std::size_t first = src / width_ * width_;
            std::array<std::int32_t, kInFlight> before;  // in turn
            before.fill(kNoWire);
            for (std::size_t turn = 1, sent = 0; turn < width_; ++turn) {
                const std::size_t dst = first + (src - first + turn) % width_;
                std::int64_t bytes = demand_[src * ranks_ + dst];
                if (bytes > 0) bytes = add_routed(src, dst, bytes);
                if (bytes == 0) continue;
                std::int32_t& earlier = before[sent++ % kInFlight];
                const std::int32_t dep = std::exchange(earlier, next_id_);
                begin(to_int32(src), to_int32(dst));
                if (plan_.local_waits && dep != kNoWire) add_dep(dep);
                add_piece(to_int32(src), to_int32(dst), 0, bytes, 0);
                end(MessagePhase::kLocal, 0, 0, 0);
            }
        }
    }

    /// The last of a pair's first `bytes` that the assignment sends another way: by a relay or by NICs, in slices that
    /// hop on as they come, or all at once where there is no hop.
    /// @returns how many are left to go straight
    std::int64_t add_routed(std::size_t src, std::size_t dst, std::int64_t bytes) {
        if (plan_.assignment == nullptr) return bytes;
        const auto routes =
            std::ranges::equal_range(plan_.assignment->near, std::pair{to_int32(src), to_int32(dst)}, {},
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
            const std::int64_t parts = relay_slices(taken, route, plan_.hop_costs);
            std::array<std::int32_t, kInFlight> before;  // first legs of the slices before
            before.fill(kNone);
            for (std::int64_t slice = 0; slice < parts; ++slice) {
                const std::int64_t start = first + slice_start(taken, slice, parts);
                const std::int64_t length = first + slice_start(taken, slice + 1, parts) - start;
                if (length == 0) continue;
                for (std::size_t n = 0; n < num_legs; ++n) {
                    begin(legs[n].from, legs[n].to);
                    if (n > 0) add_dep(next_id_ - 1);
                    auto& earlier = before[to_size(slice % kInFlight)];
                    if (n == 0 && num_legs > 1 && earlier != kNone) add_dep(earlier);
                    if (n == 0) earlier = next_id_;
                    add_piece(to_int32(src), to_int32(dst), start, length, num_routed_);
                    end(legs[n].phase, 0, static_cast<std::int32_t>(slice), 0);
                }
                ++num_routed_;
            }
        }
        return bytes;
    }

    /// A GPU's moves go out wave by wave, a few waves at a time: what is needed first is not slowed by what is needed
    /// later, and one slow receiver does not stop the others at once.
    void add_balance() {
        struct Ids {
            std::int32_t first = 0, last = 0;
        };
        struct Waves {
            std::int32_t current = kNone;
            std::array<Ids, kInFlight + 1> ids;  // of the current wave and those before it
        };
        const std::vector<std::uint32_t> order = balance_.ordered();
        // With links of their own no helper stops the others.
        const std::size_t streams = plan_.has_links ? width_ : 1;
        const std::size_t first_rank = balance_.first_rank, ranks = plan_.only_rank == kEveryone ? ranks_ : width_;
        std::vector<Waves> waves(streams * ranks);
        std::size_t next = 0;
        for (std::size_t message = 0; message < balance_.messages(); ++message) {
            const std::int32_t id = to_int32(balance_.first_id + message);
            const std::int32_t sender = table_.pieces[order[next]].sender;
            const Wire& wire = table_.wires[to_size(table_.pieces[order[next]].wire)];
            const std::size_t stream = to_size(wire.src) % streams;
            Waves& sent = waves[streams * (to_size(sender) - first_rank) + stream];
            if (std::exchange(sent.current, wire.balance_wave) != wire.balance_wave) {
                std::ranges::copy_backward(sent.ids.begin(), sent.ids.end() - 1, sent.ids.end());
                sent.ids.front() = {id, id};
            }
            sent.ids.front().last = id + 1;
            const Ids& over = sent.ids[kInFlight];
            begin(sender, wire.src);
            for (std::int32_t dep = over.first; dep < over.last; ++dep) add_dep(dep);
            while (next < balance_.first[message + 1]) add_piece(table_.pieces[order[next++]]);
            end(MessagePhase::kBalance, wire.stage, wire.slice, 0);
        }
    }

    void add_wires() {
        std::size_t next = 0;
        std::vector<std::int32_t> deps;
        for (std::size_t id = 0; id < table_.wires.size(); ++id) {
            const Wire& wire = table_.wires[id];
            deps.clear();
            begin(wire.src, wire.dst);
            for (; next < table_.pieces.size() && to_size(table_.pieces[next].wire) == id; ++next) {
                const WirePiece& piece = table_.pieces[next];
                add_piece(piece);
                if (is_wanted_ && balance_.bucket_of[next] != kNone) deps.push_back(balance_.message_of(next));
            }
            for (const std::int32_t earlier : wire.after) {
                if (earlier != kNone) deps.push_back(to_int32(first_wire_) + earlier);
            }
            if (!std::ranges::is_sorted(deps)) std::ranges::sort(deps);
            deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
            for (const std::int32_t dep : deps) add_dep(dep);
            end(MessagePhase::kScaleOut, wire.stage, wire.slice, static_cast<std::int64_t>(id));
        }
    }

    void add_restores() {
        const std::vector<std::uint32_t> order = restore_.ordered();
        std::size_t next = 0;
        for (std::size_t message = 0; message < restore_.messages(); ++message) {
            std::int32_t last = kNone;
            const std::int32_t receiver = table_.pieces[order[next]].receiver;
            begin(table_.wires[to_size(table_.pieces[order[next]].wire)].dst, receiver);
            while (next < restore_.first[message + 1]) {
                const WirePiece& piece = table_.pieces[order[next++]];
                if (piece.wire != last) add_dep(to_int32(first_wire_) + piece.wire);
                last = piece.wire;
                add_piece(piece);
            }
            const Wire& wire = table_.wires[to_size(last)];
            end(MessagePhase::kRedistribute, wire.stage, wire.slice, 0);
        }
    }

    void begin(std::int32_t src, std::int32_t dst) { is_wanted_ = rows_.begin(src, dst); }
    void add_dep(std::int32_t message) {
        if (is_wanted_) rows_.add_dep(message);
    }
    void add_piece(const WirePiece& piece) {
        add_piece(piece.sender, piece.receiver, piece.offset, piece.length,
                  num_routed_ + (&piece - table_.pieces.data()));
    }
    /// @param number the same wherever these bytes come by
    void add_piece(std::int32_t sender, std::int32_t receiver, std::int64_t offset, std::int64_t length,
                   std::int64_t number) {
        message_bytes_ += length;
        ++num_pieces_;
        if (is_wanted_) rows_.add_piece(sender, receiver, offset, length, number);
    }
    /// Closes the message over the pieces and dependencies added since it began.
    void end(MessagePhase phase, std::int32_t stage, std::int32_t slice, std::int64_t order) {
        rows_.end(phase, stage, slice, order, std::exchange(message_bytes_, 0));
        ++next_id_;
    }

    std::span<const std::int64_t> demand_;
    const TwoTierPlan& plan_;
    std::size_t width_, ranks_;
    std::int32_t wanted_first_, wanted_last_;  // ranks of the servers whose moves are wanted
    Rows& rows_;
    WireTable table_;
    Moves balance_, restore_;
    std::size_t first_wire_ = 0, num_pieces_ = 0;
    std::int32_t next_id_ = 0;
    std::int64_t num_routed_ = 0;  // slices of what goes around inside a server
    std::int64_t message_bytes_ = 0;
    bool is_wanted_ = true;  // the message at hand
};

}  // namespace

std::int32_t relay_slices(std::int64_t bytes, const Route& route, const HopCosts& costs) {
    // The last slice has nothing to hide behind on its second hop, and each costs a message: best where both grow
    // alike.
    const auto all = static_cast<double>(bytes);
    const double best = costs.message_bytes > 0 ? std::sqrt(all / costs.message_bytes) : kMostSlices;
    const double wait = route.relay >= 0 ? costs.link_wait_bytes : costs.nic_wait_bytes;
    const double most = wait > 0 ? all / wait : kMostSlices;  // finer ones would not fill the wire
    return static_cast<std::int32_t>(std::clamp<double>(std::min(best, most), 1, kMostSlices));
}

ScheduleRows expand_two_tier(std::span<const std::int64_t> demand_bytes, const TwoTierPlan& plan) {
    require(plan.only_rank == kEveryone, "rows of one rank are no schedule");
    AllRows rows(demand_bytes, plan.servers * plan.width);
    Expander(demand_bytes, plan, rows).expand();
    return rows.take();
}

RankPart expand_for_rank(std::span<const std::int64_t> demand_bytes, const TwoTierPlan& plan) {
    OwnRows rows(plan.only_rank, plan.servers * plan.width, plan.pace == Pace::kExclusive);
    Expander(demand_bytes, plan, rows).expand();
    return rows.take();
}

}  // namespace interlock
