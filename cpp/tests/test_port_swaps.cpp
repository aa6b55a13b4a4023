#include <vector>

#include "check.hpp"
#include "interlock/two_tier/port_swaps.hpp"

using namespace interlock;

namespace {

std::int64_t carried(const LaneLoad& load) {
    std::int64_t bytes = 0;
    for (const auto* parcels : {&load.own, &load.helped}) {
        for (const Parcel& parcel : *parcels) bytes += parcel.bytes;
    }
    return bytes;
}

LaneLoad own(std::vector<Parcel> parcels) {
    LaneLoad load;
    for (const Parcel& parcel : parcels) load.own_bytes += parcel.bytes;
    load.own = std::move(parcels);
    return load;
}

}  // namespace

int main() {
    // Two GPUs each. GPU 0 sends all its bytes to receiver 1, and GPU 1 to receiver 0: along rails everything moves
    // again.
    const std::vector<Lane> rails{{0, 0, 100}, {1, 1, 100}};
    std::vector<LaneLoad> loads{own({{0, 1, 0, 100}}), own({{1, 0, 0, 100}})};
    PortLoads ports{{0, 0, 0, 0}, {0, 0, 0, 0}};
    const TileLoads tile{rails, loads, 0, 2};
    count_moves(tile, ports);
    CHECK((ports.up == std::vector<std::int64_t>{0, 0, 100, 100} && ports.down == ports.up));

    // With 60 bytes allowed, 40 of each are swapped: they move before the wire instead.
    even_ports(tile, ports, 60);
    CHECK((ports.up == std::vector<std::int64_t>{40, 40, 60, 60} && ports.down == ports.up));
    CHECK(carried(loads[0]) == 100 && carried(loads[1]) == 100);
    CHECK(loads[0].own_bytes == 60 && loads[0].helped_bytes == 40);
    CHECK(loads[0].helped[0].sender == 1 && loads[0].helped[0].receiver == 0);
    PortLoads counted{{0, 0, 0, 0}, {0, 0, 0, 0}};
    count_moves(tile, counted);
    CHECK(counted.up == ports.up && counted.down == ports.down);

    // Nothing is swapped where that would only burden another port as much.
    std::vector<LaneLoad> same{own({{0, 1, 0, 100}}), own({{1, 0, 0, 100}})};
    PortLoads full{{100, 100, 0, 0}, {100, 100, 0, 0}};
    const TileLoads stuck{rails, same, 0, 2};
    count_moves(stuck, full);
    even_ports(stuck, full, 60);
    CHECK((full.up == std::vector<std::int64_t>{100, 100, 100, 100}) && same[0].helped.empty());

    // Nor where all ports have time.
    std::vector<LaneLoad> easy{own({{0, 1, 0, 100}}), own({{1, 0, 0, 100}})};
    PortLoads idle{{0, 0, 0, 0}, {0, 0, 0, 0}};
    const TileLoads loose{rails, easy, 0, 2};
    count_moves(loose, idle);
    even_ports(loose, idle, 100);
    CHECK(easy[0].own.size() == 1 && easy[0].helped.empty());
    return 0;
}
