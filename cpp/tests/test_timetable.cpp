// Messages hold ports alone: what others wait for first, and times as a calculation by hand says.

#include <cmath>
#include <vector>

#include "check.hpp"
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
    costs_are_counted_once_each();
    waits_for_others_go();
}
