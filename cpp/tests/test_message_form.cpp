#include "interlock/validate/message_form.hpp"

#include <cstdint>
#include <limits>

#include "check.hpp"
#include "schedule_builder.hpp"

using namespace interlock;
using interlock::testing::broke;
using interlock::testing::ScheduleBuilder;

namespace {

ScheduleBuilder one_message() { return ScheduleBuilder().item(8, {0}, {1}).send({0}, {1}, {{0, 0, 8}}); }

Findings form(const ScheduleBuilder& made) { return check_form(made.messages(), made.pieces(), made.items()); }

void sound_message_passes() { CHECK(form(one_message()).total == 0); }

void each_fault_is_named() {
    auto made = one_message();
    made.src.values[0] = 4;
    CHECK(broke(form(made), Rule::rank_exists));
    made = one_message();
    made.dst.values[0] = 0;
    CHECK(broke(form(made), Rule::distinct_ends));
    made = one_message();
    made.kind[0] = 3;
    CHECK(broke(form(made), Rule::known_kind));
    made = one_message();
    made.phase[0] = 6;
    CHECK(broke(form(made), Rule::known_kind));
    made = one_message();
    made.slice[0] = -1;
    CHECK(broke(form(made), Rule::stage_not_negative));
    made = one_message();
    made.piece_item[0] = 1;
    CHECK(broke(form(made), Rule::item_exists));
    made = one_message();
    made.size_bytes[0] = 7;
    CHECK(broke(form(made), Rule::size_covers_pieces));
    made = one_message().send({2}, {1}, {}, {2});
    CHECK(broke(form(made), Rule::dependency_exists));
    made = one_message();
    made.barriers = {1, 1};
    CHECK(broke(form(made), Rule::barriers_ascend));
}

void huge_numbers_do_not_wrap() {
    constexpr auto kHuge = std::numeric_limits<std::int64_t>::max();
    auto made = one_message();
    made.piece_offset[0] = kHuge;
    CHECK(broke(form(made), Rule::piece_in_item));
    made = one_message();
    made.piece_length[0] = kHuge;
    made.piece_offset[0] = kHuge;
    CHECK(broke(form(made), Rule::piece_in_item));
    // Pieces whose sum passes 2^63 are larger than any message.
    made = ScheduleBuilder().item(kHuge, {0}, {1}).send({0}, {1}, {{0, 0, 1}, {0, 0, 1}, {0, 0, 1}});
    made.piece_length.assign(3, kHuge);
    made.size_bytes[0] = kHuge;
    CHECK(broke(form(made), Rule::size_covers_pieces));
}

void tables_that_do_not_fit_together_are_refused() {
    auto made = one_message();
    made.stage.pop_back();
    CHECK_THROWS(form(made), InvalidInput);
    made = one_message();
    made.src.offsets[1] = 2;
    CHECK_THROWS(form(made), InvalidInput);
    made = one_message();
    made.contributors.values[0] = 9;
    CHECK_THROWS(form(made), InvalidInput);
    made = one_message();
    made.piece_length.clear();
    CHECK_THROWS(form(made), InvalidInput);
}

}  // namespace

int main() {
    sound_message_passes();
    each_fault_is_named();
    huge_numbers_do_not_wrap();
    tables_that_do_not_fit_together_are_refused();
    return 0;
}
