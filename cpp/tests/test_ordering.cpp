#include "interlock/validate/ordering.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "check.hpp"
#include "schedule_builder.hpp"

using namespace interlock;
using interlock::testing::broke;
using interlock::testing::counting;
using interlock::testing::ListedRows;
using interlock::testing::ScheduleBuilder;

namespace {

struct Made : ScheduleBuilder {
    ListedRows links;

    void message(std::vector<std::int32_t> after, std::int32_t in_stage = 0, std::int32_t link = -1,
                 std::int64_t place = 0) {
        send({0}, {1}, {}, after, kCopy, in_stage);
        links.add(link >= 0 ? std::vector<std::int32_t>{link} : std::vector<std::int32_t>{});
        exclusive_bytes.back() = link >= 0;
        order.back() = place;
    }
    [[nodiscard]] Ordering run() const { return order_messages(messages(), {links.view(), exclusive(), order, 4}); }
};

void order_already_right_is_kept() {
    Made made;
    made.message({});
    made.message({0});
    made.message({0, 1});
    CHECK(made.run().sequence == counting(3));
}

void later_rows_may_come_first() {
    Made made;
    made.message({2});
    made.message({0});
    made.message({});
    CHECK((made.run().sequence == std::vector<std::int32_t>{2, 0, 1}));
}

void barriers_hold_stages_apart() {
    Made made;
    made.message({}, 5);
    made.message({}, 0);
    made.message({}, 3);
    made.barriers = {2, 3, 5, 9};
    CHECK((made.run().sequence == std::vector<std::int32_t>{1, 2, 0}));
    made.barriers = {-4};
    CHECK(made.run().sequence == counting(3));
}

void cycles_are_found_through_every_kind_of_edge() {
    Made by_deps;
    by_deps.message({1});
    by_deps.message({2});
    by_deps.message({0});
    by_deps.message({0});
    CHECK(by_deps.run().sequence.empty());
    CHECK(by_deps.run().found.message.front() != 3);  // it waits for a cycle but is not on one
    Made by_link;
    by_link.message({1}, 0, 2, 0);
    by_link.message({}, 0, 2, 1);
    CHECK(broke(by_link.run().found, Rule::acyclic));
    Made by_barrier;
    by_barrier.message({1}, 0);
    by_barrier.message({}, 1);
    CHECK(by_barrier.run().found.total == 0);
    by_barrier.barriers = {1};
    CHECK(broke(by_barrier.run().found, Rule::acyclic));
    Made itself;
    itself.message({0});
    CHECK(broke(itself.run().found, Rule::acyclic));
}

void link_orders_give_predecessors() {
    Made made;
    made.message({}, 0, 1, 30);
    made.message({}, 0, 1, 10);
    made.message({}, 0, 1, 20);
    made.message({}, 0, 0, 5);
    const Ordering result = made.run();
    CHECK((result.previous_on_link == std::vector<std::int32_t>{2, -1, 1, -1}));
    CHECK((result.sequence == std::vector<std::int32_t>{1, 3, 2, 0}));
    made.order[2] = 10;
    CHECK(broke(made.run().found, Rule::link_order));
    made.order[2] = 20;
    made.exclusive_bytes[0] = 0;
    CHECK(broke(made.run().found, Rule::exclusive_link));
}

/// Random graphs: the sequence honours every edge, or there is a cycle.
void random_graphs_are_sorted() {
    std::mt19937 random(7);
    for (int round = 0; round < 300; ++round) {
        Made made;
        const std::size_t count = 1 + random() % 30;
        const auto hidden = [&] {
            auto ids = counting(count);
            std::shuffle(ids.begin(), ids.end(), random);
            return ids;
        }();
        for (std::size_t m = 0; m < count; ++m) {
            std::vector<std::int32_t> after;
            for (std::size_t k = 0; k < count; ++k)
                if (hidden[k] < hidden[m] && random() % 4 == 0) after.push_back(static_cast<std::int32_t>(k));
            made.message(after, hidden[m] / 5, random() % 2 ? static_cast<std::int32_t>(random() % 4) : -1, hidden[m]);
        }
        if (random() % 2) made.barriers = {1, 3};
        const Ordering result = made.run();
        CHECK(result.found.total == 0 && result.sequence.size() == count);
        std::vector<std::size_t> place(count);
        for (std::size_t k = 0; k < count; ++k) place[static_cast<std::size_t>(result.sequence[k])] = k;
        for (std::size_t m = 0; m < count; ++m) {
            for (const std::int32_t before : made.deps.view()[m])
                CHECK(place[static_cast<std::size_t>(before)] < place[m]);
            for (std::size_t k = 0; k < count; ++k)
                for (const std::int32_t barrier : made.barriers)
                    if (made.stage[k] < barrier && barrier <= made.stage[m]) CHECK(place[k] < place[m]);
        }
    }
}

void bad_ids_are_refused() {
    Made made;
    made.message({3});
    CHECK_THROWS(made.run(), InvalidInput);
    Made link;
    link.message({}, 0, 4);
    CHECK_THROWS(link.run(), InvalidInput);
}

}  // namespace

int main() {
    order_already_right_is_kept();
    later_rows_may_come_first();
    barriers_hold_stages_apart();
    cycles_are_found_through_every_kind_of_edge();
    link_orders_give_predecessors();
    random_graphs_are_sorted();
    bad_ids_are_refused();
    return 0;
}
