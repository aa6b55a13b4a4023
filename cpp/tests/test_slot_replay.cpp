#include <cstdint>
#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"
#include "interlock/synthesis/slot_replay.hpp"

using interlock::replay_slots;

namespace {

constexpr std::uint16_t kRest = 0xFFFF;
const std::vector<std::int32_t> kSrc{0, 1}, kDst{1, 2};  // a line 0 -> 1 -> 2

void a_chunk_waits_for_its_arrival() {
    const std::vector<std::uint16_t> table{0, kRest, kRest, 0};
    CHECK(replay_slots<std::uint16_t>(table, kSrc, kDst, 3, 1) == 2);
}

void idle_slots_are_not_waited_for() {
    const std::vector<std::uint16_t> table{kRest, kRest, 0, kRest, kRest, kRest, kRest, 0};
    CHECK(replay_slots<std::uint16_t>(table, kSrc, kDst, 3, 1) == 2);
}

void a_sum_waits_for_all_that_is_added() {
    // 0 and 2 send to 1, which sends on to 3; 2 sends something else first.
    const std::vector<std::int32_t> src{0, 2, 1}, dst{1, 1, 3};
    const std::vector<std::uint16_t> table{0, 1, kRest, kRest, 0, kRest, kRest, kRest, 0};
    CHECK(replay_slots<std::uint16_t>(table, src, dst, 4, 2) == 3);
}

void unknown_chunks_are_refused() {
    const std::vector<std::uint16_t> table{5, kRest};
    CHECK_THROWS(replay_slots<std::uint16_t>(table, kSrc, kDst, 3, 1), interlock::InvalidInput);
}

}  // namespace

int main() {
    a_chunk_waits_for_its_arrival();
    idle_slots_are_not_waited_for();
    a_sum_waits_for_all_that_is_added();
    unknown_chunks_are_refused();
    return 0;
}
