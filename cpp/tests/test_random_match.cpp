#include <cstdint>
#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"
#include "interlock/synthesis/random_match.hpp"

using namespace interlock;

namespace {

/// A ring both ways; forward links are three times as fast.
struct Ring {
    explicit Ring(std::int32_t nodes) : num_nodes(nodes) {
        for (std::int32_t node = 0; node < nodes; ++node) {
            src.insert(src.end(), {node, (node + 1) % nodes});
            dst.insert(dst.end(), {(node + 1) % nodes, node});
            ticks.insert(ticks.end(), {10, 30});
            latency.insert(latency.end(), {0, 5});
        }
    }
    [[nodiscard]] TimedLinks view() const { return {num_nodes, src, dst, ticks, latency}; }
    std::int32_t num_nodes;
    std::vector<std::int32_t> src, dst;
    std::vector<std::int64_t> ticks, latency;
};

void nothing_is_sent_before_it_is_held_nor_twice() {
    const Ring ring(7);
    const std::vector<std::int32_t> origin{0, 1, 2, 3, 4, 5, 6, 3};
    const std::vector<std::uint8_t> wanted(7, 1);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const RandomMatching made = match_randomly(ring.view(), origin, wanted, seed);
        CHECK(made.link.size() == 7 * 8 - 8);
        constexpr std::int64_t kNever = -1;
        std::vector<std::int64_t> arrival(7 * 8, kNever), free_at(ring.src.size(), 0);
        for (std::size_t chunk = 0; chunk < 8; ++chunk)
            arrival[static_cast<std::size_t>(origin[chunk]) * 8 + chunk] = 0;
        for (std::size_t i = 0; i < made.link.size(); ++i) {
            const auto link = static_cast<std::size_t>(made.link[i]), chunk = static_cast<std::size_t>(made.chunk[i]);
            const std::int64_t held = arrival[static_cast<std::size_t>(ring.src[link]) * 8 + chunk];
            CHECK(held != kNever && held <= made.start_ticks[i]);
            CHECK(free_at[link] <= made.start_ticks[i]);
            free_at[link] = made.start_ticks[i] + ring.ticks[link];
            std::int64_t& there = arrival[static_cast<std::size_t>(ring.dst[link]) * 8 + chunk];
            CHECK(there == kNever);
            there = free_at[link] + ring.latency[link];
            CHECK(there <= made.makespan_ticks);
        }
    }
}

void the_fastest_free_link_is_taken() {
    // Two links from 0 to 1: the slow one is listed first.
    const std::vector<std::int32_t> src{0, 0}, dst{1, 1}, origin{0};
    const std::vector<std::int64_t> ticks{50, 20}, latency{0, 0};
    const std::vector<std::uint8_t> wanted{0, 1};
    const RandomMatching made = match_randomly({2, src, dst, ticks, latency}, origin, wanted, 1);
    CHECK(made.link == std::vector<std::int32_t>{1});
    CHECK(made.makespan_ticks == 20);
}

void a_seed_decides_everything() {
    const Ring ring(9);
    const std::vector<std::int32_t> origin{0, 1, 2, 3, 4, 5, 6, 7, 8};
    const std::vector<std::uint8_t> wanted(9, 1);
    const RandomMatching first = match_randomly(ring.view(), origin, wanted, 4);
    CHECK(first.chunk == match_randomly(ring.view(), origin, wanted, 4).chunk);
    CHECK(first.chunk != match_randomly(ring.view(), origin, wanted, 5).chunk);
}

void those_who_do_not_want_do_not_relay() {
    const std::vector<std::int32_t> src{0, 1}, dst{1, 2}, origin{0};
    const std::vector<std::int64_t> ticks{1, 1}, latency{0, 0};
    const std::vector<std::uint8_t> wanted{1, 0, 1};
    CHECK_THROWS(match_randomly({3, src, dst, ticks, latency}, origin, wanted, 0), InvalidInput);
}

}  // namespace

int main() {
    nothing_is_sent_before_it_is_held_nor_twice();
    the_fastest_free_link_is_taken();
    a_seed_decides_everything();
    those_who_do_not_want_do_not_relay();
    return 0;
}
