// Messages hold ports alone: what others wait for first, and times as a calculation by hand says.

#include <cmath>
#include <vector>

#include "check.hpp"
#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier/timetable.hpp"

using namespace interlock;

namespace {

/// Two servers of two GPUs: NICs of 1 byte per second, ports inside servers of 2.
struct Network {
    std::vector<double> nic = std::vector<double>(4, 1.0);
    std::vector<std::uint8_t> present = std::vector<std::uint8_t>(4, 1);
    Ports ports;
    TwoTierCosts costs;
    Network() {
        ports.servers = ports.width = 2;
        ports.nic = ports.nominal_nic = nic;
        ports.present = present;
        ports.scale_up = 2;
    }
};

/// Rank 0 keeps 40 bytes for rank 1 in its server and gives it 20 that go on to rank 3: these leave first.
ScheduleRows stay_and_hop() {
    RowWriter writer;
    writer.add_piece(0, 0, 40);
    writer.end(0, 1, MessagePhase::kLocal);
    writer.add_piece(1, 0, 20);
    writer.end(0, 1, MessagePhase::kBalance);
    writer.add_piece(1, 0, 20);
    writer.add_dep(1);
    writer.end(1, 3, MessagePhase::kScaleOut);
    writer.add_piece(2, 0, 10);
    writer.add_dep(2);  // for its pace only: rank 0 does not get what that brings
    writer.end(0, 2, MessagePhase::kScaleOut);
    return writer.take();
}

void what_others_wait_for_goes_first() {
    const Network network;
    const Timetable made = make_timetable(stay_and_hop(), network.ports, network.costs);
    CHECK(made.turns[1] < made.turns[0]);
    CHECK(made.turns[3] < made.turns[2]);  // it waits for nothing
    CHECK(std::abs(made.seconds - 30) < 1e-9);  // 10 s for the hop, 20 s for the wire; what stays takes until then too
}

/// Rank 2 sends 12 bytes to rank 0 by NIC 1, and by NICs of rank 3 8 more, and 8 to NIC 0. Who never lets a port wait
/// takes 28 s; NIC 1 is busy for 20, and then passes on the last 8 in 4.
void ports_wait_where_that_pays() {
    const Network network;
    RowWriter writer;
    const auto leg = [&](std::int32_t item, std::int64_t bytes, std::int32_t from, std::int32_t to, MessagePhase phase) {
        writer.add_piece(item, 0, bytes);
        if (phase != MessagePhase::kBalance && from != 2) writer.add_dep(to_int32(writer.num_messages()) - 1);
        writer.end(from, to, phase);
    };
    leg(0, 8, 2, 3, MessagePhase::kBalance);
    leg(0, 8, 3, 0, MessagePhase::kScaleOut);
    leg(1, 12, 2, 1, MessagePhase::kScaleOut);
    leg(1, 12, 1, 0, MessagePhase::kRedistribute);
    leg(2, 8, 2, 3, MessagePhase::kBalance);
    leg(2, 8, 3, 1, MessagePhase::kScaleOut);
    leg(2, 8, 1, 0, MessagePhase::kRedistribute);
    CHECK(std::abs(make_timetable(writer.take(), network.ports, network.costs).seconds - 24) < 1e-9);
}

void costs_are_counted_once_each() {
    Network network;
    network.costs.message_overhead_s = 1;
    network.costs.stage_overhead_s = 100;
    network.costs.scale_up_latency_s = 1000;
    network.costs.scale_out_latency_s = 5000;
    const Timetable made = make_timetable(stay_and_hop(), network.ports, network.costs);
    // Rank 0 opens and hops: 100 + 1 + 10 + 1000. Rank 1 opens when that is there: 100 + 1 + 20 + 5000.
    CHECK(std::abs(made.seconds - (1111 + 5121)) < 1e-9);
}

void waits_for_others_go() {
    ScheduleRows rows = stay_and_hop();
    take_turns(rows, std::vector<std::int64_t>{3, 0, 2, 1});
    CHECK(rows.deps.size() == 1 && rows.deps[0] == 1);
    CHECK(rows.dep_offsets[3] == 1 && rows.dep_offsets[4] == 1);
    CHECK(rows.order[0] == 3 && rows.order[3] == 1);
    CHECK_THROWS(take_turns(rows, std::span<const std::int64_t>{}), InvalidInput);
}

}  // namespace

int main() {
    what_others_wait_for_goes_first();
    ports_wait_where_that_pays();
    costs_are_counted_once_each();
    waits_for_others_go();
}
