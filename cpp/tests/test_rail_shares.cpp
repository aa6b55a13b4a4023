#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"
#include "interlock/papers/rail_shares.hpp"

using interlock::rail_shares;

int main() {
    // Equal rails: quotients, and remainders that start on another rail for each destination.
    std::vector<std::int64_t> shares(3 * 4);
    const std::vector<double> equal(3 * 4, 5e10);
    CHECK(rail_shares(std::vector<std::int64_t>{0, 41, 42}, equal, 0, 4, shares));
    CHECK((std::vector<std::int64_t>(shares.begin() + 4, shares.end()) ==
           std::vector<std::int64_t>{10, 11, 10, 10, 10, 10, 11, 11}));

    // A dead rail carries nothing. Another destination uses it more, by as much as its own NIC there has time for if
    // all send alike: none where it is as busy as the others.
    std::vector<double> rates(3 * 4, 5e10);
    rates[1 * 4 + 3] = 0.0;
    for (const auto& [to_other, by_dead_rail] : {std::pair{3'000'000, 750'000}, {1'500'000, 562'500}}) {
        const std::vector<std::int64_t> owed{0, 3'000'000, to_other};
        CHECK(rail_shares(owed, rates, 0, 4, shares));
        CHECK(shares[1 * 4 + 3] == 0 && std::abs(shares[2 * 4 + 3] - by_dead_rail) <= 1);
        for (int rail = 0; rail < 3; ++rail) CHECK(std::abs(shares[rail + 4] - shares[(rail + 1) % 3 + 4]) <= 1);
        for (int d = 1; d < 3; ++d)
            CHECK(std::accumulate(&shares[d * 4], &shares[d * 4] + 4, std::int64_t{0}) == owed[d]);
    }

    // No rail in common.
    std::vector<double> apart{1.0, 0.0, 0.0, 1.0};
    std::vector<std::int64_t> two(4);
    CHECK(!rail_shares(std::vector<std::int64_t>{0, 5}, apart, 0, 2, two));
    CHECK(rail_shares(std::vector<std::int64_t>{0, 0}, apart, 0, 2, two));
    CHECK_THROWS(rail_shares(std::vector<std::int64_t>{0, 0}, apart, 2, 2, two), interlock::InvalidInput);
    return 0;
}
