#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"
#include "interlock/synthesis/shortest_routes.hpp"

using interlock::InvalidInput;
using interlock::RoutedGraph;
using interlock::Routes;
using interlock::shortest_routes;

using Ids = std::vector<std::int32_t>;

static Ids route(const Routes& routes, std::size_t row) {
    return {routes.links.begin() + routes.offsets[row], routes.links.begin() + routes.offsets[row + 1]};
}

int main() {
    // Ranks 0..2, leaves 3 and 4, spines 5 and 6. Links 0-1: direct 0->1 twice; 2: 0->leaf; 3-4: leaf->spines;
    // 5-6: spines->other leaf; 7-8: leaf 4 -> ranks 1 and 2; 9: 1->2.
    const Ids from{0, 0, 0, 3, 3, 5, 6, 4, 4, 1};
    const Ids to{1, 1, 3, 5, 6, 4, 4, 1, 2, 2};
    std::vector<std::int64_t> cost{100, 90, 10, 10, 10, 10, 10, 10, 10, 1};
    const RoutedGraph graph{3, 7, from, to, cost};

    // Through the switches to 1 (40 < 90), by the spine its number chooses; to 2 never through rank 1.
    const Ids src{0, 1, 0, 2, 0};
    const Ids dst{2, 2, 1, 2, 0};
    const auto routes = shortest_routes(graph, src, dst);
    CHECK((route(routes, 0) == Ids{2, 3, 5, 8}));
    CHECK((route(routes, 1) == Ids{9}));
    CHECK((route(routes, 2) == Ids{2, 4, 6, 7}));
    CHECK(route(routes, 3).empty() && route(routes, 4).empty());

    // A dead link is not used, and the cheaper of two direct links wins.
    cost[2] = -1;
    const Ids zero{0}, one{1}, two{2};
    CHECK((route(shortest_routes(graph, zero, one), 0) == Ids{1}));
    CHECK_THROWS(shortest_routes(graph, zero, two), InvalidInput);
    CHECK_THROWS(shortest_routes(graph, two, zero), InvalidInput);

    const Ids outside{3};
    CHECK_THROWS(shortest_routes(graph, zero, outside), InvalidInput);
    cost[0] = 0;
    CHECK_THROWS(shortest_routes(graph, zero, one), InvalidInput);
    return 0;
}
