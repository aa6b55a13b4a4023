#include "interlock/two_tier_program.hpp"

#include <algorithm>
#include <numeric>

#include "interlock/errors.hpp"

namespace interlock {
namespace {

std::size_t to_size(std::int64_t value) { return static_cast<std::size_t>(value); }

/// Items are numbered src * ranks + dst.
RankLayout to_layout(std::span<const std::int64_t> demand, std::size_t ranks, std::size_t rank, const PairStarts& starts) {
    RankLayout layout{{}, {}, starts.own_from, starts.own_to, starts.own_bytes};
    layout.input.reserve(ranks);
    layout.output.reserve(ranks);
    std::int64_t sent = 0, received = 0;
    for (std::size_t peer = 0; peer < ranks; ++peer) {
        const std::size_t out = rank * ranks + peer, in = peer * ranks + rank;
        if (peer == rank) continue;
        if (demand[out] > 0) {
            const std::int64_t start = starts.input.empty() ? sent : starts.input[peer];
            layout.input.push_back({static_cast<std::int64_t>(out), start, demand[out]});
        }
        if (demand[in] > 0) {
            const std::int64_t start = starts.output.empty() ? received : starts.output[peer];
            layout.output.push_back({static_cast<std::int64_t>(in), start, demand[in]});
        }
        sent += demand[out];
        received += demand[in];
    }
    return layout;
}

void check(std::span<const std::int64_t> demand, std::size_t ranks, std::int32_t rank, const PairStarts& starts) {
    require(demand.size() == ranks * ranks, "demand_bytes must be [ranks, ranks]");
    require(rank >= 0 && to_size(rank) < ranks, "the rank is out of range");
    for (const auto& column : {starts.input, starts.output}) {
        require(column.empty() || column.size() == ranks, "where bytes begin must be [ranks] or empty");
    }
}

void add_row(RankRows& rows, std::int64_t message, std::int32_t peer, std::int64_t bytes, MessagePhase phase) {
    rows.message.push_back(message);
    rows.peer.push_back(peer);
    rows.size_bytes.push_back(bytes);
    rows.phase.push_back(static_cast<std::uint8_t>(phase));
    rows.adds.push_back(0);
}

/// The rows of one rank in one direction.
RankRows pick(const ScheduleRows& all, std::int32_t rank, bool are_sends, bool is_exclusive) {
    const auto& own = are_sends ? all.src : all.dst;
    const auto& peer = are_sends ? all.dst : all.src;
    RankRows rows;
    rows.reserve(static_cast<std::size_t>(std::ranges::count(own, rank)), all.item.size());
    for (std::size_t m = 0; m < own.size(); ++m) {
        if (own[m] != rank) continue;
        const auto phase = static_cast<MessagePhase>(all.phase[m]);
        const bool is_alone = is_exclusive && phase == MessagePhase::kScaleOut;
        add_row(rows, static_cast<std::int64_t>(m), peer[m], all.size_bytes[m], phase);
        rows.stage.push_back(all.stage[m]);
        rows.exclusive.push_back(is_alone ? 1 : 0);
        rows.place.push_back(is_alone ? all.order[m] : static_cast<std::int64_t>(m));
        for (auto p = to_size(all.piece_offsets[m]); p < to_size(all.piece_offsets[m + 1]); ++p) {
            rows.pieces.push_back({all.item[p], all.offset[p], all.length[p]});
        }
        rows.piece_offsets.push_back(static_cast<std::int64_t>(rows.pieces.size()));
        for (auto d = to_size(all.dep_offsets[m]); d < to_size(all.dep_offsets[m + 1]); ++d) rows.deps.push_back(all.deps[d]);
        rows.dep_offsets.push_back(static_cast<std::int64_t>(rows.deps.size()));
    }
    return rows;
}

}  // namespace

RankProgram direct_program(std::span<const std::int64_t> demand, std::size_t servers, std::int32_t rank,
                           const PairStarts& starts) {
    std::size_t ranks = 0;
    while (ranks * ranks < demand.size()) ++ranks;
    check(demand, ranks, rank, starts);
    const std::size_t own = to_size(rank), width = ranks / servers;
    RankRows sends, receives;
    const auto add = [&](RankRows& rows, std::size_t pair, std::size_t peer) {
        const auto item = static_cast<std::int64_t>(pair);
        if (peer == own || demand[pair] == 0) return;
        add_row(rows, item, static_cast<std::int32_t>(peer), demand[pair],
                peer / width == own / width ? MessagePhase::kLocal : MessagePhase::kScaleOut);
        rows.pieces.push_back({item, 0, demand[pair]});
        rows.piece_offsets.push_back(static_cast<std::int64_t>(rows.pieces.size()));
        rows.place.push_back(item);
    };
    for (std::size_t peer = 0; peer < ranks; ++peer) {
        add(sends, own * ranks + peer, peer);
        add(receives, peer * ranks + own, peer);
    }
    for (RankRows* rows : {&sends, &receives}) {
        rows->stage.assign(rows->size(), 0);
        rows->round.assign(rows->size(), 0);
        rows->exclusive.assign(rows->size(), 0);
        rows->dep_offsets.assign(rows->size() + 1, 0);
    }
    return lower(sends, receives, to_layout(demand, ranks, own, starts), {}, {});
}

RankProgram two_tier_program(std::span<const std::int64_t> demand, const TwoTierDecision& decision, std::int32_t rank,
                             const PairStarts& starts) {
    if (decision.way == Way::kDirect) return direct_program(demand, decision.servers, rank, starts);
    const std::size_t ranks = decision.servers * decision.width;
    check(demand, ranks, rank, starts);
    const ScheduleRows rows = expand_two_tier(demand, DecidedPlan(demand, decision, rank).plan());
    const bool is_exclusive = decision.pace == Pace::kExclusive;
    std::vector<std::int32_t> barriers(to_size(decision.num_rounds - 1));
    std::iota(barriers.begin(), barriers.end(), 1);
    return lower(pick(rows, rank, true, is_exclusive), pick(rows, rank, false, is_exclusive),
                 to_layout(demand, ranks, to_size(rank), starts), {}, barriers);
}

}  // namespace interlock
