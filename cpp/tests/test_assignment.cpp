#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "check.hpp"
#include "interlock/two_tier/assignment.hpp"
#include "interlock/two_tier/nic_targets.hpp"
#include "interlock/two_tier/parcels.hpp"

using namespace interlock;

namespace {

struct Case {
    std::size_t servers, width;
    std::vector<double> nic, nominal;
    std::vector<std::uint8_t> present;
    std::vector<std::int64_t> demand;
    [[nodiscard]] Ports ports(ScaleOut scale_out, bool is_mesh, std::int32_t radix = 0) const {
        return {servers, width, nic, present, 300.0, is_mesh, 1.0, scale_out, 1.0, nominal, radix};
    }
};

Case random_case(std::size_t servers, std::size_t width, std::uint32_t seed) {
    std::mt19937 random(seed);
    const std::size_t ranks = servers * width;
    Case made{servers,
              width,
              std::vector<double>(ranks, 100.0),
              std::vector<double>(ranks, 100.0),
              std::vector<std::uint8_t>(ranks, 1),
              std::vector<std::int64_t>(ranks * ranks, 0)};
    for (std::size_t pair = 0; pair < made.demand.size(); ++pair) {
        if (pair / ranks != pair % ranks && random() % 3 != 0)
            made.demand[pair] = static_cast<std::int64_t>(random() % 10000);
    }
    return made;
}

/// Two servers of two GPUs; one GPU has all: half of it takes its neighbour's NIC, and no port is above the level.
void excess_takes_the_other_nic() {
    Case made{2,
              2,
              std::vector<double>(4, 100.0),
              std::vector<double>(4, 100.0),
              std::vector<std::uint8_t>(4, 1),
              std::vector<std::int64_t>(16, 0)};
    made.demand[0 * 4 + 2] = made.demand[0 * 4 + 3] = 1000;
    const Ports ports = made.ports(ScaleOut::kFlat, false);
    const RankLoads loads = rank_loads(sum_tiles(made.demand, 2, 2));
    const Assignment own = assign_bytes(made.demand, loads, ports, {.may_move = false});
    CHECK(own.level_s == 20.0 && !own.has_hops);
    const Assignment spread = assign_bytes(made.demand, loads, ports, {});
    CHECK(spread.has_hops && spread.level_s <= 1.003 * 10.0);
    CHECK(spread.out_bytes[0] >= 990 && spread.out_bytes[0] <= 1010);
    // A move that saves less than its messages cost is not made.
    CHECK(!assign_bytes(made.demand, loads, ports, {.worth_s = 11.0}).has_hops);
    // A missing neighbour has no NIC; a dead one of its own leaves only the neighbour's.
    made.nic[1] = 0;
    CHECK(!assign_bytes(made.demand, loads, ports, {}).has_hops);
    made.nic = {0.0, 100.0, 100.0, 100.0};
    CHECK(assign_bytes(made.demand, loads, ports, {}).out_bytes[1] == 2000);
    made.nic = {0.0, 0.0, 100.0, 100.0};
    CHECK(!assign_bytes(made.demand, loads, ports, {}).is_whole);
}

/// A port inside a server sets the level, whatever NICs do: bytes to another server leave theirs all the same.
Case neighbours_and_one_far() {
    Case made{2,
              3,
              std::vector<double>(6, 100.0),
              std::vector<double>(6, 100.0),
              std::vector<std::uint8_t>(6, 1),
              std::vector<std::int64_t>(36, 0)};
    made.demand[0 * 6 + 1] = 30'000;
    made.demand[2 * 6 + 3] = 3'000;
    return made;
}

void other_ports_are_relieved_too() {
    const Case made = neighbours_and_one_far();
    const Ports ports = made.ports(ScaleOut::kFlat, false);
    const RankLoads loads = rank_loads(sum_tiles(made.demand, 2, 3));
    const auto assigned = [&](const AssignmentGoal& goal) { return assign_bytes(made.demand, loads, ports, goal); };
    const Assignment spread = assigned({.may_loop = false, .evens_out = true});
    CHECK(spread.level_s == 100.0 && spread.near.empty());
    CHECK(spread.load[ports.out(2)] < 1'600 && spread.load[ports.in(3)] < 1'600);
    // Not for less than messages cost, and only if it is asked for.
    CHECK(!assigned({.worth_s = 16.0, .may_loop = false, .evens_out = true}).has_hops);
    CHECK(!assigned({.may_loop = false}).has_hops);
}

/// What every NIC carries when all is shared out, and whose port inside has hardly any time left.
void targets_are_loads_of_an_assignment() {
    const Case made = neighbours_and_one_far();
    const Ports ports = made.ports(ScaleOut::kFlat, false);
    const AssignmentGoal goal{.may_loop = false, .shares_all = true};
    const RankLoads loads = rank_loads(sum_tiles(made.demand, 2, 3));
    const NicTargets targets = nic_targets(assign_bytes(made.demand, loads, ports, goal), ports);
    CHECK((targets.is_short == std::vector<std::uint8_t>{1, 1, 0, 0, 0, 0}));
    // Rank 1's port has no time for what its NIC would send.
    CHECK(targets.out_bytes[1] == 1 && targets.out_bytes[0] + targets.out_bytes[2] == 3'002);
    CHECK(targets.in_bytes[3] == 1'001 && targets.in_bytes[4] == 1'001 && targets.in_bytes[5] == 1'001);
}

void targets_of_nics_that_are_alike_are_none() {
    Case made = neighbours_and_one_far();
    made.demand[0 * 6 + 1] = 0;
    const AssignmentGoal goal{.may_loop = false, .shares_all = true};
    const auto targets_of = [&](const Ports& ports) {
        const RankLoads loads = rank_loads(sum_tiles(made.demand, 2, 3));
        return nic_targets(assign_bytes(made.demand, loads, ports, goal), ports);
    };
    const Ports ports = made.ports(ScaleOut::kFlat, false);
    CHECK(targets_of(ports).are_equal());
    made.nic[4] = 50.0;
    CHECK(targets_of(ports).in_bytes[4] == 601);
}

/// Whatever is assigned, every byte of every pair is on exactly one lane, and lanes that rails cannot carry have none.
void parcels_cover_every_pair() {
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
        Case made = random_case(2 + seed % 3, 1 + seed % 4, seed);
        const auto scale_out = static_cast<ScaleOut>(seed % 3);
        const std::size_t servers = made.servers, width = made.width, ranks = servers * width;
        if (width > 1 && seed % 2 == 0) made.nic[seed % ranks] = seed % 4 == 0 ? 0.0 : 7.0;
        const Ports ports = made.ports(scale_out, seed % 5 == 0, seed % 7 == 0 ? 2 : 0);
        const RankLoads loads = rank_loads(sum_tiles(made.demand, servers, width));
        const Assignment spread = assign_bytes(made.demand, loads, ports, {});
        CHECK(spread.is_whole);
        const Assignment own = assign_bytes(made.demand, loads, ports, {.may_move = false});
        CHECK(spread.level_s <= own.level_s * (1 + 1e-9));
        CHECK(spread.level_s >= floor_seconds(loads, ports) * (1 - 1e-9));
        TileParcels parcels(made.demand, spread, servers, width);
        for (std::size_t tile = 0; tile < servers * servers; ++tile) {
            const std::size_t src = tile / servers, dst = tile % servers;
            if (src == dst) continue;
            parcels.cut(src, dst);
            std::map<std::pair<std::int32_t, std::int32_t>, std::vector<Parcel>> by_pair;
            for (std::size_t lane = 0; lane < parcels.lanes().size(); ++lane) {
                const Lane& way = parcels.lanes()[lane];
                const std::size_t out = src * width + static_cast<std::size_t>(way.out_gpu);
                CHECK(ports.is_joined(out, dst * width + static_cast<std::size_t>(way.in_gpu)));
                std::int64_t sum = 0;
                for (const Parcel& parcel : parcels.loads()[lane]) {
                    sum += parcel.bytes;
                    by_pair[{parcel.sender, parcel.receiver}].push_back(parcel);
                }
                CHECK(sum == way.bytes);
            }
            for (std::size_t i = 0; i < width; ++i) {
                for (std::size_t j = 0; j < width; ++j) {
                    auto& parts = by_pair[{static_cast<std::int32_t>(i), static_cast<std::int32_t>(j)}];
                    std::ranges::sort(parts, {}, &Parcel::offset);
                    std::int64_t at = 0;
                    for (const Parcel& part : parts) {
                        CHECK(part.offset == at);
                        at += part.bytes;
                    }
                    CHECK(at == made.demand[(src * width + i) * ranks + dst * width + j]);
                }
            }
        }
    }
}

/// Inside a mesh a heavy pair goes around its link, by GPUs that are there, and by NICs where they reach each other.
void a_narrow_link_is_avoided() {
    Case made{
        1, 4, std::vector<double>(4, 0.0), std::vector<double>(4, 0.0), {1, 1, 0, 1}, std::vector<std::int64_t>(16, 0)};
    made.demand[1] = 3000;
    const RankLoads loads = rank_loads(sum_tiles(made.demand, 1, 4));
    const Assignment spread = assign_bytes(made.demand, loads, made.ports(ScaleOut::kRail, true), {});
    CHECK(spread.near.size() == 1 && spread.near[0].route.relay == 3);
    CHECK(spread.near[0].bytes >= 1490 && spread.near[0].bytes <= 1510);
    made.nic.assign(4, 100.0);
    const Assignment looped = assign_bytes(made.demand, loads, made.ports(ScaleOut::kFlat, true), {});
    CHECK(looped.level_s < 0.75 * spread.level_s);
}

}  // namespace

int main() {
    excess_takes_the_other_nic();
    other_ports_are_relieved_too();
    targets_are_loads_of_an_assignment();
    targets_of_nics_that_are_alike_are_none();
    parcels_cover_every_pair();
    a_narrow_link_is_avoided();
    return 0;
}
