#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier/two_tier_plan.hpp"

using namespace interlock;

namespace {

std::vector<std::int64_t> random_demand(std::size_t ranks, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::int64_t> demand(ranks * ranks);
    for (std::int64_t& bytes : demand) bytes = random() % 3 == 0 ? 0 : static_cast<std::int64_t>(random() % 100000);
    return demand;
}

/// Lanes get exactly their bytes, and every byte of every pair is assigned once.
void lanes_cover_the_tile() {
    const std::vector<std::int64_t> tile = {900, 0, 50, 10, 10, 10, 0, 5, 15};  // one hot sender
    const std::vector<Lane> all = {{0, 0, 334}, {1, 1, 333}, {2, 2, 333}}, two = {{1, 1, 600}, {2, 2, 400}};
    for (const auto& lanes : {all, two}) {
        LaneAssigner assigner(3);
        const auto loads = assigner.assign(tile.data(), 3, lanes);
        std::vector<std::vector<Parcel>> by_pair(9);
        for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
            std::int64_t sum = 0;
            for (const Parcel& parcel : loads[lane]) {
                sum += parcel.bytes;
                by_pair[static_cast<std::size_t>(3 * parcel.sender + parcel.receiver)].push_back(parcel);
            }
            CHECK(sum == lanes[lane].bytes);
            // Bytes that are there leave before those that must come, and of both those with a hop to go first.
            const auto place = [&](const Parcel& parcel) {
                return std::pair{parcel.sender != lanes[lane].out_gpu, parcel.receiver == lanes[lane].in_gpu};
            };
            CHECK(std::ranges::is_sorted(loads[lane], {}, place));
        }
        for (std::size_t pair = 0; pair < 9; ++pair) {
            std::vector<bool> seen(static_cast<std::size_t>(tile[pair]), false);
            for (const Parcel& parcel : by_pair[pair]) {
                for (std::int64_t byte = parcel.offset; byte < parcel.offset + parcel.bytes; ++byte) {
                    CHECK(!seen[static_cast<std::size_t>(byte)]);
                    seen[static_cast<std::size_t>(byte)] = true;
                }
            }
            for (const bool was_seen : seen) CHECK(was_seen);
        }
    }
    LaneAssigner assigner(3);
    CHECK_THROWS(assigner.assign(tile.data(), 3, std::vector<Lane>{{0, 0, 1}}), InvalidInput);
}

/// A lane whose receiver wants it for itself carries nothing else, and a receiver of most of a tile is served first.
void a_lane_is_for_its_own_receiver() {
    const std::vector<std::int64_t> tile = {100, 300, 50, 10, 200, 10, 20, 250, 60};  // one hot receiver
    LaneAssigner assigner(3);
    const std::vector<Lane> shared = {{0, 0, 334}, {1, 1, 333}, {2, 2, 333}};
    const auto is_for_one = [](const Parcel& parcel) { return parcel.receiver == 1; };
    auto loads = assigner.assign(tile.data(), 3, shared);
    CHECK(!std::ranges::all_of(loads[1], is_for_one) && loads[0].front().receiver == 1);
    loads = assigner.assign(tile.data(), 3, std::vector<Lane>{{0, 0, 334}, {1, 1, 333, true}, {2, 2, 333}});
    CHECK(std::ranges::all_of(loads[1], is_for_one));
    // There is less for receiver 2 than its lane holds: all of that, then others'.
    loads = assigner.assign(tile.data(), 3, std::vector<Lane>{{0, 0, 334}, {1, 1, 333}, {2, 2, 333, true}});
    std::int64_t own = 0;
    for (const Parcel& parcel : loads[2]) own += parcel.receiver == 2 ? parcel.bytes : 0;
    CHECK(own == 120);
}

/// Every wire byte leaves by its lane's NIC, and what it carries is what the segments ask for.
void rows_are_whole() {
    const std::size_t servers = 3, width = 4, ranks = 12;
    const std::vector<double> nic(ranks, 50e9);
    const std::vector<std::uint8_t> present(ranks, 1);
    const Ports ports{servers, width, nic, present, 450e9, false, 1, ScaleOut::kFlat, 1, nic, 0};
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
        const auto demand = random_demand(ranks, seed);
        for (const std::int32_t way : {1, 2}) {
            const TwoTierDecision decision = plan_two_tier(demand, {}, ports, way, 3, true);
            const Tiles tiles = sum_tiles(demand, servers, width);
            const LaneTable lanes{servers, width, {}, {}};
            const std::vector<Segment> segments = way == 1 ? whole_tiles(tiles) : decision.segments;
            const TwoTierPlan plan{
                servers, width, segments, lanes, decision.slice_bytes, way == 1 ? Pace::kBurst : Pace::kExclusive, 1};
            const ScheduleRows rows = expand_two_tier(demand, plan);
            std::int64_t wire = 0, wanted = 0;
            for (std::size_t m = 0; m < rows.src.size(); ++m) {
                if (rows.phase[m] == static_cast<std::uint8_t>(MessagePhase::kScaleOut)) wire += rows.size_bytes[m];
                for (auto d = rows.dep_offsets[m]; d < rows.dep_offsets[m + 1]; ++d) {
                    CHECK(rows.deps[static_cast<std::size_t>(d)] < static_cast<std::int32_t>(m));
                }
            }
            for (const Segment& segment : segments) wanted += segment.bytes;
            CHECK(wire == wanted);
        }
    }
}

void slices_rise_and_fall() {
    CHECK(num_slices(100, 0) == 1);
    CHECK(num_slices(100, 10) == 10);
    std::vector<std::int64_t> sizes;
    for (std::int64_t slice = 0; slice < 10; ++slice) {
        sizes.push_back(slice_start(2800, slice + 1, 10) - slice_start(2800, slice, 10));
    }
    CHECK((sizes == std::vector<std::int64_t>{100, 200, 300, 400, 400, 400, 400, 300, 200, 100}));
    CHECK(slice_start(2800, 10, 10) == 2800);
}

/// The change of one row shows, wherever it is, though only a sample is read.
void a_changed_row_shows() {
    const std::size_t servers = 16, width = 8, ranks = 128;
    const std::vector<std::int64_t> before(ranks * ranks, 1000);
    CHECK(sampled_drift(before, before, servers, width) == 0);
    for (std::size_t row = 0; row < ranks; ++row) {
        auto now = before;
        for (std::size_t peer = 0; peer < ranks; ++peer) now[row * ranks + peer] = 5000;
        CHECK(sampled_drift(before, now, servers, width) == 0.5);  // one of eight rows, up by four times
    }
    CHECK(sampled_drift(std::vector<std::int64_t>(4, 0), std::vector<std::int64_t>(4, 1), 2, 1) == 1);
    CHECK_THROWS(sampled_drift(before, std::vector<std::int64_t>(4), servers, width), InvalidInput);
}

/// Stages of an earlier demand hold exactly the bytes of the new one; tiles that were empty come after the others.
void scaled_segments_cover_the_new_demand() {
    const std::size_t servers = 3, width = 2, ranks = 6;
    auto before = random_demand(ranks, 7);
    for (std::size_t i = 0; i < 2; ++i) before[i * ranks + 2] = before[i * ranks + 3] = 0;
    const auto now = random_demand(ranks, 8);
    const std::vector<double> nic(ranks, 50e9);
    const Stages stages =
        make_stages(sum_tiles(before, servers, width), {.servers = servers, .width = width, .nic = nic}, 0);
    const Tiles tiles = sum_tiles(now, servers, width);
    std::vector<std::int64_t> covered(servers * servers, 0);
    for (const Segment& segment : scale_segments(stages.segments, tiles)) {
        const auto tile =
            static_cast<std::size_t>(segment.src_server) * servers + static_cast<std::size_t>(segment.dst_server);
        CHECK(segment.first_byte == covered[tile]);
        covered[tile] += segment.bytes;
        if (tile == 1) CHECK(segment.stage >= stages.num_stages);
    }
    for (std::size_t tile = 0; tile < covered.size(); ++tile) {
        if (tile % (servers + 1) != 0) CHECK(covered[tile] == tiles.bytes[tile]);
    }
}

}  // namespace

int main() {
    lanes_cover_the_tile();
    a_lane_is_for_its_own_receiver();
    rows_are_whole();
    slices_rise_and_fall();
    a_changed_row_shows();
    scaled_segments_cover_the_new_demand();
    return 0;
}
