#include "interlock/schedule/rank_rows.hpp"

#include <algorithm>

#include "interlock/limits.hpp"

namespace interlock {

void ScheduleTableRows::check() const {
    const std::size_t messages = size_bytes.size();
    src.check(messages, "src");
    dst.check(messages, "dst");
    deps.check(messages, "deps");
    require(kind.size() == messages && phase.size() == messages && stage.size() == messages &&
                exclusive.size() == messages && order.size() == messages && (round.empty() || round.size() == messages),
            "every column must have one value per message");
    Csr<std::int32_t>{piece_offsets, item}.check(messages, "pieces");
    require(offset.size() == item.size() && length.size() == item.size(),
            "every piece must have an item, offset and length");
    for (const auto& ranks : {src.values, dst.values})
        for (const std::int32_t rank : ranks)
            require(rank >= 0 && rank < kMostNodes, "ranks must be between 0 and 999,999");
    for (const std::int32_t before : deps.values)
        require(before >= 0 && static_cast<std::size_t>(before) < messages, "dependencies must be messages");
    for (std::size_t piece = 0; piece < item.size(); ++piece) {
        require(item[piece] >= 0 && offset[piece] >= 0 && length[piece] >= 0 &&
                    offset[piece] <= std::int64_t{1} << 62 && length[piece] <= std::int64_t{1} << 62,
                "pieces must lie in items, of at most 2^62 bytes");
    }
    for (const std::int64_t bytes : size_bytes) require(bytes >= 0, "sizes must not be negative");
    for (const std::int32_t number : stage) require(number >= 0, "stages must not be negative");
}

namespace {

/// One direction of a rank, with the message of every row, ascending; dependencies are still to come.
RankRows rows_of_rank(const ScheduleTableRows& table, std::int32_t rank, bool are_sends,
                      std::vector<std::int32_t>& message) {
    const Csr<std::int32_t>& own = are_sends ? table.src : table.dst;
    const Csr<std::int32_t>& others = are_sends ? table.dst : table.src;
    const std::size_t messages = table.size_bytes.size();
    const bool is_single = own.values.size() == messages;
    RankRows rows;
    rows.has_rounds = !table.round.empty();
    for (std::size_t m = 0; m < messages; ++m) {
        if (is_single ? own.values[m] != rank : !std::ranges::count(own[m], rank)) continue;
        for (const std::int32_t peer : others[m]) {
            if (peer == rank) continue;
            message.push_back(static_cast<std::int32_t>(m));
            for (auto p = static_cast<std::size_t>(table.piece_offsets[m]);
                 p < static_cast<std::size_t>(table.piece_offsets[m + 1]); ++p) {
                rows.pieces.push_back({table.item[p], table.offset[p], table.length[p]});
            }
            const std::int64_t round = table.round.empty() ? static_cast<std::int64_t>(m) : table.round[m];
            rows.rows.push_back({table.size_bytes[m], table.exclusive[m] != 0 ? table.order[m] : round, peer,
                                 table.stage[m], static_cast<std::int32_t>(round), table.phase[m], table.kind[m],
                                 table.exclusive[m], rows.pieces.size(), 0});
        }
    }
    return rows;
}

}  // namespace

RankPart part_of_rank(const ScheduleTableRows& table, std::int32_t rank) {
    std::vector<std::int32_t> sent, received;
    RankPart part{rows_of_rank(table, rank, true, sent), rows_of_rank(table, rank, false, received)};
    const auto add_deps = [&](RankRows& rows, std::span<const std::int32_t> messages) {
        for (std::size_t row = 0; row < messages.size(); ++row) {
            for (const std::int32_t dep : table.deps[static_cast<std::size_t>(messages[row])]) {
                const auto sends = std::ranges::equal_range(sent, dep),
                           receives = std::ranges::equal_range(received, dep);
                for (auto before = sends.begin(); before != sends.end(); ++before) {
                    rows.deps.push_back(as_send(static_cast<std::size_t>(before - sent.begin())));
                }
                for (auto before = receives.begin(); before != receives.end(); ++before) {
                    rows.deps.push_back(as_receive(static_cast<std::size_t>(before - received.begin())));
                }
            }
            rows.rows[row].deps_end = rows.deps.size();
        }
    };
    add_deps(part.sends, sent);
    add_deps(part.receives, received);
    return part;
}

}  // namespace interlock
