#include "interlock/validate/path_check.hpp"

#include <array>
#include <random>
#include <vector>

#include "check.hpp"
#include "schedule_builder.hpp"

using namespace interlock;
using interlock::testing::broke;
using interlock::testing::ListedRows;
using interlock::testing::ScheduleBuilder;

namespace {

/// Ranks 0, 1 under switch 4 and 2, 3 under switch 5. Links 0-3 go up, 4-7 down, 8 from 4 to 5 and 9 back; 10 is dead,
/// 11 leads from rank 1 to switch 5.
struct Graph {
    std::vector<std::int32_t> src{0, 1, 2, 3, 4, 4, 5, 5, 4, 5, 0, 1};
    std::vector<std::int32_t> dst{4, 4, 5, 5, 0, 1, 2, 3, 5, 4, 1, 5};
    std::array<bool, 12> alive{true, true, true, true, true, true, true, true, true, true, false, true};
    std::array<bool, 6> copies{false, false, false, false, true, true};
    std::array<bool, 6> adds{false, false, false, false, true, false};

    [[nodiscard]] LinkTable view() const { return {src, dst, alive, copies, adds, 4}; }
};

Findings check(const std::vector<std::int32_t>& from, const std::vector<std::int32_t>& to,
               const std::vector<std::int32_t>& links) {
    ScheduleBuilder made;
    made.send(from, to, {}, {}, from.size() > 1 ? kReduce : kCopy);
    ListedRows path;
    path.add(links);
    const Graph graph;
    return check_paths(made.messages(), path.view(), graph.view());
}

void paths_must_connect() {
    CHECK(check({0}, {1}, {0, 5}).total == 0);
    CHECK(check({0}, {2}, {0, 8, 6}).total == 0);
    CHECK(check({0}, {2}, {}).total == 0);  // the topology's own route
    CHECK(broke(check({0}, {2}, {0, 6}), Rule::path_connects));
    CHECK(broke(check({0}, {2}, {0, 8}), Rule::path_connects));
    CHECK(broke(check({0}, {2}, {8, 6}), Rule::path_connects));
    CHECK(broke(check({0}, {1}, {0, 8, 9, 5}), Rule::path_connects));     // in a circle
    CHECK(broke(check({0}, {2}, {0, 5, 1, 8, 6}), Rule::path_connects));  // through rank 1
    CHECK(broke(check({0}, {1}, {10}), Rule::link_exists));
    CHECK(broke(check({0}, {1}, {12}), Rule::link_exists));
    CHECK(broke(check({0}, {1}, {-1}), Rule::link_exists));
}

void trees_must_join_all_ends_and_nothing_else() {
    CHECK(check({0}, {1, 2, 3}, {0, 5, 8, 6, 7}).total == 0);
    CHECK(check({0}, {1, 2, 3}, {7, 6, 8, 5, 0}).total == 0);  // in any order
    CHECK(broke(check({0}, {1, 2}, {0, 5, 8, 6, 7}), Rule::tree_connects));
    CHECK(broke(check({0}, {1, 2, 3}, {0, 5, 8, 6}), Rule::tree_connects));
    CHECK(broke(check({0}, {1, 2}, {0, 5, 8, 9, 6}), Rule::tree_connects));
    CHECK(broke(check({0}, {1, 2}, {5, 6, 8, 9}), Rule::tree_connects));  // a circle away from the source
    CHECK(broke(check({0}, {1, 2}, {0, 0, 5, 8, 6}), Rule::tree_connects));
    CHECK(broke(check({0}, {1, 2}, {}), Rule::tree_connects));
    CHECK(broke(check({0}, {2, 3}, {0, 5, 11, 6, 7}), Rule::tree_connects));  // through rank 1
}

void only_able_switches_branch() {
    CHECK(check({0, 1}, {2}, {0, 1, 8, 6}).total == 0);
    CHECK(broke(check({2, 3}, {0}, {2, 3, 9, 4}), Rule::switch_able));  // switch 5 copies but does not add
    CHECK(broke(check({0, 1}, {2}, {0, 8, 6}), Rule::tree_connects));
}

void random_links_never_crash() {
    std::mt19937 random(3);
    for (int round = 0; round < 20000; ++round) {
        std::vector<std::int32_t> from, to, links;
        for (std::int32_t rank = 0; rank < 4; ++rank) (random() % 2 ? from : to).push_back(rank);
        if (from.empty() || to.empty()) continue;
        if (from.size() > 1 && to.size() > 1) (random() % 2 ? from : to).resize(1);
        for (std::size_t k = random() % 8; k > 0; --k) links.push_back(static_cast<std::int32_t>(random() % 14) - 1);
        CHECK(check(from, to, links).total <= 1);
    }
}

void bad_tables_are_refused() {
    ScheduleBuilder made;
    made.send({0}, {1}, {});
    ListedRows path;
    path.add({0});
    Graph graph;
    graph.dst[0] = 6;
    CHECK_THROWS(check_paths(made.messages(), path.view(), graph.view()), InvalidInput);
    path.offsets = {0, 2};
    CHECK_THROWS(check_paths(made.messages(), path.view(), Graph().view()), InvalidInput);
}

}  // namespace

int main() {
    paths_must_connect();
    trees_must_join_all_ends_and_nothing_else();
    only_able_switches_branch();
    random_links_never_crash();
    bad_tables_are_refused();
    return 0;
}
