#include "interlock/rank_program.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "interlock/errors.hpp"

namespace interlock {
namespace {

constexpr std::int64_t kAlignBytes = 64;  // of every region of scratch, so that it can be viewed as any element type

std::size_t to_size(std::int64_t value) { return static_cast<std::size_t>(value); }
std::int32_t to_int32(std::size_t value) { return static_cast<std::int32_t>(value); }
std::uint8_t to_byte(Buffer buffer) { return static_cast<std::uint8_t>(buffer); }

constexpr std::int64_t kNotOurs = -1;

/// A run of bytes in a buffer.
struct Run {
    Buffer buffer;
    std::int64_t start, length;
};

/// A range of an item that is at the rank, and where it lies.
struct Held {
    std::int64_t item, offset, length;
    Buffer buffer;
    std::int64_t start;
};

void append(std::vector<Run>& runs, std::size_t first, Run next) {
    if (runs.size() > first && runs.back().buffer == next.buffer && runs.back().start + runs.back().length == next.start) {
        runs.back().length += next.length;
    } else {
        runs.push_back(next);
    }
}

const PlacedItem* find(std::span<const PlacedItem> items, std::int64_t item) {
    if (items.empty() || item < items.front().item || item > items.back().item) return nullptr;
    const std::size_t place = to_size(item - items.front().item);
    if (to_size(items.back().item - items.front().item) == items.size() - 1) return &items[place];  // none is left out
    const auto found = std::ranges::lower_bound(items, item, {}, &PlacedItem::item);
    return found != items.end() && found->item == item ? &*found : nullptr;
}

class Lowering {
public:
    Lowering(RankPart part, const RankLayout& layout) : sends_(std::move(part.sends)), receives_(std::move(part.receives)), layout_(layout) {
        made_.send_tag = tags(sends_);
        made_.receive_tag = tags(receives_);
        split(sends_, made_.send_bytes, made_.send_peer, made_.send_phase, made_.send_stage, made_.send_round);
        split(receives_, made_.receive_bytes, made_.receive_peer, made_.receive_phase, made_.receive_stage, made_.receive_round);
        made_.receive_adds.assign(receives_.size(), 0);
        made_.input_bytes = made_.output_bytes = layout.own_bytes;
        for (const PlacedItem& item : layout.input) made_.input_bytes += item.length;
        for (const PlacedItem& item : layout.output) made_.output_bytes += item.length;
        made_.receive_start.reserve(receives_.size());
        made_.send_start.reserve(sends_.size());
        made_.receive_buffer.reserve(receives_.size());
        made_.send_buffer.reserve(sends_.size());
        made_.unpack_offsets.reserve(receives_.size() + 1);
        made_.pack_offsets.reserve(sends_.size() + 1);
        for (auto* column : {&made_.unpack_start, &made_.unpack_to, &made_.unpack_bytes}) column->reserve(receives_.pieces.size());
        for (auto* column : {&made_.pack_start, &made_.pack_to, &made_.pack_bytes}) column->reserve(sends_.pieces.size());
        made_.unpack_buffer.reserve(receives_.pieces.size());
        made_.pack_buffer.reserve(sends_.pieces.size());
    }

    RankProgram run(std::span<const std::int64_t> item_bytes, std::span<const std::int32_t> barriers) {
        const bool are_summed = !item_bytes.empty();
        if (are_summed) {
            place_sums(item_bytes);
        } else {
            place_copies();
        }
        pack(are_summed);
        order(are_summed, barriers);
        queue();
        made_.scratch_bytes = scratch_;
        return std::move(made_);
    }

private:
    /// Number messages with each peer; both ends count alike, so they agree.
    static std::vector<std::int32_t> tags(const RankRows& rows) {
        if (rows.size() == 0) return {};
        std::vector<std::int32_t> next(to_size(std::ranges::max(rows.rows, {}, &RankRow::peer).peer) + 1, 0), made(rows.size());
        for (std::size_t row = 0; row < rows.size(); ++row) made[row] = next[to_size(rows[row].peer)]++;
        return made;
    }

    static void split(const RankRows& rows, std::vector<std::int64_t>& bytes, std::vector<std::int32_t>& peer,
                      std::vector<std::uint8_t>& phase, std::vector<std::int32_t>& stage, std::vector<std::int32_t>& round) {
        const std::size_t count = rows.size();
        bytes.resize(count);
        peer.resize(count);
        phase.resize(count);
        stage.resize(count);
        round.resize(rows.has_rounds ? count : 0);
        for (std::size_t n = 0; n < count; ++n) {
            const RankRow& row = rows[n];
            bytes[n] = row.size_bytes;
            peer[n] = row.peer;
            phase[n] = row.phase;
            stage[n] = row.stage;
            if (rows.has_rounds) round[n] = row.round;
        }
    }

    std::int64_t take(std::int64_t bytes) {
        return std::exchange(scratch_, scratch_ + (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes);
    }

    /// Items that are only copied: bytes arrive once, straight into the output where they fit in one run.
    void place_copies() {
        std::vector<std::int64_t> final_start;  // per piece of a message; kNotOurs where it is passed on
        made_.unpack_offsets.push_back(0);
        for (std::size_t row = 0; row < receives_.size(); ++row) {
            final_start.clear();
            const auto pieces = receives_.pieces_of(row);
            bool in_place = true;
            std::int64_t next = kNotOurs;
            for (const auto& [item, offset, length] : pieces) {
                const PlacedItem* ours = find(layout_.output, item);
                final_start.push_back(ours == nullptr ? kNotOurs : ours->start + offset);
                in_place = in_place && ours != nullptr && (next == kNotOurs || next == final_start.back());
                next = final_start.back() + length;
            }
            in_place = in_place && !pieces.empty() && next - final_start.front() == receives_[row].size_bytes;
            const std::int64_t landing = in_place ? final_start.front() : take(receives_[row].size_bytes);
            const Buffer buffer = in_place ? Buffer::kOutput : Buffer::kScratch;
            made_.receive_buffer.push_back(to_byte(buffer));
            made_.receive_start.push_back(landing);
            std::int64_t at = landing;
            const std::size_t first = made_.unpack_bytes.size();
            for (std::size_t p = 0; p < pieces.size(); ++p) {
                const auto& [item, offset, length] = pieces[p];
                const bool is_ours = final_start[p] != kNotOurs;
                if (!is_ours || !layout_.is_pairs) held_.push_back({item, offset, length, buffer, at});
                if (!in_place && is_ours) unpack(first, at, Buffer::kOutput, final_start[p], length);
                at += length;
            }
            made_.unpack_offsets.push_back(to_int32(made_.unpack_bytes.size()));
        }
        const auto before = [](const Held& a, const Held& b) { return std::tie(a.item, a.offset) < std::tie(b.item, b.offset); };
        if (!std::ranges::is_sorted(held_, before)) std::sort(held_.begin(), held_.end(), before);
        for (const auto& [item, start, length] : layout_.input) {
            if (layout_.is_pairs) break;
            if (const PlacedItem* ours = find(layout_.output, item)) keep(start, ours->start, length);
        }
        keep(layout_.own_from, layout_.own_to, layout_.own_bytes);
    }

    void keep(std::int64_t from, std::int64_t to, std::int64_t bytes) {
        if (bytes == 0) return;
        if (!made_.own_bytes.empty() && made_.own_from.back() + made_.own_bytes.back() == from &&
            made_.own_to.back() + made_.own_bytes.back() == to) {
            made_.own_bytes.back() += bytes;
            return;
        }
        made_.own_from.push_back(from);
        made_.own_to.push_back(to);
        made_.own_bytes.push_back(bytes);
    }

    /// Items that are summed: each has one accumulator here, which sends read from and receives write to.
    void place_sums(std::span<const std::int64_t> item_bytes) {
        std::vector<std::int64_t> items;
        for (const auto* placed : {&layout_.input, &layout_.output}) {
            for (const PlacedItem& here : *placed) items.push_back(here.item);
        }
        for (const auto* rows : {&sends_, &receives_}) {
            for (const ItemPiece& piece : rows->pieces) items.push_back(piece.item);
        }
        std::sort(items.begin(), items.end());
        items.erase(std::unique(items.begin(), items.end()), items.end());
        for (const std::int64_t item : items) {
            require(item >= 0 && to_size(item) < item_bytes.size(), "an item is out of range");
            const std::int64_t bytes = item_bytes[to_size(item)];
            const PlacedItem* ours = find(layout_.output, item);
            const Buffer buffer = ours != nullptr ? Buffer::kOutput : Buffer::kScratch;
            const std::int64_t start = ours != nullptr ? ours->start : take(bytes);
            held_.push_back({item, 0, bytes, buffer, start});
            begin(find(layout_.input, item), buffer, start, bytes);
        }
        made_.unpack_offsets.push_back(0);
        for (std::size_t row = 0; row < receives_.size(); ++row) {
            std::int64_t at = take(receives_[row].size_bytes);
            made_.receive_buffer.push_back(to_byte(Buffer::kScratch));
            made_.receive_start.push_back(at);
            made_.receive_adds[row] = receives_[row].adds;
            const std::size_t first = made_.unpack_bytes.size();
            for (const auto& [item, offset, length] : receives_.pieces_of(row)) {
                const Held& total = *std::ranges::lower_bound(held_, item, {}, &Held::item);
                unpack(first, at, total.buffer, total.start + offset, length);
                at += length;
            }
            made_.unpack_offsets.push_back(to_int32(made_.unpack_bytes.size()));
        }
    }

    /// An accumulator's first value: what the rank contributes, or nothing.
    void begin(const PlacedItem* given, Buffer buffer, std::int64_t to, std::int64_t bytes) {
        if (given == nullptr) {
            made_.zero_buffer.push_back(to_byte(buffer));
            made_.zero_start.push_back(to);
            made_.zero_bytes.push_back(bytes);
            return;
        }
        const bool joins = !made_.start_bytes.empty() && made_.start_buffer.back() == to_byte(buffer) &&
                           made_.start_from.back() + made_.start_bytes.back() == given->start &&
                           made_.start_to.back() + made_.start_bytes.back() == to;
        if (joins) {
            made_.start_bytes.back() += bytes;
            return;
        }
        made_.start_buffer.push_back(to_byte(buffer));
        made_.start_from.push_back(given->start);
        made_.start_to.push_back(to);
        made_.start_bytes.push_back(bytes);
    }

    /// One more copy of a receive's; neighbours on both sides are joined.
    void unpack(std::size_t first, std::int64_t from, Buffer buffer, std::int64_t to, std::int64_t bytes) {
        const std::size_t count = made_.unpack_bytes.size();
        if (count > first && made_.unpack_buffer.back() == to_byte(buffer) &&
            made_.unpack_start.back() + made_.unpack_bytes.back() == from &&
            made_.unpack_to.back() + made_.unpack_bytes.back() == to) {
            made_.unpack_bytes.back() += bytes;
            return;
        }
        made_.unpack_start.push_back(from);
        made_.unpack_buffer.push_back(to_byte(buffer));
        made_.unpack_to.push_back(to);
        made_.unpack_bytes.push_back(bytes);
    }

    /// Where the bytes of each send lie; they are sent from there if that is one run, and it does not change meanwhile.
    void pack(bool must_pack) {
        std::vector<Run> runs;
        made_.pack_offsets.push_back(0);
        for (std::size_t row = 0; row < sends_.size(); ++row) {
            runs.clear();
            for (const ItemPiece& piece : sends_.pieces_of(row)) locate(piece, sends_[row].peer, must_pack, runs);
            const bool in_place = !must_pack && runs.size() == 1 && runs[0].length == sends_[row].size_bytes;
            made_.send_buffer.push_back(to_byte(in_place ? runs[0].buffer : Buffer::kScratch));
            made_.send_start.push_back(in_place ? runs[0].start : take(sends_[row].size_bytes));
            std::int64_t to = made_.send_start.back();
            for (const auto& [buffer, start, length] : runs) {
                if (in_place) break;
                made_.pack_buffer.push_back(to_byte(buffer));
                made_.pack_start.push_back(start);
                made_.pack_to.push_back(to);
                made_.pack_bytes.push_back(length);
                to += length;
            }
            made_.pack_offsets.push_back(to_int32(made_.pack_bytes.size()));
        }
    }

    void locate(const ItemPiece& piece, std::int32_t peer, bool are_summed, std::vector<Run>& runs) const {
        const PlacedItem* given = are_summed ? nullptr : find(layout_.input, piece.item);
        if (given != nullptr && piece.offset + piece.length <= given->length) {
            append(runs, 0, {Buffer::kInput, given->start + piece.offset, piece.length});
            return;
        }
        const auto after = [](const ItemPiece& wanted, const Held& held) {
            return std::tie(wanted.item, wanted.offset) < std::tie(held.item, held.offset);
        };
        auto found = std::upper_bound(held_.begin(), held_.end(), piece, after);
        std::int64_t at = piece.offset, left = piece.length;
        while (left > 0) {
            const bool lies_here = found != held_.begin() && std::prev(found)->item == piece.item &&
                                   at < std::prev(found)->offset + std::prev(found)->length;
            if (!lies_here) throw InvalidInput("a message to rank " + std::to_string(peer) + " sends bytes that its source never holds");
            const Held& held = *std::prev(found);
            const std::int64_t taken = std::min(left, held.offset + held.length - at);
            append(runs, 0, {held.buffer, held.start + at - held.offset, taken});
            at += taken;
            left -= taken;
            while (found != held_.end() && found->item == piece.item && found->offset <= at) ++found;
        }
    }

    /// What each step waits for: of the rank's own messages those it depends on, and what stands before its barrier.
    void order(bool are_summed, std::span<const std::int32_t> barriers) {
        const std::size_t num_sends = sends_.size(), num_moves = num_sends + receives_.size();
        const std::size_t steps = num_moves + barriers.size();
        made_.wait_offsets.assign(1, 0);
        made_.wait_offsets.reserve(steps + 1);
        made_.wait_on.reserve(sends_.deps.size());
        const auto close = [&] {
            const auto first = made_.wait_on.begin() + made_.wait_offsets.back();
            if (!std::is_sorted(first, made_.wait_on.end())) std::sort(first, made_.wait_on.end());
            made_.wait_on.erase(std::unique(first, made_.wait_on.end()), made_.wait_on.end());
            made_.wait_offsets.push_back(to_int32(made_.wait_on.size()));
        };
        std::vector<std::size_t> segment(barriers.empty() ? 0 : num_moves);  // barriers before each move
        for (std::size_t step = 0; step < num_moves; ++step) {
            const bool is_send = step < num_sends;
            const RankRows& rows = is_send ? sends_ : receives_;
            const std::size_t row = is_send ? step : step - num_sends;
            // Bytes that are only copied never overwrite anything: their receives need no order of their own.
            if (is_send || are_summed) {
                for (const std::int32_t dep : rows.deps_of(row)) made_.wait_on.push_back(to_int32(row_of(dep) + (is_receive(dep) ? num_sends : 0)));
            }
            if (!barriers.empty()) {
                segment[step] = static_cast<std::size_t>(std::ranges::upper_bound(barriers, rows[row].stage) - barriers.begin());
                if (segment[step] > 0) made_.wait_on.push_back(to_int32(num_moves + segment[step] - 1));
            }
            close();
        }
        for (std::size_t barrier = 0; barrier < barriers.size(); ++barrier) {
            for (std::size_t step = 0; step < num_moves; ++step) {
                if (segment[step] == barrier) made_.wait_on.push_back(to_int32(step));
            }
            if (barrier > 0) made_.wait_on.push_back(to_int32(num_moves + barrier - 1));
            close();
        }
        made_.release_offsets.assign(steps + 1, 0);
        for (const std::int32_t earlier : made_.wait_on) ++made_.release_offsets[to_size(earlier) + 1];
        std::partial_sum(made_.release_offsets.begin(), made_.release_offsets.end(), made_.release_offsets.begin());
        std::vector<std::int32_t> next(made_.release_offsets.begin(), made_.release_offsets.end() - 1);
        made_.release_to.resize(made_.wait_on.size());
        for (std::size_t step = 0; step < steps; ++step) {
            for (auto n = to_size(made_.wait_offsets[step]); n < to_size(made_.wait_offsets[step + 1]); ++n) {
                made_.release_to[to_size(next[to_size(made_.wait_on[n])]++)] = to_int32(step);
            }
        }
    }

    /// Which receives are let in one after the other, and in which order: those that hold their links alone, or wait for a
    /// message from another rank to this one. The order respects every dependency.
    void queue() {
        const std::size_t count = receives_.size();
        made_.receive_queued.resize(count);
        for (std::size_t row = 0; row < count; ++row) {
            made_.receive_queued[row] = receives_[row].exclusive;
            for (const std::int32_t dep : receives_.deps_of(row)) {
                if (is_receive(dep) && receives_[row_of(dep)].peer != receives_[row].peer) made_.receive_queued[row] = 1;
            }
        }
        std::vector<std::int32_t> turn(count);
        std::iota(turn.begin(), turn.end(), 0);
        const auto place = [&](std::int32_t row) { return receives_[to_size(row)].place; };
        if (!std::ranges::is_sorted(receives_.rows, {}, &RankRow::place)) std::ranges::stable_sort(turn, {}, place);
        made_.receive_place.resize(count);
        for (std::size_t n = 0; n < count; ++n) made_.receive_place[to_size(turn[n])] = to_int32(n);
    }

    RankRows sends_, receives_;
    const RankLayout& layout_;
    std::vector<Held> held_;  // by item and offset
    std::int64_t scratch_ = 0;
    RankProgram made_;
};

}  // namespace

RankProgram lower(RankPart part, const RankLayout& layout, std::span<const std::int64_t> item_bytes,
                  std::span<const std::int32_t> barriers) {
    return Lowering(std::move(part), layout).run(item_bytes, barriers);
}

}  // namespace interlock
