#include "interlock/validate/slot_delivery.hpp"

#include <cstdint>
#include <random>
#include <vector>

#include "check.hpp"
#include "schedule_builder.hpp"

using namespace interlock;
using interlock::testing::broke;
using interlock::testing::counting;
using interlock::testing::ListedRows;

namespace {

constexpr std::uint16_t kNothing = 0xffff;

/// All-Gather of one chunk per node round a ring.
struct Ring {
    explicit Ring(std::int32_t size) : nodes(counting(static_cast<std::size_t>(size))), num_nodes(size) {
        for (const std::int32_t node : nodes) next.push_back((node + 1) % size);
        everyone.add(nodes);
        for (std::int32_t slot = 0; slot + 1 < size; ++slot)
            for (const std::int32_t node : nodes)
                table.push_back(static_cast<std::uint16_t>((node - slot + size) % size));
    }
    [[nodiscard]] ChunkGoal goal() const { return {nodes, everyone.view(), nodes, next, num_nodes}; }
    [[nodiscard]] Findings check() const { return check_slot_table<std::uint16_t>(table, goal(), false).found; }

    std::vector<std::int32_t> nodes, next;
    std::int32_t num_nodes;
    ListedRows everyone;
    std::vector<std::uint16_t> table;
};

void ring_is_valid_and_each_change_is_not() {
    CHECK(Ring(5).check().total == 0);
    CHECK(Ring(70).check().total == 0);  // more chunks than a word has bits
    for (std::size_t k = 0; k < Ring(5).table.size(); ++k) {
        Ring ring(5);
        ring.table[k] = kNothing;
        CHECK(broke(ring.check(), Rule::destination_holds));
        ring.table[k] = static_cast<std::uint16_t>((Ring(5).table[k] + 1) % 5);
        CHECK(ring.check().total > 0);
        ring.table[k] = 5;
        CHECK(broke(ring.check(), Rule::item_exists));
    }
}

void reversal_swaps_ends_and_slots() {
    Ring ring(4);
    std::vector<std::uint16_t> backwards;
    for (std::size_t slot = 3; slot-- > 0;)
        backwards.insert(backwards.end(), ring.table.begin() + 4 * static_cast<std::ptrdiff_t>(slot),
                         ring.table.begin() + 4 * static_cast<std::ptrdiff_t>(slot) + 4);
    const ChunkGoal reversed{ring.nodes, ring.everyone.view(), ring.next, ring.nodes, 4};
    CHECK(check_slot_table<std::uint16_t>(backwards, reversed, true).found.total == 0);
    CHECK(check_slot_table<std::uint16_t>(backwards, reversed, true).num_transfers == 12);
    // As a reduction, the sum of each chunk ends where the spreading of it began.
    CHECK(slot_table_roots<std::uint16_t>(backwards, ring.next, 4, 4) == ring.nodes);
    backwards[0] = kNothing;
    CHECK(slot_table_roots<std::uint16_t>(backwards, ring.next, 4, 4) != ring.nodes);
    CHECK(check_slot_table<std::uint16_t>(backwards, reversed, false).found.total > 0);
}

void random_tables_never_crash() {
    std::mt19937 random(5);
    for (int round = 0; round < 2000; ++round) {
        Ring ring(4);
        for (auto& chunk : ring.table) chunk = static_cast<std::uint16_t>(random() % 6 == 0 ? kNothing : random() % 7);
        CHECK(ring.check().total > 0);
    }
    Ring ring(4);
    ring.table.pop_back();
    CHECK_THROWS(ring.check(), InvalidInput);
    ring = Ring(4);
    ring.next[0] = 4;
    CHECK_THROWS(ring.check(), InvalidInput);
}

}  // namespace

int main() {
    ring_is_valid_and_each_change_is_not();
    reversal_swaps_ends_and_slots();
    random_tables_never_crash();
    return 0;
}
