#include "interlock/two_tier.hpp"

#include <nanobind/stl/tuple.h>

#include <algorithm>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interlock/detours.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier_plan.hpp"
#include "interlock/two_tier_program.hpp"
#include "program_columns.hpp"
#include "schedule_columns.hpp"

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

std::vector<HeavyPair> to_heavy_pairs(const Array2<std::int64_t>& table, std::size_t ranks) {
    require(table.size() == 0 || table.shape(1) == 4, "heavy_pairs must be [n, 4]: src, dst, parts, nic_bytes");
    std::vector<HeavyPair> pairs;
    for (std::size_t row = 0; row < table.shape(0); ++row) {
        const std::int64_t* at = table.data() + 4 * row;
        const auto count = static_cast<std::int64_t>(ranks);
        require(at[0] >= 0 && at[0] < count && at[1] >= 0 && at[1] < count && at[2] > 0 && at[2] < 64 && at[3] >= 0,
                "heavy_pairs: ranks, parts or bytes out of range");
        pairs.push_back({static_cast<std::int32_t>(at[0]), static_cast<std::int32_t>(at[1]),
                         static_cast<std::int32_t>(at[2]), at[3]});
    }
    return pairs;
}

Table<std::int64_t> to_table(std::span<const NearRelay> relays) {
    std::vector<std::int64_t> rows;
    for (const NearRelay& way : relays) rows.insert(rows.end(), {way.src, way.dst, way.relay, way.bytes});
    return table(std::move(rows), relays.size(), 4);
}

std::vector<NearRelay> to_near_relays(const Array2<std::int64_t>& table, std::size_t ranks) {
    require(table.size() == 0 || table.shape(1) == 4, "near_relays must be [n, 4]: src, dst, relay, bytes");
    std::vector<NearRelay> relays;
    for (std::size_t row = 0; row < table.shape(0); ++row) {
        const std::int64_t* at = table.data() + 4 * row;
        for (std::size_t end = 0; end < 3; ++end) {
            require(at[end] >= 0 && at[end] < static_cast<std::int64_t>(ranks), "near_relays: ranks out of range");
        }
        require(at[3] >= 0 && at[2] != at[0] && at[2] != at[1], "near_relays: a third rank must pass on bytes");
        relays.push_back({static_cast<std::int32_t>(at[0]), static_cast<std::int32_t>(at[1]),
                          static_cast<std::int32_t>(at[2]), at[3]});
    }
    return relays;
}

Table<std::int64_t> to_table(std::span<const HeavyPair> pairs) {
    std::vector<std::int64_t> rows;
    for (const HeavyPair& pair : pairs) rows.insert(rows.end(), {pair.src, pair.dst, pair.parts, pair.nic_bytes});
    return table(std::move(rows), pairs.size(), 4);
}

void require_whole_servers(const Array2<std::int64_t>& demand_bytes, std::int32_t servers) {
    require(servers > 0 && demand_bytes.shape(0) == demand_bytes.shape(1) &&
                demand_bytes.shape(0) % static_cast<std::size_t>(servers) == 0,
            "demand_bytes must be square, with the same number of ranks on every server");
}

LaneTable to_lanes(const Array2<std::int64_t>& demand_bytes, const Tiles& tiles, const Array2<std::int64_t>& nic_targets,
                   const Array1<std::uint8_t>& hot_ends, std::int32_t way, Pace pace, bool crosses_rails) {
    if (nic_targets.size() == 0) return {tiles.servers, tiles.width, {}, {}, {}};
    const std::size_t ranks = demand_bytes.shape(0);
    require(nic_targets.shape(0) == 3 && nic_targets.shape(1) == ranks, "nic_targets must be [3, ranks]");
    require(hot_ends.size() == 0 || hot_ends.size() == ranks, "hot_ends must be [ranks] or empty");
    const std::int64_t* row = nic_targets.data();
    const NicTargets targets{{row, row + ranks},
                             {row + ranks, row + 2 * ranks},
                             {row + 2 * ranks, row + 3 * ranks},
                             {hot_ends.data(), hot_ends.data() + hot_ends.size()}};
    if (way == static_cast<std::int32_t>(Way::kDetour)) return detour_lanes(as_span(demand_bytes), tiles, targets);
    if (crosses_rails) return cross_lanes(as_span(demand_bytes), tiles, targets);
    // Between two servers each NIC serves a single tile, and no other tile makes up for a rail with NICs of unlike rates.
    const auto& most = targets.most_bytes;
    const bool is_even = std::ranges::all_of(most, [&](std::int64_t bytes) { return bytes == most[0]; });
    const bool has_side_by_side = pace == Pace::kBurst && (tiles.servers > 2 || is_even);
    return rail_lanes(tiles, targets, has_side_by_side ? ShareRule::kServer : ShareRule::kTile);
}

/// The costs as one array, in the order of the struct's fields, then rates.scale_up.
TwoTierCosts to_costs(const Array1<double>& costs) {
    require(costs.size() == 10, "costs must be 10 numbers");
    const double* at = costs.data();
    return {at[0], at[1], at[2], at[3], static_cast<std::int32_t>(at[4]), at[5], at[6] != 0, at[7], at[8] != 0};
}

/// Bytes of tiles as the decision left them, where that is all that is needed and they are there.
Tiles to_tiles(const Array2<std::int64_t>& demand_bytes, std::size_t servers, const Array2<std::int64_t>& tile_bytes,
               std::int32_t way) {
    const std::size_t width = demand_bytes.shape(0) / servers;
    if (tile_bytes.size() == 0 || way == static_cast<std::int32_t>(Way::kDetour)) {
        return sum_tiles(as_span(demand_bytes), servers, width);
    }
    require(tile_bytes.size() == servers * servers, "tile_bytes must be [servers, servers] or empty");
    return {servers, width, {tile_bytes.data(), tile_bytes.data() + tile_bytes.size()}, {}, {}, {}};
}

/// Calls `run` with a decided plan, of which only `rank`'s part is wanted unless that is kEveryone.
template <typename Run>
auto with_plan(const Array2<std::int64_t>& demand_bytes, std::int32_t servers, const Array1<std::int64_t>& settings,
               const Array2<std::int64_t>& segments, const Array2<std::int64_t>& nic_targets,
               const Array1<std::uint8_t>& hot_ends, const Array1<std::int64_t>& slice_bytes,
               const Array2<std::int64_t>& heavy, const Array2<std::int64_t>& relays, const Array2<std::int64_t>& tile_bytes, std::int32_t rank,
               Run run) {
    const auto num_servers = static_cast<std::size_t>(servers);
    const std::size_t ranks = demand_bytes.shape(0), width = ranks / num_servers;
    require(settings.size() == 11, "settings must be 11 numbers");
    const auto setting = [&](std::size_t place) { return static_cast<std::int32_t>(settings.data()[place]); };
    const Tiles tiles = to_tiles(demand_bytes, num_servers, tile_bytes, setting(0));
    const std::vector<Segment> parts = segments.shape(0) > 0 ? to_segments(segments) : whole_tiles(tiles);
    const auto pace = static_cast<Pace>(setting(2));
    const LaneTable lanes =
        to_lanes(demand_bytes, tiles, nic_targets, hot_ends, setting(0), pace, setting(6) != 0);
    const std::vector<HeavyPair> pairs = to_heavy_pairs(heavy, ranks);
    const std::vector<NearRelay> around = to_near_relays(relays, ranks);
    require(slice_bytes.size() == num_servers, "slice_bytes must be [servers]");
    // With a single partner much is moved before the wire: what is moved after it should leave ports to that.
    const bool is_pair_burst = num_servers == 2 && setting(0) == static_cast<std::int32_t>(Way::kBurst);
    const TwoTierPlan plan{num_servers, width,      parts,      lanes, as_span(slice_bytes),
                           pace,        setting(3), setting(4), pairs, is_pair_burst, setting(7), settings.data()[8],
                           settings.data()[9], setting(10) != 0, around, rank};
    return run(plan);
}

}  // namespace

void bind_two_tier(nb::module_& m) {
    m.def(
        "plan_two_tier",
        [](const Array2<std::int64_t>& demand_bytes, std::int32_t servers, const Array1<double>& nic,
           const Array1<double>& costs, std::int32_t only, std::int32_t slices) {
            require_whole_servers(demand_bytes, servers);
            TwoTierDecision decision;
            {
                const nb::gil_scoped_release nogil;
                const auto num_servers = static_cast<std::size_t>(servers);
                const TwoTierCosts known = to_costs(costs);
                const Rates rates{num_servers, demand_bytes.shape(0) / num_servers, as_span(nic), costs.data()[9]};
                decision = plan_two_tier(as_span(demand_bytes), rates, known, only, slices);
            }
            std::vector<std::int64_t> settings = {static_cast<std::int64_t>(decision.way), decision.num_stages,
                                                  static_cast<std::int64_t>(decision.pace), decision.window,
                                                  decision.local_window, 1, decision.crosses_rails ? 1 : 0,
                                                  decision.lane_flows, decision.least_part_bytes, decision.most_port_bytes,
                                                  decision.loops_in_turn ? 1 : 0};
            std::vector<double> predicted(decision.predicted_s, decision.predicted_s + kNumWays);
            auto& targets = decision.targets;
            const std::size_t rows = targets.are_equal() ? 0 : 3, ranks = targets.out_bytes.size();
            targets.out_bytes.insert(targets.out_bytes.end(), targets.in_bytes.begin(), targets.in_bytes.end());
            targets.out_bytes.insert(targets.out_bytes.end(), targets.most_bytes.begin(), targets.most_bytes.end());
            return std::make_tuple(column(std::move(settings)), column(std::move(predicted)),
                                   to_table(std::span<const Segment>(decision.segments)),
                                   table(std::move(targets.out_bytes), rows, ranks), column(std::move(targets.hot_ends)),
                                   column(std::move(decision.slice_bytes)),
                                   to_table(std::span<const HeavyPair>(decision.heavy_pairs)),
                                   to_table(std::span<const NearRelay>(decision.near_relays)),
                                   table(std::move(decision.tile_bytes), static_cast<std::size_t>(servers),
                                         static_cast<std::size_t>(servers)));
        },
        "demand_bytes"_a.noconvert(), "servers"_a, "nic"_a.noconvert(), "costs"_a.noconvert(), "only"_a, "slices"_a,
        "Decides how to move a demand between servers: settings (way, stages, pace, window, local window, rounds, "
        "whether rails are crossed, flows of a lane, least bytes of a part, most of a port, whether loops take turns), "
        "predicted seconds by way, segments, NIC targets, hot ends, slice bytes, heavy pairs, near relays, bytes of tiles.");
    m.def(
        "expand_two_tier",
        [](const Array2<std::int64_t>& demand_bytes, std::int32_t servers, const Array1<std::int64_t>& settings,
           const Array2<std::int64_t>& segments, const Array2<std::int64_t>& nic_targets, const Array1<std::uint8_t>& hot_ends,
           const Array1<std::int64_t>& slice_bytes, const Array2<std::int64_t>& heavy,
           const Array2<std::int64_t>& relays, const Array2<std::int64_t>& tile_bytes) {
            require_whole_servers(demand_bytes, servers);
            ScheduleRows rows;
            {
                const nb::gil_scoped_release nogil;
                rows = with_plan(demand_bytes, servers, settings, segments, nic_targets, hot_ends, slice_bytes, heavy, relays,
                                 tile_bytes, kEveryone, [&](const TwoTierPlan& plan) { return expand_two_tier(as_span(demand_bytes), plan); });
            }
            return to_columns(std::move(rows));
        },
        "demand_bytes"_a.noconvert(), "servers"_a, "settings"_a.noconvert(), "segments"_a.noconvert(),
        "nic_targets"_a.noconvert(), "hot_ends"_a.noconvert(), "slice_bytes"_a.noconvert(), "heavy_pairs"_a.noconvert(),
        "near_relays"_a.noconvert(), "tile_bytes"_a.noconvert(),
        "Rows of a two-tier plan: src, dst, phase, stage, slice, size_bytes, order, offsets of deps, deps, offsets of pieces, "
        "item, offset, length. No segments stand for every tile at once.");
    m.def(
        "lower_two_tier",
        [](const Array2<std::int64_t>& demand_bytes, std::int32_t servers, const Array1<std::int64_t>& settings,
           const Array2<std::int64_t>& segments, const Array2<std::int64_t>& nic_targets, const Array1<std::uint8_t>& hot_ends,
           const Array1<std::int64_t>& slice_bytes, const Array2<std::int64_t>& heavy, const Array2<std::int64_t>& relays,
           const Array2<std::int64_t>& tile_bytes, std::int32_t rank, const Array1<std::int64_t>& input_start, const Array1<std::int64_t>& output_start,
           std::int64_t own_from, std::int64_t own_to, std::int64_t own_bytes) {
            require_whole_servers(demand_bytes, servers);
            RankProgram made;
            {
                const nb::gil_scoped_release nogil;
                require(settings.size() > 5, "settings must be whole");
                require(rank >= 0 && static_cast<std::size_t>(rank) < demand_bytes.shape(0), "the rank is out of range");
                const PairStarts starts{as_span(input_start), as_span(output_start), own_from, own_to, own_bytes};
                if (settings.data()[0] == static_cast<std::int64_t>(Way::kDirect)) {
                    made = direct_program(as_span(demand_bytes), static_cast<std::size_t>(servers), rank, starts);
                } else {
                    made = with_plan(demand_bytes, servers, settings, segments, nic_targets, hot_ends, slice_bytes, heavy, relays,
                                     tile_bytes, rank, [&](const TwoTierPlan& plan) {
                                         const auto rounds = static_cast<std::int32_t>(settings.data()[5]);
                                         return two_tier_program(as_span(demand_bytes), plan, rounds, starts);
                                     });
                }
            }
            return program_columns(std::move(made));
        },
        "demand_bytes"_a.noconvert(), "servers"_a, "settings"_a.noconvert(), "segments"_a.noconvert(),
        "nic_targets"_a.noconvert(), "hot_ends"_a.noconvert(), "slice_bytes"_a.noconvert(), "heavy_pairs"_a.noconvert(),
        "near_relays"_a.noconvert(), "tile_bytes"_a.noconvert(), "rank"_a, "input_start"_a.noconvert(), "output_start"_a.noconvert(), "own_from"_a,
        "own_to"_a, "own_bytes"_a,
        "What one rank runs of a two-tier plan, as `lower_schedule` gives it, from the tiles of its server alone. Bytes for and "
        "from each rank begin at `input_start` and `output_start`, or lie end to end where those are empty.");
    m.def(
        "sum_tiles",
        [](const Array2<std::int64_t>& demand_bytes, std::int32_t servers) {
            require_whole_servers(demand_bytes, servers);
            const auto count = static_cast<std::size_t>(servers);
            Tiles tiles;
            {
                const nb::gil_scoped_release nogil;
                tiles = sum_tiles(as_span(demand_bytes), count, demand_bytes.shape(0) / count);
            }
            return table(std::move(tiles.bytes), count, count);
        },
        "demand_bytes"_a.noconvert(), "servers"_a, "Bytes between servers, [servers, servers]; what a rank keeps is left out.");
    m.def(
        "sampled_drift",
        [](const Array2<std::int64_t>& before, const Array2<std::int64_t>& now, std::int32_t servers) {
            require_whole_servers(before, servers);
            const nb::gil_scoped_release nogil;
            const auto count = static_cast<std::size_t>(servers);
            return sampled_drift(as_span(before), as_span(now), count, before.shape(0) / count);
        },
        "before"_a.noconvert(), "now"_a.noconvert(), "servers"_a,
        "Change of what the server that changed most sends, over its bytes before, from a sample.");
    m.def(
        "scale_segments",
        [](const Array2<std::int64_t>& segments, const Array2<std::int64_t>& demand_bytes, std::int32_t servers) {
            require_whole_servers(demand_bytes, servers);
            std::vector<Segment> scaled;
            {
                const nb::gil_scoped_release nogil;
                const auto count = static_cast<std::size_t>(servers);
                const Tiles tiles = sum_tiles(as_span(demand_bytes), count, demand_bytes.shape(0) / count);
                scaled = scale_segments(to_segments(segments), tiles);
            }
            return to_table(std::span<const Segment>(scaled));
        },
        "segments"_a.noconvert(), "demand_bytes"_a.noconvert(), "servers"_a,
        "Segments of an earlier demand stretched to a new one, tile by tile.");
    m.def(
        "round_segments",
        [](const Array2<std::int64_t>& demand_bytes, std::int32_t servers, std::int32_t rounds) {
            require_whole_servers(demand_bytes, servers);
            const auto count = static_cast<std::size_t>(servers);
            const Tiles tiles = sum_tiles(as_span(demand_bytes), count, demand_bytes.shape(0) / count);
            return to_table(std::span<const Segment>(whole_tiles(tiles, rounds)));
        },
        "demand_bytes"_a.noconvert(), "servers"_a, "rounds"_a, "Every tile in equal parts, part k of all tiles in stage k.");
}

}  // namespace interlock::bindings
