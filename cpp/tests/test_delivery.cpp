#include "interlock/validate/delivery.hpp"

#include <cstdint>
#include <vector>

#include "check.hpp"
#include "schedule_builder.hpp"

using namespace interlock;
using interlock::testing::broke;
using interlock::testing::counting;
using interlock::testing::ScheduleBuilder;

namespace {

Delivery deliver(const ScheduleBuilder& made) {
    return check_delivery(made.messages(), made.pieces(), made.items(), counting(made.size()), {}, 1);
}

void relayed_halves_meet() {
    ScheduleBuilder made;
    made.item(10, {0}, {3});
    made.send({0}, {1}, {{0, 0, 4}}).send({0}, {2}, {{0, 4, 6}});
    made.send({1}, {3}, {{0, 0, 4}}, {0}).send({2}, {3}, {{0, 4, 6}}, {1});
    CHECK(deliver(made).found.total == 0);
    made.piece_length[2] = 3;  // one byte short
    const Findings found = deliver(made).found;
    CHECK(found.total == 1 && broke(found, Rule::destination_holds));
    CHECK(found.first_byte[0] == 3 && found.end_byte[0] == 4 && found.rank[0] == 3);
}

void barrier_counts_as_waiting() {
    ScheduleBuilder made;
    made.item(4, {0}, {2}).send({0}, {1}, {{0, 0, 4}}).send({1}, {2}, {{0, 0, 4}}, {}, kCopy, 1);
    CHECK(broke(deliver(made).found, Rule::ordered_after_arrival));
    made.barriers = {1};
    CHECK(deliver(made).found.total == 0);
}

void counting_contributions_is_not_enough() {
    ScheduleBuilder made;
    made.item(4, {0, 1, 2}, {3});
    made.send({0}, {3}, {{0, 0, 4}}, {}, kReduce)
        .send({1}, {3}, {{0, 0, 4}}, {}, kReduce)
        .send({2}, {3}, {{0, 0, 4}}, {}, kReduce);
    CHECK(deliver(made).found.total == 0);
    made.src.values[2] = 1;  // twice rank 1, never rank 2
    CHECK(broke(deliver(made).found, Rule::contributes_once));
    CHECK(broke(deliver(made).found, Rule::reduction_complete));
}

/// Every rank adds to its neighbour's partial sum, rank after rank, ending at rank 0.
ScheduleBuilder chain(std::int32_t num_ranks) {
    ScheduleBuilder made;
    made.num_ranks = num_ranks;
    made.item(4, counting(static_cast<std::size_t>(num_ranks)), {0});
    for (std::int32_t rank = num_ranks - 1; rank > 0; --rank) {
        const auto before = static_cast<std::int32_t>(made.size()) - 1;
        made.send({rank}, {rank - 1}, {{0, 0, 4}}, before < 0 ? std::vector<std::int32_t>{} : std::vector{before},
                  kReduce);
    }
    return made;
}

void large_sums_use_fingerprints() {
    auto exact = chain(1024);
    CHECK(deliver(exact).found.total == 0 && !deliver(exact).used_fingerprints);
    auto large = chain(1025);
    CHECK(deliver(large).found.total == 0 && deliver(large).used_fingerprints);
    // The last rank's contribution is replaced by a second one of rank 5: the number of contributions is right.
    large.src.values[0] = 5;
    CHECK(broke(deliver(large).found, Rule::reduction_complete));
}

void exchange_in_place_is_a_race() {
    ScheduleBuilder made;
    made.item(4, {0, 1}, {0, 1});
    made.send({0}, {1}, {{0, 0, 4}}, {}, kReduce).send({1}, {0}, {{0, 0, 4}}, {}, kReduce);
    CHECK(deliver(made).found.total > 0);
}

void overlapping_pieces_cannot_make_the_check_quadratic() {
    // Prefixes of every length, all sent to rank 1: 20,000 pieces cover 200 million (piece, segment) pairs.
    ScheduleBuilder made;
    made.item(20000, {0}, {1});
    for (std::int32_t k = 0; k < 20000; ++k) made.send({0}, {1}, {{0, 0, k + 1}});
    CHECK(broke(deliver(made).found, Rule::within_budget));
}

void long_ways_between_messages_cannot_make_the_check_quadratic() {
    // 2,000 sums reach rank 0 after its bytes were read, each waiting for the reader through 100,000 other messages.
    constexpr std::int32_t kSums = 2000, kWay = 100000;
    ScheduleBuilder made;
    made.num_ranks = kSums + 1;
    made.item(1, counting(kSums), {0});
    made.send({0}, {kSums}, {{0, 0, 1}});
    for (std::int32_t k = 0; k < kWay; ++k) made.send({1}, {2}, {}, {k});
    CHECK(deliver(ScheduleBuilder(made).send({1}, {0}, {{0, 0, 1}}, {kWay}, kReduce)).found.total == 1);  // incomplete
    for (std::int32_t rank = 1; rank < kSums; ++rank) made.send({rank}, {0}, {{0, 0, 1}}, {kWay}, kReduce);
    const Findings found = deliver(made).found;
    CHECK(found.total == 1 && broke(found, Rule::within_budget));
}

void chunks_that_travel_together_are_each_judged() {
    // The second item goes where the first goes but has to be elsewhere too.
    ScheduleBuilder made;
    made.item(4, {0}, {1}).item(4, {0}, {1}).item(4, {0}, {1, 2}).item(4, {3}, {1});
    made.send({0}, {1}, {{0, 0, 4}, {1, 0, 4}, {2, 0, 4}, {3, 0, 4}});
    const Findings found = deliver(made).found;
    CHECK((found.item == std::vector<std::int32_t>{2, 3}));
    CHECK(broke(found, Rule::destination_holds) && broke(found, Rule::held_before_sent));
}

void bad_tables_are_refused() {
    ScheduleBuilder made;
    made.item(4, {0}, {1}).send({0}, {1}, {{0, 0, 5}});
    CHECK_THROWS(deliver(made), InvalidInput);
    made = ScheduleBuilder();
    made.item(4, {0}, {1}).send({0}, {7}, {{0, 0, 4}});
    CHECK_THROWS(deliver(made), InvalidInput);
    made = ScheduleBuilder();
    made.item(4, {}, {1});
    CHECK_THROWS(deliver(made), InvalidInput);
    made = ScheduleBuilder();
    made.item(4, {0}, {1}).send({0}, {1}, {{0, 0, 4}}).send({1}, {2}, {{0, 0, 4}}, {0});
    const std::vector<std::int32_t> twice{0, 0};
    CHECK_THROWS(check_delivery(made.messages(), made.pieces(), made.items(), twice, {}, 1), InvalidInput);
}

}  // namespace

int main() {
    relayed_halves_meet();
    barrier_counts_as_waiting();
    counting_contributions_is_not_enough();
    large_sums_use_fingerprints();
    exchange_in_place_is_a_race();
    overlapping_pieces_cannot_make_the_check_quadratic();
    long_ways_between_messages_cannot_make_the_check_quadratic();
    chunks_that_travel_together_are_each_judged();
    bad_tables_are_refused();
    return 0;
}
