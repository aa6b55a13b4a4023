#include "interlock/two_tier.hpp"

#include <nanobind/stl/tuple.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier_plan.hpp"

namespace interlock::bindings {

using namespace nb::literals;

namespace {

std::vector<Segment> to_segments(const Array2<std::int64_t>& table) {
    require(table.shape(1) == 5, "segments must be [n, 5]: src_server, dst_server, stage, first_byte, bytes");
    std::vector<Segment> segments;
    segments.reserve(table.shape(0));
    for (std::size_t row = 0; row < table.shape(0); ++row) {
        const std::int64_t* at = table.data() + 5 * row;
        for (int column = 0; column < 3; ++column) {
            require(at[column] >= 0 && at[column] < (1LL << 31), "segments: servers and stages must fit 31 bits");
        }
        segments.push_back({static_cast<std::int32_t>(at[0]), static_cast<std::int32_t>(at[1]),
                            static_cast<std::int32_t>(at[2]), at[3], at[4]});
    }
    return segments;
}

Table<std::int64_t> to_table(std::span<const Segment> segments) {
    std::vector<std::int64_t> rows;
    rows.reserve(5 * segments.size());
    for (const Segment& s : segments) rows.insert(rows.end(), {s.src_server, s.dst_server, s.stage, s.first_byte, s.bytes});
    return table(std::move(rows), segments.size(), 5);
}

auto to_columns(ScheduleRows&& rows) {
    return std::make_tuple(column(std::move(rows.src)), column(std::move(rows.dst)), column(std::move(rows.phase)),
                           column(std::move(rows.stage)), column(std::move(rows.slice)), column(std::move(rows.size_bytes)),
                           column(std::move(rows.order)), column(std::move(rows.dep_offsets)), column(std::move(rows.deps)),
                           column(std::move(rows.piece_offsets)), column(std::move(rows.item)),
                           column(std::move(rows.offset)), column(std::move(rows.length)));
}

/// The costs as one array, in the order of the struct's fields, then rates.scale_up.
TwoTierCosts to_costs(const Array1<double>& costs) {
    require(costs.size() == 9, "costs must be 9 numbers");
    const double* at = costs.data();
    return {at[0], at[1], at[2], at[3], static_cast<std::int32_t>(at[4]), at[5], at[6] != 0, at[7]};
}

}  // namespace

void bind_two_tier(nb::module_& m) {
    m.def(
        "plan_two_tier",
        [](const Array2<std::int64_t>& demand_bytes, std::int32_t servers, const Array1<double>& nic,
           const Array1<double>& costs, std::int32_t only, std::int32_t slices) {
            require(servers > 0 && demand_bytes.shape(0) == demand_bytes.shape(1) &&
                        demand_bytes.shape(0) % static_cast<std::size_t>(servers) == 0,
                    "demand_bytes must be square, with the same number of ranks on every server");
            TwoTierDecision decision;
            {
                const nb::gil_scoped_release nogil;
                const auto num_servers = static_cast<std::size_t>(servers);
                const Rates rates{num_servers, demand_bytes.shape(0) / num_servers, as_span(nic), costs.data()[8]};
                decision = plan_two_tier(as_span(demand_bytes), rates, to_costs(costs), only, slices);
            }
            std::vector<double> predicted(decision.predicted_s, decision.predicted_s + kNumWays);
            auto& targets = decision.targets;
            const std::size_t rows = targets.are_equal() ? 0 : 2, ranks = targets.out_bytes.size();
            targets.out_bytes.insert(targets.out_bytes.end(), targets.in_bytes.begin(), targets.in_bytes.end());
            return std::make_tuple(static_cast<std::int32_t>(decision.way), decision.num_stages, column(std::move(predicted)),
                                  to_table(decision.segments), table(std::move(targets.out_bytes), rows, ranks),
                                  column(std::move(targets.is_hot)), column(std::move(decision.slice_bytes)));
        },
        "demand_bytes"_a.noconvert(), "servers"_a, "nic"_a.noconvert(), "costs"_a.noconvert(), "only"_a, "slices"_a,
        "Decides how to move a demand between servers: (way, stages, predicted seconds by way, segments, NIC targets, "
        "hot receivers, slice bytes).");
    m.def(
        "expand_two_tier",
        [](const Array2<std::int64_t>& demand_bytes, std::int32_t servers, const Array2<std::int64_t>& segments,
           const Array2<std::int64_t>& nic_targets, const Array1<std::uint8_t>& is_hot,
           const Array1<std::int64_t>& slice_bytes, std::int32_t pace, std::int32_t window) {
            ScheduleRows rows;
            {
                const nb::gil_scoped_release nogil;
                const auto num_servers = static_cast<std::size_t>(servers);
                const std::size_t ranks = demand_bytes.shape(0), width = ranks / num_servers;
                const Tiles tiles = sum_tiles(as_span(demand_bytes), num_servers, width);
                const std::vector<Segment> parts = segments.shape(0) > 0 ? to_segments(segments) : whole_tiles(tiles);
                LaneTable lanes{num_servers, width, {}, {}, {}};
                if (nic_targets.size() > 0) {
                    require(nic_targets.shape(0) == 2 && nic_targets.shape(1) == ranks, "nic_targets must be [2, ranks]");
                    const std::int64_t* out = nic_targets.data();
                    const NicTargets targets{
                        {out, out + ranks}, {out + ranks, out + 2 * ranks}, {is_hot.data(), is_hot.data() + is_hot.size()}};
                    lanes = rail_lanes(tiles, targets, pace == 0 ? ShareRule::kServer : ShareRule::kTile);
                }
                require(slice_bytes.size() == num_servers, "slice_bytes must be [servers]");
                require(pace >= 0 && pace <= 2, "pace must be 0, 1 or 2");
                const TwoTierPlan plan{num_servers, width,  parts, lanes, as_span(slice_bytes), static_cast<Pace>(pace),
                                       window};
                rows = expand_two_tier(as_span(demand_bytes), plan);
            }
            return to_columns(std::move(rows));
        },
        "demand_bytes"_a.noconvert(), "servers"_a, "segments"_a.noconvert(), "nic_targets"_a.noconvert(),
        "is_hot"_a.noconvert(), "slice_bytes"_a.noconvert(), "pace"_a, "window"_a,
        "Rows of a two-tier plan: src, dst, phase, stage, slice, size_bytes, order, offsets of deps, deps, offsets of pieces, "
        "item, offset, length. No segments stand for every tile at once.");
}

}  // namespace interlock::bindings
