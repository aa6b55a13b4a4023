#include "interlock/two_tier/two_tier_expand.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interlock/errors.hpp"
#include "interlock/limits.hpp"
#include "interlock/two_tier/port_loads.hpp"
#include "interlock/two_tier/timetable.hpp"
#include "interlock/two_tier/two_tier_plan.hpp"
#include "interlock/two_tier/two_tier_program.hpp"
#include "program_columns.hpp"
#include "schedule_columns.hpp"

namespace interlock::bindings {

using namespace nb::literals;

namespace {

Table<std::int64_t> to_table(std::span<const Segment> segments) {
    std::vector<std::int64_t> rows;
    rows.reserve(5 * segments.size());
    for (const Segment& s : segments)
        rows.insert(rows.end(), {s.src_server, s.dst_server, s.stage, s.first_byte, s.bytes});
    return table(std::move(rows), segments.size(), 5);
}

Table<std::int64_t> to_table(std::span<const RouteBytes> routes) {
    std::vector<std::int64_t> rows;
    rows.reserve(6 * routes.size());
    for (const auto& [route, bytes] : routes)
        rows.insert(rows.end(), {route.from, route.to, route.out, route.in, route.relay, bytes});
    return table(std::move(rows), routes.size(), 6);
}

void require_whole_servers(const Array2<std::int64_t>& demand_bytes, std::int32_t servers) {
    require(servers > 0 && demand_bytes.shape(0) == demand_bytes.shape(1) &&
                demand_bytes.shape(0) % static_cast<std::size_t>(servers) == 0,
            "demand_bytes must be square, with the same number of ranks on every server");
}

void require_demand_of(const TwoTierDecision& decision, const Array2<std::int64_t>& demand_bytes) {
    const std::size_t ranks = decision.servers * decision.width;
    require(demand_bytes.shape(0) == ranks && demand_bytes.shape(1) == ranks,
            "demand_bytes must be [ranks, ranks], as decided for");
}

/// @param rank whose server's rows and columns alone are read; kEveryone: all are
void require_bytes(const Array2<std::int64_t>& demand_bytes, std::size_t width, std::int32_t rank) {
    const std::size_t ranks = demand_bytes.shape(0);
    const std::int64_t* bytes = demand_bytes.data();
    std::uint64_t most = 0;
    double total = 0;
    const auto add = [&](std::size_t row, std::size_t first, std::size_t last) {
        for (std::size_t column = first; column < last; ++column) {
            most |= static_cast<std::uint64_t>(bytes[row * ranks + column]);
            total += static_cast<double>(bytes[row * ranks + column]);
        }
    };
    require(rank == kEveryone || (rank >= 0 && static_cast<std::size_t>(rank) < ranks), "the rank is out of range");
    const std::size_t first = rank == kEveryone ? 0 : static_cast<std::size_t>(rank) / width * width;
    const std::size_t last = rank == kEveryone ? ranks : first + width;
    for (std::size_t row = 0; row < ranks; ++row) {
        const bool is_whole = row >= first && row < last;
        add(row, is_whole ? 0 : first, is_whole ? ranks : last);
    }
    require(most < std::uint64_t{1} << 62U && total < 0x1p62, "bytes must be at least 0 and below 2^62 in all");
}

void require_finite(std::span<const double> values, const char* rule) {
    for (const double value : values) require(value >= 0.0 && value < 1e300, rule);
}

/// A cluster as planning sees it, with arrays of its own: made once, for many demands.
struct TwoTierNetwork {
    std::size_t servers;
    std::vector<double> nic, nominal_nic;
    std::vector<std::uint8_t> present;
    TwoTierCosts costs;
    Ports ports;  // its spans are of the arrays above
};

/// What a receiver loses, as the fields of a fabric.
Congestion to_congestion(const F64& losses, std::int32_t fan_in, double reference_bytes) {
    require(losses.size() == 9, "losses must be 9 numbers");
    require_finite(as_span(losses), "losses must be finite and not negative");
    const double* loss = losses.data();
    return {fan_in > 0,
            {loss[0], loss[1], loss[2], loss[3]},
            {loss[4], loss[5], loss[6], loss[7]},
            reference_bytes,
            loss[8]};
}

template <typename T>
Column<T> copied(const std::vector<T>& values) {
    return column(std::vector<T>(values));
}

std::vector<std::int64_t> settings_of(const TwoTierDecision& decision) {
    return {static_cast<std::int64_t>(decision.servers),
            static_cast<std::int64_t>(decision.way),
            decision.num_stages,
            static_cast<std::int64_t>(decision.pace),
            decision.window,
            decision.num_rounds,
            decision.has_links ? 1 : 0,
            decision.flow_bytes,
            decision.pair_bytes,
            decision.pieces.wire,
            decision.pieces.hop,
            static_cast<std::int64_t>(decision.hop_costs.message_bytes),
            static_cast<std::int64_t>(decision.hop_costs.link_wait_bytes),
            static_cast<std::int64_t>(decision.hop_costs.nic_wait_bytes)};
}

void bind_decision(nb::module_& m) {
    nb::class_<TwoTierDecision>(m, "TwoTierDecision", "How a demand moves between servers: decided, not written out.")
        .def_prop_ro("way", [](const TwoTierDecision& self) { return static_cast<std::int32_t>(self.way); })
        .def_prop_ro("pace", [](const TwoTierDecision& self) { return static_cast<std::int32_t>(self.pace); })
        .def_ro("num_stages", &TwoTierDecision::num_stages)
        .def_ro("num_rounds", &TwoTierDecision::num_rounds, "Parts of the traffic between which scratch is emptied.")
        .def_prop_ro(
            "predicted_s",
            [](const TwoTierDecision& self) {
                return std::vector<double>(self.predicted_s, self.predicted_s + kNumWays);
            },
            "Seconds by way, infinite where one is impossible or was not considered.")
        .def_prop_ro(
            "least_s",
            [](const TwoTierDecision& self) { return std::vector<double>(self.least_s, self.least_s + kNumWays); },
            "Seconds by way that one that was left out takes at least; 0 for the others.")
        .def_prop_ro(
            "basis",
            [](const TwoTierDecision& self) {
                std::vector<std::int32_t> made;
                for (const Basis basis : self.basis) made.push_back(static_cast<std::int32_t>(basis));
                return made;
            },
            "By way, where its price comes from: 0 sums, 1 messages that were run.")
        .def(
            "segments", [](const TwoTierDecision& self) { return to_table(std::span<const Segment>(self.segments)); },
            "[n, 5] src_server, dst_server, stage, first_byte, bytes; none: all tiles at once.")
        .def(
            "slice_bytes", [](const TwoTierDecision& self) { return copied(self.slice_bytes); }, "[servers]")
        .def_prop_ro(
            "has_routes", [](const TwoTierDecision& self) { return !self.assignment.far.empty(); },
            "Whether every pair between servers has routes of its own.")
        .def_prop_ro(
            "is_timed", [](const TwoTierDecision& self) { return !self.turns.empty(); },
            "Whether every message holds its ports alone, in turn.")
        .def_prop_ro(
            "may_loop", [](const TwoTierDecision& self) { return !self.assignment.near.empty(); },
            "Whether bytes inside servers may take NICs.")
        .def(
            "columns",
            [](const TwoTierDecision& self) {
                nb::typed<nb::dict, nb::str, Column<std::int64_t>> made;
                made["settings"] = column(settings_of(self));
                made["segments"] = to_table(std::span<const Segment>(self.segments));
                made["out_target"] = copied(self.targets.out_bytes);
                made["in_target"] = copied(self.targets.in_bytes);
                made["slice_bytes"] = copied(self.slice_bytes);
                made["out_bytes"] = copied(self.assignment.out_bytes);
                made["in_bytes"] = copied(self.assignment.in_bytes);
                made["far"] = to_table(std::span<const RouteBytes>(self.assignment.far));
                made["near"] = to_table(std::span<const RouteBytes>(self.assignment.near));
                made["turns"] = copied(self.turns);
                return made;
            },
            "All that was decided, by name.")
        .def(
            "rows",
            [](const TwoTierDecision& self, const Array2<std::int64_t>& demand_bytes) {
                require_demand_of(self, demand_bytes);
                require_bytes(demand_bytes, self.width, kEveryone);
                return to_columns(without_gil([&] {
                    if (self.turns.empty()) {
                        const DecidedPlan decided(as_span(demand_bytes), self, kEveryone);
                        return expand_two_tier(as_span(demand_bytes), decided.plan());
                    }
                    ScheduleRows rows = timed_rows(as_span(demand_bytes), self, self.pieces);
                    take_turns(rows, self.turns);
                    return rows;
                }));
            },
            "demand_bytes"_exact,
            "Rows of the plan: src, dst, phase, stage, slice, size_bytes, order, offsets of deps, deps, offsets of "
            "pieces, item, "
            "offset, length.")
        .def(
            "program",
            [](const TwoTierDecision& self, const Array2<std::int64_t>& demand_bytes, std::int32_t rank,
               const std::optional<I64>& input_start, const std::optional<I64>& output_start, std::int64_t own_from,
               std::int64_t own_to, std::int64_t own_bytes) {
                require_demand_of(self, demand_bytes);
                require(own_bytes >= 0 && own_bytes <= std::int64_t{1} << 61, "own_bytes must be between 0 and 2^61");
                require_bytes(demand_bytes, self.width, rank);
                return program_columns(without_gil([&] {
                    const auto span_of = [](const auto& array) {
                        return array ? as_span(*array) : std::span<const std::int64_t>{};
                    };
                    const PairStarts starts{span_of(input_start), span_of(output_start), own_from, own_to, own_bytes};
                    return two_tier_program(as_span(demand_bytes), self, rank, starts);
                }));
            },
            "demand_bytes"_exact, "rank"_a, "input_start"_exact = nb::none(), "output_start"_exact = nb::none(),
            "own_from"_a = 0, "own_to"_a = 0, "own_bytes"_a = 0,
            "What one rank runs, as `lower_schedule` gives it, from the tiles of its server alone. Bytes for and from "
            "each rank "
            "begin at `input_start` and `output_start`, or lie end to end where those are None.")
        .def(
            "port_loads",
            [](const TwoTierDecision& self, const Array2<std::int64_t>& demand_bytes) {
                auto loads = without_gil([&] { return port_loads(as_span(demand_bytes), self); });
                return std::make_tuple(column(std::move(loads.out_bytes)), column(std::move(loads.in_bytes)),
                                       loads.take_turns);
            },
            "demand_bytes"_exact,
            "Bytes between servers that every rank's NIC sends and receives, and whether its partners take turns.")
        .def(
            "scaled",
            [](const TwoTierDecision& self, const Array2<std::int64_t>& demand_bytes) {
                require_demand_of(self, demand_bytes);
                require_bytes(demand_bytes, self.width, kEveryone);
                const nb::gil_scoped_release nogil;
                return scaled(self, as_span(demand_bytes));
            },
            "demand_bytes"_exact, "The same decisions for new traffic: shares follow it, stages are stretched to it.")
        .def(
            "in_rounds",
            [](const TwoTierDecision& self, const Array2<std::int64_t>& demand_bytes, std::int32_t rounds) {
                require_demand_of(self, demand_bytes);
                require_bytes(demand_bytes, self.width, kEveryone);
                require(rounds >= 1 && rounds <= 65'536, "rounds must be between 1 and 65536");
                TwoTierDecision made = self;
                const Tiles tiles = sum_tiles(as_span(demand_bytes), self.servers, self.width);
                made.segments = whole_tiles(tiles, rounds);
                made.num_stages = made.num_rounds = rounds;
                made.turns.clear();
                return made;
            },
            "demand_bytes"_exact, "rounds"_a,
            "Every tile in equal parts, one after the other, with a barrier between.");
}

}  // namespace

void bind_two_tier(nb::module_& m) {
    bind_decision(m);
    nb::class_<TwoTierNetwork>(m, "TwoTierNetwork", "A cluster as planning sees it.");
    m.def(
        "two_tier_network",
        [](std::int32_t servers, const F64& nic, const F64& nominal_nic, const U8& present, double scale_up,
           bool is_mesh, std::int32_t scale_out, double oversubscription, double scale_up_latency_s,
           double scale_out_latency_s, double message_overhead_s, double stage_overhead_s, std::int32_t fan_in,
           double efficiency, const F64& losses, double reference_bytes, std::int32_t hash_radix,
           std::int32_t hash_uplinks, std::int64_t hash_seed) {
            require(servers > 0 && nic.size() % static_cast<std::size_t>(servers) == 0,
                    "servers must be above 0, with as many ranks on each");
            require(present.size() == nic.size() && nominal_nic.size() == nic.size(),
                    "nic, present and nominal_nic must be [ranks]");
            require_finite(as_span(nic), "rates of NICs must be finite and not negative");
            require_finite(as_span(nominal_nic), "rates of NICs must be finite and not negative");
            const double costs[] = {scale_up_latency_s, scale_out_latency_s, message_overhead_s, stage_overhead_s,
                                    reference_bytes};
            require_finite(costs, "costs must be finite and not negative");
            require(fan_in >= 0, "fan_in must be at least 0");
            require(scale_up > 0.0 && scale_up < 1e300 && efficiency > 0.0 && efficiency <= 1.0 &&
                        oversubscription >= 1.0 && oversubscription < 1e300,
                    "scale_up must be above 0, efficiency above 0 and at most 1, oversubscription at least 1");
            require(scale_out >= 0 && scale_out <= 2 && hash_radix >= 0 && hash_uplinks >= 0 &&
                        hash_radix <= kMostNodes && hash_uplinks <= kMostNodes,
                    "scale_out must be 0, 1 or 2, hash_radix and hash_uplinks between 0 and 1,000,000");
            const auto copy = [](const auto& array) { return std::vector(array.data(), array.data() + array.size()); };
            auto made = std::make_unique<TwoTierNetwork>();
            made->servers = static_cast<std::size_t>(servers);
            made->nic = copy(nic);
            made->nominal_nic = copy(nominal_nic);
            made->present = copy(present);
            made->costs = {scale_up_latency_s,
                           scale_out_latency_s,
                           message_overhead_s,
                           stage_overhead_s,
                           fan_in,
                           to_congestion(losses, fan_in, reference_bytes)};
            made->ports = {made->servers,    nic.size() / made->servers,
                           made->nic,        made->present,
                           scale_up,         is_mesh,
                           efficiency,       static_cast<ScaleOut>(scale_out),
                           oversubscription, made->nominal_nic,
                           hash_radix,       hash_uplinks,
                           hash_seed};
            return made.release();  // Python's from here on
        },
        nb::kw_only(), "servers"_a, "nic"_exact, "nominal_nic"_exact, "present"_exact, "scale_up"_a, "is_mesh"_a,
        "scale_out"_a, "oversubscription"_a, "scale_up_latency_s"_a, "scale_out_latency_s"_a, "message_overhead_s"_a,
        "stage_overhead_s"_a, "fan_in"_a, "efficiency"_a, "losses"_exact, "reference_bytes"_a, "hash_radix"_a,
        "hash_uplinks"_a, "hash_seed"_a,
        "Rates in bytes per second, [ranks] or of one GPU; `losses` as the fields of a fabric.");
    m.def(
        "plan_two_tier",
        [](const Array2<std::int64_t>& demand_bytes, const TwoTierNetwork& network, std::int32_t only,
           std::int32_t slices, bool has_time) {
            const std::size_t ranks = network.nic.size();
            require(demand_bytes.shape(0) == ranks && demand_bytes.shape(1) == ranks,
                    "demand_bytes must be [ranks, ranks]");
            const nb::gil_scoped_release nogil;
            return plan_two_tier(as_span(demand_bytes), network.costs, network.ports, only, slices, has_time);
        },
        "demand_bytes"_exact, "network"_a, "only"_a, "slices"_a, "has_time"_a,
        "Decides how to move a demand between servers.");
    m.def(
        "direct_seconds",
        [](const Array2<std::int64_t>& demand_bytes, const TwoTierNetwork& network) {
            const std::size_t ranks = network.nic.size();
            require(demand_bytes.shape(0) == ranks && demand_bytes.shape(1) == ranks,
                    "demand_bytes must be [ranks, ranks]");
            const nb::gil_scoped_release nogil;
            const DirectPrice price = direct_price(as_span(demand_bytes), network.costs, network.ports);
            return std::make_tuple(price.direct_s, price.least_s);
        },
        "demand_bytes"_exact, "network"_a,
        "Seconds of sending every pair on its own, infinite where that cannot be, and seconds that no way takes less "
        "than.");
    m.def(
        "sum_tiles",
        [](const Array2<std::int64_t>& demand_bytes, std::int32_t servers) {
            require_whole_servers(demand_bytes, servers);
            const auto count = static_cast<std::size_t>(servers);
            auto tiles =
                without_gil([&] { return sum_tiles(as_span(demand_bytes), count, demand_bytes.shape(0) / count); });
            return table(std::move(tiles.bytes), count, count);
        },
        "demand_bytes"_exact, "servers"_a, "Bytes between servers, [servers, servers]; what a rank keeps is left out.");
    m.def(
        "sampled_drift",
        [](const Array2<std::int64_t>& before, const Array2<std::int64_t>& now, std::int32_t servers) {
            require_whole_servers(before, servers);
            require(now.shape(0) == before.shape(0) && now.shape(1) == before.shape(1),
                    "before and now must have one shape");
            const nb::gil_scoped_release nogil;
            const auto count = static_cast<std::size_t>(servers);
            return sampled_drift(as_span(before), as_span(now), count, before.shape(0) / count);
        },
        "before"_exact, "now"_exact, "servers"_a,
        "Change of what the server that changed most sends, over its bytes before, from a sample.");
}

}  // namespace interlock::bindings
