#include "interlock/schedule/rank_program.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"

namespace interlock {
namespace {

constexpr std::int64_t kAlignBytes = 64;  // of every region of scratch, so that it can be viewed as any element type

constexpr std::int64_t kNotOurs = -1;
constexpr std::int32_t kNowhere = -1;
constexpr std::size_t kUsualPieces = 16;  // of a message: room that is made at once

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

/// Where a message's bytes lie at this rank; its copies begin where those of the message before end.
struct Landing {
    std::int64_t start;
    std::int32_t copies_end;
    Buffer buffer;
};

/// Bytes that are copied before a send or after a receive, from or to a buffer.
struct Copy {
    std::int64_t start, to, bytes;
    Buffer buffer;
};

/// Bytes of an accumulator that begin as what the rank contributes, or as nothing.
struct Begin {
    std::int64_t from, to, bytes;
    Buffer buffer;
};

/// Writes columns end to end.
template <typename T>
class ColumnWriter {
public:
    ColumnWriter(JoinedColumns<T>& into, std::size_t columns, std::size_t values) : into_(into) {
        into.values.resize(values);
        into.ends.reserve(columns);
    }
    /// One more column: `value_of` its rows 0 to `count` - 1.
    template <typename ValueOf>
    void add(std::size_t count, ValueOf value_of) {
        T* const at = into_.values.data() + next_;
        for (std::size_t row = 0; row < count; ++row) at[row] = static_cast<T>(value_of(row));
        next_ += count;
        into_.ends.push_back(static_cast<std::int64_t>(next_));
    }
    /// One more column: a field of every row.
    template <typename Row, typename Field>
    void add(const std::vector<Row>& rows, Field Row::* field) {
        static_assert(sizeof(Field) == sizeof(T));
        if (!rows.empty()) copy_field(reinterpret_cast<const std::byte*>(&(rows[0].*field)), sizeof(Row), rows.size());
        into_.ends.push_back(static_cast<std::int64_t>(next_));
    }
    void add(const std::vector<T>& column) {
        std::ranges::copy(column, into_.values.begin() + static_cast<std::ptrdiff_t>(next_));
        next_ += column.size();
        into_.ends.push_back(static_cast<std::int64_t>(next_));
    }

private:
    /// Out of line: one small loop for all columns is sooner at hand than a large one for each.
    [[gnu::noinline]] void copy_field(const std::byte* from, std::size_t stride, std::size_t count) {
        T* const at = into_.values.data() + next_;
        for (std::size_t row = 0; row < count; ++row) std::memcpy(at + row, from + row * stride, sizeof(T));
        next_ += count;
    }

    JoinedColumns<T>& into_;
    std::size_t next_ = 0;
};

void append(std::vector<Run>& runs, Run next) {
    if (!runs.empty() && runs.back().buffer == next.buffer && runs.back().start + runs.back().length == next.start) {
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
    Lowering(RankPart part, const RankLayout& layout)
        : sends_(std::move(part.sends)), receives_(std::move(part.receives)), layout_(layout) {
        sent_.reserve(sends_.size());
        received_.reserve(receives_.size());
        packs_.reserve(sends_.pieces.size());
        unpacks_.reserve(receives_.pieces.size());
        held_.reserve(receives_.pieces.size());
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
        return columns(are_summed);
    }

private:
    [[nodiscard]] RankProgram columns(bool are_summed) const {
        RankProgram made;
        made.input_bytes = made.output_bytes = layout_.own_bytes;
        for (const PlacedItem& item : layout_.input) made.input_bytes += item.length;
        for (const PlacedItem& item : layout_.output) made.output_bytes += item.length;
        made.scratch_bytes = scratch_;
        const std::size_t sends = sends_.size(), receives = receives_.size();
        const std::size_t copies = packs_.size() + unpacks_.size();

        ColumnWriter<std::int64_t> wide(
            made.wide, 18, 2 * (sends + receives) + 3 * (copies + starts_.size() + owns_.size()) + 2 * zeros_.size());
        wide.add(sends_.rows, &RankRow::size_bytes);
        wide.add(sent_, &Landing::start);
        wide.add(receives_.rows, &RankRow::size_bytes);
        wide.add(received_, &Landing::start);
        for (const auto* of : {&packs_, &unpacks_}) {
            wide.add(*of, &Copy::start);
            wide.add(*of, &Copy::to);
            wide.add(*of, &Copy::bytes);
        }
        wide.add(starts_, &Begin::from);
        wide.add(starts_, &Begin::to);
        wide.add(starts_, &Begin::bytes);
        wide.add(zeros_, &Begin::to);
        wide.add(zeros_, &Begin::bytes);
        wide.add(owns_, &Begin::from);
        wide.add(owns_, &Begin::to);
        wide.add(owns_, &Begin::bytes);

        const std::size_t rounds = (sends_.has_rounds ? sends : 0) + (receives_.has_rounds ? receives : 0);
        ColumnWriter<std::int32_t> narrow(
            made.narrow, 15, 4 * sends + 5 * receives + rounds + 2 + 2 * (wait_offsets_.size() + wait_on_.size()));
        for (const auto* rows : {&sends_, &receives_}) {
            narrow.add(rows->rows, &RankRow::peer);
            // Messages with each peer are numbered; both ends count alike, so they agree.
            std::vector<std::int32_t> next(num_peers(*rows), 0);
            narrow.add(rows->size(), [&](std::size_t row) { return next[to_size((*rows)[row].peer)]++; });
            narrow.add(rows->rows, &RankRow::stage);
            narrow.add(rows->has_rounds ? rows->size() : 0, [&](std::size_t row) { return (*rows)[row].round; });
        }
        narrow.add(places());
        for (const auto* at : {&sent_, &received_}) {
            narrow.add(at->size() + 1, [&](std::size_t row) { return row == 0 ? 0 : (*at)[row - 1].copies_end; });
        }
        narrow.add(wait_offsets_);
        narrow.add(wait_on_);
        narrow.add(release_offsets_);
        narrow.add(release_to_);

        ColumnWriter<std::uint8_t> bytes(made.bytes, 10,
                                         2 * sends + 4 * receives + copies + starts_.size() + zeros_.size());
        bytes.add(sent_, &Landing::buffer);
        bytes.add(sends_.rows, &RankRow::phase);
        bytes.add(received_, &Landing::buffer);
        bytes.add(receives_.rows, &RankRow::phase);
        bytes.add(receives, [&](std::size_t row) { return are_summed ? receives_[row].adds : std::uint8_t{0}; });
        bytes.add(receives, [&](std::size_t row) { return is_queued(row); });
        bytes.add(packs_, &Copy::buffer);
        bytes.add(unpacks_, &Copy::buffer);
        bytes.add(starts_, &Begin::buffer);
        bytes.add(zeros_, &Begin::buffer);
        return made;
    }

    static std::size_t num_peers(const RankRows& rows) {
        return rows.size() == 0 ? 0 : to_size(std::ranges::max(rows.rows, {}, &RankRow::peer).peer) + 1;
    }

    std::int64_t take(std::int64_t bytes) {
        constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;
        require(bytes >= 0 && bytes <= kMostBytes - scratch_, "a rank must keep at most 2^62 bytes for others");
        return std::exchange(scratch_, scratch_ + (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes);
    }

    /// Items that are only copied: bytes arrive once, straight into the output where they fit in one run.
    void place_copies() {
        std::vector<std::int64_t> final_start;  // per piece of a message; kNotOurs where it is passed on
        final_start.reserve(kUsualPieces);
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
            std::int64_t at = landing;
            const std::size_t first = unpacks_.size();
            for (std::size_t p = 0; p < pieces.size(); ++p) {
                const auto& [item, offset, length] = pieces[p];
                const bool is_ours = final_start[p] != kNotOurs;
                if (!is_ours || !layout_.is_pairs) hold({item, offset, length, buffer, at});
                if (!in_place && is_ours) unpack(first, at, Buffer::kOutput, final_start[p], length);
                at += length;
            }
            received_.push_back({landing, to_int32(unpacks_.size()), buffer});
        }
        const auto before = [](const Held& a, const Held& b) {
            return std::tie(a.item, a.offset) < std::tie(b.item, b.offset);
        };
        if (!layout_.is_pairs && !std::ranges::is_sorted(held_, before)) std::sort(held_.begin(), held_.end(), before);
        for (const auto& [item, start, length] : layout_.input) {
            if (layout_.is_pairs) break;
            if (const PlacedItem* ours = find(layout_.output, item)) keep(start, ours->start, length);
        }
        keep(layout_.own_from, layout_.own_to, layout_.own_bytes);
    }

    void hold(const Held& here) {
        if (layout_.is_pairs) {
            const std::size_t number = number_of(here.item);
            if (held_at_.size() <= number) held_at_.resize(number + 1, kNowhere);
            held_at_[number] = to_int32(held_.size());
        }
        held_.push_back(here);
    }

    /// Of what is passed on between pairs: it comes after the output's items.
    [[nodiscard]] std::size_t number_of(std::int64_t item) const {
        return to_size(item - layout_.output.back().item - 1);
    }

    void keep(std::int64_t from, std::int64_t to, std::int64_t bytes) {
        if (bytes > 0) join(owns_, {from, to, bytes, Buffer::kOutput});
    }

    /// One more, or more of the last where both sides go on.
    static void join(std::vector<Begin>& parts, const Begin& next) {
        Begin* const last = parts.empty() ? nullptr : &parts.back();
        if (last != nullptr && last->buffer == next.buffer && last->from + last->bytes == next.from &&
            last->to + last->bytes == next.to) {
            last->bytes += next.bytes;
        } else {
            parts.push_back(next);
        }
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
        for (std::size_t row = 0; row < receives_.size(); ++row) {
            const std::int64_t landing = take(receives_[row].size_bytes);
            std::int64_t at = landing;
            const std::size_t first = unpacks_.size();
            for (const auto& [item, offset, length] : receives_.pieces_of(row)) {
                const Held& total = *std::ranges::lower_bound(held_, item, {}, &Held::item);
                unpack(first, at, total.buffer, total.start + offset, length);
                at += length;
            }
            received_.push_back({landing, to_int32(unpacks_.size()), Buffer::kScratch});
        }
    }

    /// An accumulator's first value: what the rank contributes, or nothing.
    void begin(const PlacedItem* given, Buffer buffer, std::int64_t to, std::int64_t bytes) {
        if (given == nullptr) {
            zeros_.push_back({0, to, bytes, buffer});
        } else {
            join(starts_, {given->start, to, bytes, buffer});
        }
    }

    /// One more copy of a receive's; neighbours on both sides are joined.
    void unpack(std::size_t first, std::int64_t from, Buffer buffer, std::int64_t to, std::int64_t bytes) {
        Copy* const last = unpacks_.size() > first ? &unpacks_.back() : nullptr;
        if (last != nullptr && last->buffer == buffer && last->start + last->bytes == from &&
            last->to + last->bytes == to) {
            last->bytes += bytes;
        } else {
            unpacks_.push_back({from, to, bytes, buffer});
        }
    }

    /// Where the bytes of each send lie; they are sent from there if that is one run, and it does not change meanwhile.
    void pack(bool must_pack) {
        std::vector<Run> runs;
        runs.reserve(kUsualPieces);
        for (std::size_t row = 0; row < sends_.size(); ++row) {
            runs.clear();
            for (const ItemPiece& piece : sends_.pieces_of(row)) locate(piece, sends_[row].peer, must_pack, runs);
            const bool in_place = !must_pack && runs.size() == 1 && runs[0].length == sends_[row].size_bytes;
            const std::int64_t start = in_place ? runs[0].start : take(sends_[row].size_bytes);
            std::int64_t to = start;
            for (const auto& [buffer, from, length] : runs) {
                if (in_place) break;
                packs_.push_back({from, to, length, buffer});
                to += length;
            }
            sent_.push_back({start, to_int32(packs_.size()), in_place ? runs[0].buffer : Buffer::kScratch});
        }
    }

    void locate(const ItemPiece& piece, std::int32_t peer, bool are_summed, std::vector<Run>& runs) const {
        const PlacedItem* given = are_summed ? nullptr : find(layout_.input, piece.item);
        if (given != nullptr && piece.offset + piece.length <= given->length) {
            append(runs, {Buffer::kInput, given->start + piece.offset, piece.length});
            return;
        }
        const auto refuse = [&] {
            throw InvalidInput("a message to rank " + std::to_string(peer) +
                               " sends bytes that its source never holds");
        };
        if (layout_.is_pairs) {  // passed on as it came
            const std::size_t number = number_of(piece.item);
            if (number >= held_at_.size() || held_at_[number] == kNowhere) refuse();
            const Held& held = held_[to_size(held_at_[number])];
            append(runs, {held.buffer, held.start, held.length});
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
            if (!lies_here) refuse();
            const Held& held = *std::prev(found);
            const std::int64_t taken = std::min(left, held.offset + held.length - at);
            append(runs, {held.buffer, held.start + at - held.offset, taken});
            at += taken;
            left -= taken;
            while (found != held_.end() && found->item == piece.item && found->offset <= at) ++found;
        }
    }

    /// What each step waits for: of the rank's own messages those it depends on, and what stands before its barrier.
    void order(bool are_summed, std::span<const std::int32_t> barriers) {
        const std::size_t num_sends = sends_.size(), num_moves = num_sends + receives_.size();
        const std::size_t steps = num_moves + barriers.size();
        wait_offsets_.assign(1, 0);
        wait_offsets_.reserve(steps + 1);
        wait_on_.reserve(sends_.deps.size());
        const auto close = [&] {
            const auto first = wait_on_.begin() + wait_offsets_.back();
            if (!std::is_sorted(first, wait_on_.end())) std::sort(first, wait_on_.end());
            wait_on_.erase(std::unique(first, wait_on_.end()), wait_on_.end());
            wait_offsets_.push_back(to_int32(wait_on_.size()));
        };
        std::vector<std::size_t> segment(barriers.empty() ? 0 : num_moves);  // barriers before each move
        for (std::size_t step = 0; step < num_moves; ++step) {
            const bool is_send = step < num_sends;
            const RankRows& rows = is_send ? sends_ : receives_;
            const std::size_t row = is_send ? step : step - num_sends;
            // Bytes that are only copied never overwrite anything: their receives need no order of their own.
            if (is_send || are_summed) {
                for (const std::int32_t dep : rows.deps_of(row))
                    wait_on_.push_back(to_int32(row_of(dep) + (is_receive(dep) ? num_sends : 0)));
            }
            if (!barriers.empty()) {
                segment[step] =
                    static_cast<std::size_t>(std::ranges::upper_bound(barriers, rows[row].stage) - barriers.begin());
                if (segment[step] > 0) wait_on_.push_back(to_int32(num_moves + segment[step] - 1));
            }
            close();
        }
        for (std::size_t barrier = 0; barrier < barriers.size(); ++barrier) {
            for (std::size_t step = 0; step < num_moves; ++step) {
                if (segment[step] == barrier) wait_on_.push_back(to_int32(step));
            }
            if (barrier > 0) wait_on_.push_back(to_int32(num_moves + barrier - 1));
            close();
        }
        release_offsets_.assign(steps + 1, 0);
        for (const std::int32_t earlier : wait_on_) ++release_offsets_[to_size(earlier) + 1];
        std::partial_sum(release_offsets_.begin(), release_offsets_.end(), release_offsets_.begin());
        std::vector<std::int32_t> next(release_offsets_.begin(), release_offsets_.end() - 1);
        release_to_.resize(wait_on_.size());
        for (std::size_t step = 0; step < steps; ++step) {
            for (auto n = to_size(wait_offsets_[step]); n < to_size(wait_offsets_[step + 1]); ++n) {
                release_to_[to_size(next[to_size(wait_on_[n])]++)] = to_int32(step);
            }
        }
    }

    /// Whether a receive is let in in turn: those that hold their links alone, or wait for a message from another rank
    /// to this.
    [[nodiscard]] bool is_queued(std::size_t row) const {
        return receives_[row].exclusive != 0 || std::ranges::any_of(receives_.deps_of(row), [&](std::int32_t dep) {
                   return is_receive(dep) && receives_[row_of(dep)].peer != receives_[row].peer;
               });
    }

    /// In which order receives are let in; it respects every dependency.
    [[nodiscard]] std::vector<std::int32_t> places() const {
        std::vector<std::int32_t> turn(receives_.size()), place(receives_.size());
        std::iota(turn.begin(), turn.end(), 0);
        if (!std::ranges::is_sorted(receives_.rows, {}, &RankRow::place)) {
            std::ranges::stable_sort(turn, {}, [&](std::int32_t row) { return receives_[to_size(row)].place; });
        }
        for (std::size_t n = 0; n < turn.size(); ++n) place[to_size(turn[n])] = to_int32(n);
        return place;
    }

    RankRows sends_, receives_;
    const RankLayout& layout_;
    std::vector<Held> held_;             // by item and offset; between pairs as it comes
    std::vector<std::int32_t> held_at_;  // between pairs, by number of what is passed on
    std::int64_t scratch_ = 0;
    std::vector<Landing> sent_, received_;
    std::vector<Copy> packs_, unpacks_;
    std::vector<Begin> starts_, zeros_, owns_;
    std::vector<std::int32_t> wait_offsets_, wait_on_, release_offsets_, release_to_;
};

}  // namespace

RankProgram lower(RankPart part, const RankLayout& layout, std::span<const std::int64_t> item_bytes,
                  std::span<const std::int32_t> barriers) {
    return Lowering(std::move(part), layout).run(item_bytes, barriers);
}

}  // namespace interlock
