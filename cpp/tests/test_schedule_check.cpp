#include "interlock/validate/schedule_check.hpp"

#include <array>
#include <random>
#include <vector>

#include "check.hpp"
#include "schedule_builder.hpp"

using namespace interlock;
using interlock::testing::broke;
using interlock::testing::Piece;
using interlock::testing::ScheduleBuilder;

namespace {

/// A star: ranks 0 to 3 around switch 4; link r goes up from rank r and link 4 + r down to it.
struct Star {
    std::vector<std::int32_t> src{0, 1, 2, 3, 4, 4, 4, 4};
    std::vector<std::int32_t> dst{4, 4, 4, 4, 0, 1, 2, 3};
    std::array<bool, 8> alive{true, true, true, true, true, true, true, true};
    std::array<bool, 5> able{false, false, false, false, true};

    [[nodiscard]] LinkTable view() const { return {src, dst, alive, able, able, 4}; }
};

Delivery check(const ScheduleBuilder& made) {
    return check_schedule(made.messages(), made.path.view(), made.exclusive(), made.order, made.pieces(), made.items(),
                          Star().view(), 1);
}

void checks_build_on_each_other() {
    ScheduleBuilder made;
    made.item(4, {0}, {2}).send({0}, {1}, {{0, 0, 4}}).send({1}, {2}, {{0, 0, 4}}, {0});
    CHECK(check(made).found.total == 0);
    CHECK((check(made).scratch_bytes == std::vector<std::int64_t>{0, 4, 0, 0}));
    made.deps.values[0] = 7;  // broken form: nothing further is looked at
    CHECK(check(made).found.total == 1 && broke(check(made).found, Rule::dependency_exists));
}

/// Numbers drawn with no regard for sense: the check refuses or finds fault, and touches nothing it should not.
void garbage_never_crashes() {
    std::mt19937 random(11);
    const auto any = [&](std::int32_t bound) {
        return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(bound)) - 1;
    };
    int num_refused = 0, num_executed = 0;
    for (int round = 0; round < 10000; ++round) {
        const bool wild = random() % 2 == 0;  // else ids are in range, so that the later checks are reached
        const auto rank = [&] { return wild ? any(6) : static_cast<std::int32_t>(random() % 4); };
        const auto set = [&](std::size_t most) {
            std::vector<std::int32_t> ranks;
            for (std::size_t k = 1 + random() % most; k > 0; --k) ranks.push_back(rank());
            return ranks;
        };
        ScheduleBuilder made;
        const std::int32_t num_items = 1 + static_cast<std::int32_t>(random() % 3);
        for (std::int32_t i = 0; i < num_items; ++i) made.item(1 + any(6) + 1, set(3), set(2));
        const std::size_t num_messages = random() % 6;
        for (std::size_t m = 0; m < num_messages; ++m) {
            std::vector<Piece> pieces;
            for (std::size_t k = random() % 3; k > 0; --k) {
                if (wild) {
                    pieces.push_back({any(num_items + 2), any(8), any(9)});
                } else {
                    const std::int32_t item = any(num_items) + 1;
                    const std::int64_t bytes = made.item_bytes[static_cast<std::size_t>(item)];
                    const std::int64_t offset = static_cast<std::int64_t>(random()) % bytes;
                    pieces.push_back({item, offset, 1 + static_cast<std::int64_t>(random()) % (bytes - offset)});
                }
            }
            std::vector<std::int32_t> after;
            if (m > 0 && random() % 2) after.push_back(wild ? any(8) : static_cast<std::int32_t>(random() % m));
            const std::uint8_t kind = random() % 2 ? kReduce : kCopy;
            made.send(set(kind == kReduce ? 2 : 1), set(kind == kReduce ? 1 : 2), pieces, after, kind,
                      wild ? any(4) : 0);
            made.exclusive_bytes.back() = random() % 8 == 0;
            made.order.back() = any(4);
            if (random() % 4 == 0) {
                made.path.offsets.pop_back();
                made.path.add({any(10), any(10)});
            }
        }
        if (random() % 3 == 0) made.barriers = {any(3), any(5)};
        try {
            num_executed += check(made).found.total == 0;
        } catch (const InvalidInput&) {
            ++num_refused;
        }
    }
    CHECK(num_refused > 0);
    CHECK(num_executed > 0);  // some of it is right by chance, so the whole way was taken
}

}  // namespace

int main() {
    checks_build_on_each_other();
    garbage_never_crashes();
    return 0;
}
