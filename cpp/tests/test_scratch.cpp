#include "interlock/validate/scratch.hpp"

#include <vector>

#include "check.hpp"
#include "schedule_builder.hpp"

using namespace interlock;
using interlock::testing::ScheduleBuilder;

namespace {

ScratchSpans spans_of(const ScheduleBuilder& made) {
    const MessageTable messages = made.messages();
    return scratch_spans({messages.src, messages.dst, messages.stage}, made.pieces(), made.items());
}

void only_relays_keep_scratch() {
    ScheduleBuilder made;
    made.item(10, {0}, {3}).send({0}, {1}, {{0, 0, 10}}, {}, kCopy, 2);
    made.send({1}, {3}, {{0, 0, 4}}, {0}, kCopy, 3).send({1}, {3}, {{0, 4, 6}}, {0}, kCopy, 7);
    const ScratchSpans spans = spans_of(made);
    CHECK((spans.rank == std::vector<std::int32_t>{1, 1}));
    CHECK((spans.first_byte == std::vector<std::int64_t>{0, 4}));
    CHECK((spans.end_byte == std::vector<std::int64_t>{4, 10}));
    CHECK((spans.first_stage == std::vector<std::int32_t>{2, 2}));
    CHECK((spans.last_stage == std::vector<std::int32_t>{3, 7}));
    CHECK((spans.high_water(4) == std::vector<std::int64_t>{0, 10, 0, 0}));
}

void rows_may_be_in_any_order() {
    ScheduleBuilder made;
    made.item(10, {0}, {3}).send({1}, {3}, {{0, 0, 10}}, {1}, kCopy, 5).send({0}, {1}, {{0, 0, 10}}, {}, kCopy, 2);
    CHECK((spans_of(made).last_stage == std::vector<std::int32_t>{5}));
}

void shared_sets_serve_every_item() {
    ScheduleBuilder made;
    made.item(4, {0}, {3}).item(6, {0}, {3});
    made.contributors = {{0, 1}, {0}};
    made.destinations = {{0, 1}, {3}};
    made.send({0}, {3}, {{0, 0, 4}}).send({0}, {2}, {{1, 0, 6}}).send({2}, {3}, {{1, 0, 6}}, {1});
    CHECK((spans_of(made).item == std::vector<std::int32_t>{1}));
    CHECK((spans_of(made).high_water(4) == std::vector<std::int64_t>{0, 0, 6, 0}));
}

void pieces_outside_their_items_are_refused() {
    ScheduleBuilder made;
    made.item(4, {0}, {3}).send({0}, {3}, {{0, 0, 5}});
    CHECK_THROWS(spans_of(made), InvalidInput);
}

}  // namespace

int main() {
    only_relays_keep_scratch();
    rows_may_be_in_any_order();
    shared_sets_serve_every_item();
    pieces_outside_their_items_are_refused();
    return 0;
}
