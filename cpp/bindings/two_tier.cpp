#include "interlock/two_tier.hpp"

#include <nanobind/stl/tuple.h>

#include <algorithm>

#include "arrays.hpp"
#include "bindings.hpp"
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

Table<std::int64_t> to_table(std::span<const RouteBytes> routes) {
    std::vector<std::int64_t> rows;
    rows.reserve(6 * routes.size());
    for (const auto& [route, bytes] : routes) rows.insert(rows.end(), {route.from, route.to, route.out, route.in, route.relay, bytes});
    return table(std::move(rows), routes.size(), 6);
}

Table<std::int64_t> to_shares(std::vector<std::int64_t>&& bytes, std::size_t width) {
    const std::size_t rows = bytes.size() / width;
    return table(std::move(bytes), rows, width);
}

std::vector<RouteBytes> to_routes(const Array2<std::int64_t>& table, std::size_t ranks) {
    require(table.size() == 0 || table.shape(1) == 6, "routes must be [n, 6]: from, to, out, in, relay, bytes");
    std::vector<RouteBytes> routes;
    routes.reserve(table.shape(0));
    for (std::size_t row = 0; row < table.shape(0); ++row) {
        const std::int64_t* at = table.data() + 6 * row;
        for (std::size_t end = 0; end < 5; ++end) {
            require(at[end] >= (end < 2 ? 0 : -1) && at[end] < static_cast<std::int64_t>(ranks), "routes: ranks out of range");
        }
        require(at[5] >= 0 && (at[4] >= 0 || (at[2] >= 0 && at[3] >= 0)), "routes: NICs or a relay must carry bytes");
        const auto rank = [&](std::size_t column) { return static_cast<std::int32_t>(at[column]); };
        routes.push_back({{rank(0), rank(1), rank(2), rank(3), rank(4)}, at[5]});
    }
    return routes;
}

void require_whole_servers(const Array2<std::int64_t>& demand_bytes, std::int32_t servers) {
    require(servers > 0 && demand_bytes.shape(0) == demand_bytes.shape(1) &&
                demand_bytes.shape(0) % static_cast<std::size_t>(servers) == 0,
            "demand_bytes must be square, with the same number of ranks on every server");
}

NicTargets to_targets(const Array2<std::int64_t>& nic_targets, const Array1<std::uint8_t>& hot_ends, std::size_t ranks) {
    if (nic_targets.size() == 0) return {};
    require(nic_targets.shape(0) == 3 && nic_targets.shape(1) == ranks, "nic_targets must be [3, ranks]");
    require(hot_ends.size() == 0 || hot_ends.size() == ranks, "hot_ends must be [ranks] or empty");
    const std::int64_t* row = nic_targets.data();
    return {{row, row + ranks},
            {row + ranks, row + 2 * ranks},
            {row + 2 * ranks, row + 3 * ranks},
            {hot_ends.data(), hot_ends.data() + hot_ends.size()}};
}

/// The costs as one array, in the order of the struct's fields, then rates.scale_up.
TwoTierCosts to_costs(const Array1<double>& costs, const Array1<double>& losses) {
    require(costs.size() == 10 && losses.size() == 9, "costs must be 10 numbers, losses 9");
    const double* at = costs.data();
    const double* loss = losses.data();
    const Congestion congestion{at[4] > 0, {loss[0], loss[1], loss[2], loss[3]}, {loss[4], loss[5], loss[6], loss[7]}, at[5], loss[8]};
    return {at[0], at[1], at[2], at[3], static_cast<std::int32_t>(at[4]), congestion, at[6] != 0, at[7], at[8] != 0};
}

/// Bytes of tiles as the decision left them, where that is all that is needed and they are there.
Tiles to_tiles(const Array2<std::int64_t>& demand_bytes, std::size_t servers, const Array2<std::int64_t>& tile_bytes,
               std::int32_t way) {
    const std::size_t width = demand_bytes.shape(0) / servers;
    if (tile_bytes.size() == 0 || way == static_cast<std::int32_t>(Way::kDetour)) {
        return sum_tiles(as_span(demand_bytes), servers, width);
    }
    require(tile_bytes.size() == servers * servers, "tile_bytes must be [servers, servers] or empty");
    return {servers, width, {tile_bytes.data(), tile_bytes.data() + tile_bytes.size()}, {}, {}, {}, 0};
}

struct AssignmentTables {
    const Array2<std::int64_t>&out_bytes, &in_bytes, &far, &near;
};

Assignment to_assignment(const AssignmentTables& tables, std::size_t ranks) {
    const auto all = [](const Array2<std::int64_t>& table) {
        return std::vector<std::int64_t>(table.data(), table.data() + table.size());
    };
    return {all(tables.out_bytes), all(tables.in_bytes), to_routes(tables.far, ranks), to_routes(tables.near, ranks), {}, 0, 0, 0, false, true};
}

/// Calls `run` with a decided plan, of which only `rank`'s part is wanted unless that is kEveryone.
template <typename Run>
auto with_plan(const Array2<std::int64_t>& demand_bytes, std::int32_t servers, const Array1<std::int64_t>& settings,
               const Array2<std::int64_t>& segments, const Array2<std::int64_t>& nic_targets,
               const Array1<std::uint8_t>& hot_ends, const Array1<std::int64_t>& slice_bytes,
               const Array2<std::int64_t>& heavy, const Array2<std::int64_t>& relays, const Array2<std::int64_t>& tile_bytes,
               const AssignmentTables& assigned, std::int32_t rank, Run run) {
    const auto num_servers = static_cast<std::size_t>(servers);
    const std::size_t ranks = demand_bytes.shape(0), width = ranks / num_servers;
    require(settings.size() == 12 && settings.data()[11] > 0, "settings must be 12 numbers");
    const auto setting = [&](std::size_t place) { return static_cast<std::int32_t>(settings.data()[place]); };
    const Tiles tiles = to_tiles(demand_bytes, num_servers, tile_bytes, setting(0));
    const std::vector<Segment> parts = segments.shape(0) > 0 ? to_segments(segments) : whole_tiles(tiles);
    const auto pace = static_cast<Pace>(setting(2));
    const LaneTable lanes =
        lanes_of(as_span(demand_bytes), tiles, to_targets(nic_targets, hot_ends, ranks), pace, setting(6) != 0);
    const Assignment assignment = to_assignment(assigned, ranks);
    const std::vector<HeavyPair> pairs = to_heavy_pairs(heavy, ranks);
    const std::vector<NearRelay> around = to_near_relays(relays, ranks);
    require(slice_bytes.size() == num_servers, "slice_bytes must be [servers]");
    // With a single partner much is moved before the wire: what is moved after it should leave ports to that.
    const bool is_pair_burst = num_servers == 2 && setting(0) == static_cast<std::int32_t>(Way::kBurst);
    const TwoTierPlan plan{num_servers, width,      parts,      lanes, as_span(slice_bytes),
                           pace,        setting(3), setting(4), pairs, is_pair_burst, setting(7), settings.data()[8],
                           settings.data()[9], setting(10) != 0, around, settings.data()[11], &assignment, rank};
    return run(plan);
}

}  // namespace

void bind_two_tier(nb::module_& m) {
    m.def(
        "plan_two_tier",
        [](const Array2<std::int64_t>& demand_bytes, std::int32_t servers, const Array1<double>& nic,
           const Array1<double>& costs, std::int32_t only, std::int32_t slices, const Array1<std::uint8_t>& present,
           const Array1<double>& nominal_nic, double scale_up, bool is_mesh, double efficiency, std::int32_t scale_out,
           double oversubscription, std::int32_t hash_radix, std::int32_t hash_uplinks,
           std::int64_t hash_seed, const Array1<double>& losses) {
            require_whole_servers(demand_bytes, servers);
            require(nic.size() == demand_bytes.shape(0) && present.size() == nic.size() && nominal_nic.size() == nic.size(), "nic, present and nominal_nic must be [ranks]");
            TwoTierDecision decision;
            {
                const nb::gil_scoped_release nogil;
                const auto num_servers = static_cast<std::size_t>(servers);
                const TwoTierCosts known = to_costs(costs, losses);
                const Rates rates{num_servers, demand_bytes.shape(0) / num_servers, as_span(nic), costs.data()[9]};
                const Ports ports{num_servers, rates.width, as_span(nic), as_span(present), scale_up, is_mesh, efficiency,
                                  static_cast<ScaleOut>(scale_out), oversubscription, as_span(nominal_nic), hash_radix, hash_uplinks, hash_seed};
                decision = plan_two_tier(as_span(demand_bytes), rates, known, ports, only, slices);
            }
            std::vector<std::int64_t> settings = {static_cast<std::int64_t>(decision.way), decision.num_stages,
                                                  static_cast<std::int64_t>(decision.pace), decision.window,
                                                  decision.local_window, 1, decision.crosses_rails ? 1 : 0,
                                                  decision.lane_flows, decision.least_part_bytes, decision.most_port_bytes,
                                                  decision.loops_in_turn ? 1 : 0, decision.flow_bytes};
            std::vector<double> predicted(decision.predicted_s, decision.predicted_s + kNumWays);
            auto& targets = decision.targets;
            const std::size_t rates_width = demand_bytes.shape(0) / static_cast<std::size_t>(servers);
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
                                         static_cast<std::size_t>(servers)),
                                   to_shares(std::move(decision.assignment.out_bytes), rates_width),
                                   to_shares(std::move(decision.assignment.in_bytes), rates_width),
                                   to_table(std::span<const RouteBytes>(decision.assignment.far)),
                                   to_table(std::span<const RouteBytes>(decision.assignment.near)));
        },
        "demand_bytes"_a.noconvert(), "servers"_a, "nic"_a.noconvert(), "costs"_a.noconvert(), "only"_a, "slices"_a,
        "present"_a.noconvert(), "nominal_nic"_a.noconvert(), "scale_up"_a, "is_mesh"_a, "efficiency"_a, "scale_out"_a,
        "oversubscription"_a, "hash_radix"_a, "hash_uplinks"_a, "hash_seed"_a, "losses"_a.noconvert(),
        "Decides how to move a demand between servers: settings (way, stages, pace, window, local window, rounds, "
        "whether rails are crossed, flows of a lane, least bytes of a part, most of a port, whether loops take turns), "
        "predicted seconds by way, segments, NIC targets, hot ends, slice bytes, heavy pairs, near relays, bytes of tiles.");
    m.def(
        "expand_two_tier",
        [](const Array2<std::int64_t>& demand_bytes, std::int32_t servers, const Array1<std::int64_t>& settings,
           const Array2<std::int64_t>& segments, const Array2<std::int64_t>& nic_targets, const Array1<std::uint8_t>& hot_ends,
           const Array1<std::int64_t>& slice_bytes, const Array2<std::int64_t>& heavy,
           const Array2<std::int64_t>& relays, const Array2<std::int64_t>& tile_bytes, const Array2<std::int64_t>& out_bytes,
           const Array2<std::int64_t>& in_bytes, const Array2<std::int64_t>& far, const Array2<std::int64_t>& near) {
            require_whole_servers(demand_bytes, servers);
            ScheduleRows rows;
            {
                const nb::gil_scoped_release nogil;
                rows = with_plan(demand_bytes, servers, settings, segments, nic_targets, hot_ends, slice_bytes, heavy, relays,
                                 tile_bytes, {out_bytes, in_bytes, far, near}, kEveryone, [&](const TwoTierPlan& plan) { return expand_two_tier(as_span(demand_bytes), plan); });
            }
            return to_columns(std::move(rows));
        },
        "demand_bytes"_a.noconvert(), "servers"_a, "settings"_a.noconvert(), "segments"_a.noconvert(),
        "nic_targets"_a.noconvert(), "hot_ends"_a.noconvert(), "slice_bytes"_a.noconvert(), "heavy_pairs"_a.noconvert(),
        "near_relays"_a.noconvert(), "tile_bytes"_a.noconvert(),
        "out_bytes"_a.noconvert(), "in_bytes"_a.noconvert(), "far"_a.noconvert(), "near"_a.noconvert(),
        "Rows of a two-tier plan: src, dst, phase, stage, slice, size_bytes, order, offsets of deps, deps, offsets of pieces, "
        "item, offset, length. No segments stand for every tile at once.");
    m.def(
        "lower_two_tier",
        [](const Array2<std::int64_t>& demand_bytes, std::int32_t servers, const Array1<std::int64_t>& settings,
           const Array2<std::int64_t>& segments, const Array2<std::int64_t>& nic_targets, const Array1<std::uint8_t>& hot_ends,
           const Array1<std::int64_t>& slice_bytes, const Array2<std::int64_t>& heavy, const Array2<std::int64_t>& relays,
           const Array2<std::int64_t>& tile_bytes, const Array2<std::int64_t>& out_bytes, const Array2<std::int64_t>& in_bytes,
           const Array2<std::int64_t>& far, const Array2<std::int64_t>& near, std::int32_t rank, const Array1<std::int64_t>& input_start, const Array1<std::int64_t>& output_start,
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
                                     tile_bytes, {out_bytes, in_bytes, far, near}, rank, [&](const TwoTierPlan& plan) {
                                         const auto rounds = static_cast<std::int32_t>(settings.data()[5]);
                                         return two_tier_program(as_span(demand_bytes), plan, rounds, starts);
                                     });
                }
            }
            return program_columns(std::move(made));
        },
        "demand_bytes"_a.noconvert(), "servers"_a, "settings"_a.noconvert(), "segments"_a.noconvert(),
        "nic_targets"_a.noconvert(), "hot_ends"_a.noconvert(), "slice_bytes"_a.noconvert(), "heavy_pairs"_a.noconvert(),
        "near_relays"_a.noconvert(), "tile_bytes"_a.noconvert(), "out_bytes"_a.noconvert(), "in_bytes"_a.noconvert(), "far"_a.noconvert(),
        "near"_a.noconvert(), "rank"_a, "input_start"_a.noconvert(), "output_start"_a.noconvert(), "own_from"_a,
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
