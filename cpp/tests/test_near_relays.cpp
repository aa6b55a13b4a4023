#include <cstdint>
#include <vector>

#include "check.hpp"
#include "interlock/two_tier/near_relays.hpp"
#include "interlock/two_tier/tiles.hpp"

using namespace interlock;

int main() {
    // One server of four GPUs at 3 bytes per second each, 1 per link; GPU 0 has 300 bytes for GPU 1 and nobody else any.
    const std::size_t width = 4;
    const std::vector<double> nic(width, 0.0);
    const std::vector<std::uint8_t> all(width, 1);
    const Rates rates{1, width, nic, 3.0};
    std::vector<std::int64_t> demand(width * width, 0);
    demand[1] = 300;
    const Tiles tiles = sum_tiles(demand, 1, width);
    const RankLoads loads = rank_loads(tiles);

    // A third of it goes straight, a third each way around.
    const auto relays = near_relays(demand, loads, rates, 100.0, 1, {}, all);
    CHECK(relays.size() == 2);
    for (const NearRelay& way : relays) {
        CHECK(way.src == 0 && way.dst == 1 && (way.relay == 2 || way.relay == 3));
        CHECK(way.bytes >= 95 && way.bytes <= 105);
    }
    // Nothing where there is time, where it is not worth the messages, or where NICs take the bytes.
    CHECK(near_relays(demand, loads, rates, 300.0, 1, {}, all).empty());
    CHECK(near_relays(demand, loads, rates, 100.0, 200, {}, all).empty());
    const std::vector<HeavyPair> pairs{{0, 1, 1, 220}};
    CHECK(near_relays(demand, loads, rates, 100.0, 1, pairs, all).empty());
    // A missing GPU passes nothing on.
    const std::vector<std::uint8_t> few{1, 1, 0, 1};
    for (const NearRelay& way : near_relays(demand, loads, rates, 100.0, 1, {}, few)) CHECK(way.relay == 3);
    CHECK(near_relays(demand, loads, rates, 100.0, 1, {}, std::vector<std::uint8_t>{1, 1, 0, 0}).empty());
    return 0;
}
