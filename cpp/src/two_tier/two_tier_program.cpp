#include "interlock/two_tier/two_tier_program.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"

namespace interlock {
namespace {

/// Items as `expand_for_rank` numbers them; every peer has one, with bytes or without.
RankLayout to_layout(std::span<const std::int64_t> demand, std::size_t ranks, std::size_t rank,
                     const PairStarts& starts) {
    RankLayout layout{{}, {}, starts.own_from, starts.own_to, starts.own_bytes, true};
    layout.input.reserve(ranks);
    layout.output.reserve(ranks);
    std::int64_t sent = 0, received = 0;
    for (std::size_t peer = 0; peer < ranks; ++peer) {
        const std::int64_t out = peer == rank ? 0 : demand[rank * ranks + peer],
                           in = peer == rank ? 0 : demand[peer * ranks + rank];
        const auto item = static_cast<std::int64_t>(peer);
        layout.input.push_back({item, starts.input.empty() ? sent : starts.input[peer], out});
        layout.output.push_back(
            {static_cast<std::int64_t>(ranks) + item, starts.output.empty() ? received : starts.output[peer], in});
        sent += out;
        received += in;
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

}  // namespace

RankProgram direct_program(std::span<const std::int64_t> demand, std::size_t servers, std::int32_t rank,
                           const PairStarts& starts) {
    std::size_t ranks = 0;
    while (ranks * ranks < demand.size()) ++ranks;
    check(demand, ranks, rank, starts);
    const std::size_t own = to_size(rank), width = ranks / servers;
    RankPart part;
    const RankLayout layout = to_layout(demand, ranks, own, starts);
    for (const bool sends : {true, false}) {
        RankRows& rows = sends ? part.sends : part.receives;
        rows.rows.reserve(ranks);
        rows.pieces.reserve(ranks);
        rows.has_rounds = true;
        for (std::size_t step = 1; step < ranks; ++step) {  // in rotation: not all begin with one receiver
            const std::size_t peer = (own + (sends ? step : ranks - step)) % ranks;
            const auto& [item, start, bytes] = (sends ? layout.input : layout.output)[peer];
            if (bytes == 0) continue;
            const auto phase = peer / width == own / width ? MessagePhase::kLocal : MessagePhase::kScaleOut;
            rows.pieces.push_back({item, 0, bytes});
            rows.rows.push_back({bytes, static_cast<std::int64_t>(step), static_cast<std::int32_t>(peer), 0, 0,
                                 static_cast<std::uint8_t>(phase), 0, 0, rows.pieces.size(), 0});
        }
    }
    return lower(std::move(part), layout, {}, {});
}

RankProgram two_tier_program(std::span<const std::int64_t> demand, const TwoTierDecision& decision, std::int32_t rank,
                             const PairStarts& starts) {
    if (decision.way == Way::kDirect) return direct_program(demand, decision.servers, rank, starts);
    const std::size_t ranks = decision.servers * decision.width;
    check(demand, ranks, rank, starts);
    std::vector<std::int32_t> barriers(to_size(decision.num_rounds - 1));
    std::iota(barriers.begin(), barriers.end(), 1);
    return lower(expand_for_rank(demand, DecidedPlan(demand, decision, rank).plan()),
                 to_layout(demand, ranks, to_size(rank), starts), {}, barriers);
}

}  // namespace interlock
