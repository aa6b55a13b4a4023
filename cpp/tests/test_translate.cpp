#include <cstdint>
#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"
#include "interlock/synthesis/translate.hpp"

using namespace interlock;

namespace {

void shifts_of_a_ring_move_zero_everywhere() {
    const std::vector<std::int32_t> shift{1, 2, 3, 0};
    const std::vector<std::int32_t> images = translations(shift, 4, 4);
    for (std::int32_t r = 0; r < 4; ++r) {
        for (std::int32_t u = 0; u < 4; ++u) CHECK(images[static_cast<std::size_t>(4 * r + u)] == (u + r) % 4);
    }
}

void a_reflection_beside_the_shifts_is_left_out() {
    const std::vector<std::int32_t> both{1, 2, 3, 0, 0, 3, 2, 1};
    CHECK(translations(both, 4, 4) == translations(std::vector<std::int32_t>{1, 2, 3, 0}, 4, 4));
    CHECK(translations(std::vector<std::int32_t>{3, 2, 1, 0}, 4, 4).empty());
}

void a_swap_before_the_shifts_is_left_out() {
    // It leaves 2 where it is, and would keep the shifts out.
    const std::vector<std::int32_t> shift{1, 2, 0}, both{1, 0, 2, 1, 2, 0};
    CHECK(translations(both, 3, 3) == translations(shift, 3, 3));
}

void switches_move_with_their_ranks() {
    // Two switches of two ranks each: 0 1 | 2 3, switches 4 5.
    const std::vector<std::int32_t> generators{1, 0, 3, 2, 4, 5, 2, 3, 0, 1, 5, 4};
    const std::vector<std::int32_t> images = translations(generators, 6, 4);
    CHECK(images.size() == 24);
    CHECK(images[18] == 3 && images[18 + 4] == 5);
}

void growth_fills_every_orbit() {
    // A ring of 7: two orbits, six ranks to reach, three slots.
    std::vector<std::int32_t> next;
    for (std::int32_t u = 0; u < 7; ++u) next.insert(next.end(), {(u + 1) % 7, (u + 6) % 7});
    const std::vector<std::int64_t> offsets{0, 1, 2}, ticks{10, 10}, latency{0, 0};
    const std::vector<std::int32_t> held{0, 1};
    const Growth growth = grow({7, next, 2, {offsets, held}, ticks, latency}, 1, 0);
    CHECK(growth.makespan_ticks == 30);
    CHECK(growth.route.size() == 6);
}

void a_slow_orbit_is_left_alone_when_the_fast_one_ends_sooner() {
    const std::vector<std::int32_t> next{1, 1, 0, 0};
    const std::vector<std::int64_t> offsets{0, 1, 2}, ticks{10, 100}, latency{0, 0};
    const std::vector<std::int32_t> held{0, 1};
    CHECK(grow({2, next, 2, {offsets, held}, ticks, latency}, 3, 0).makespan_ticks == 30);
    CHECK(grow({2, next, 2, {offsets, held}, ticks, latency}, 22, 0).makespan_ticks == 200);
}

void a_slow_orbit_serves_where_the_fast_one_does_not_lead() {
    // Two pairs: the fast orbit joins 0 1 and 2 3, only the slow one leads across.
    const std::vector<std::int32_t> next{1, 2, 0, 3, 3, 0, 2, 1};
    const std::vector<std::int64_t> offsets{0, 1, 2}, ticks{1, 100}, latency{0, 0};
    const std::vector<std::int32_t> held{0, 1};
    const Growth growth = grow({4, next, 2, {offsets, held}, ticks, latency}, 1, 0);
    CHECK(growth.route.size() == 3);
    CHECK(growth.makespan_ticks <= 202);
}

void an_unreachable_rank_is_refused() {
    const std::vector<std::int32_t> next{1, 0, 3, 2};
    const std::vector<std::int64_t> offsets{0, 1}, ticks{10}, latency{0};
    const std::vector<std::int32_t> held{0};
    CHECK_THROWS(grow({4, next, 1, {offsets, held}, ticks, latency}, 1, 0), InvalidInput);
}

}  // namespace

int main() {
    shifts_of_a_ring_move_zero_everywhere();
    a_reflection_beside_the_shifts_is_left_out();
    a_swap_before_the_shifts_is_left_out();
    switches_move_with_their_ranks();
    growth_fills_every_orbit();
    a_slow_orbit_is_left_alone_when_the_fast_one_ends_sooner();
    a_slow_orbit_serves_where_the_fast_one_does_not_lead();
    an_unreachable_rank_is_refused();
    return 0;
}
