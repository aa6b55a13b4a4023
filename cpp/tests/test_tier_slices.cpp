#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"
#include "interlock/simulate/tier_slices.hpp"

using namespace interlock;

namespace {

// Two tiers of a second each.
struct Two {
    std::vector<double> busy_s{1, 1};
    std::vector<double> paid_s{0, 0};
    std::vector<double> latency_s{0, 0};
    std::vector<std::int32_t> ports{0, 1};
    std::vector<std::int32_t> under_way{0, 0};

    [[nodiscard]] double last_s(const std::vector<double>& weights) const {
        return tier_slices_s({busy_s, paid_s, latency_s, ports, under_way}, weights);
    }
};

}  // namespace

int main() {
    Two two;
    CHECK(two.last_s({}) == 0.0);
    CHECK(two.last_s({1}) == 2.0);
    CHECK(two.last_s({1, 1}) == 1.5);     // the second slice enters the first tier beside the first in the second
    CHECK(two.last_s({1, 3}) == 1.75);    // a quarter, then three quarters twice
    two.ports = {0, 0};
    CHECK(two.last_s({1, 1}) == 2.0);     // ports that both use are never idle
    two.ports = {0, 1};
    two.paid_s = {0.25, 0};
    CHECK(two.last_s({1, 1}) == 2.0);     // every slice pays
    two.paid_s = {0, 0};
    two.latency_s = {0.5, 0};
    CHECK(two.last_s({1, 1}) == 2.0);     // a latency holds nothing back
    two.under_way = {1, 0};
    CHECK(two.last_s({1, 1}) == 2.5);     // unless slices wait for the arrival of the one before
    two.under_way = {2, 0};
    CHECK(two.last_s({1, 1}) == 2.5);     // two share the port: each arrives half a second later, none waits
    two.ports = {0, 2};
    CHECK_THROWS(two.last_s({1, 1}), InvalidInput);
    two.ports = {0};
    CHECK_THROWS(two.last_s({1, 1}), InvalidInput);
    return 0;
}
