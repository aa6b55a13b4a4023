#include <random>
#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier/open_shop.hpp"

using interlock::open_shop;
using interlock::open_shop_bound;
using interlock::Run;
using interlock::time_runs;

namespace {

std::vector<std::int64_t> random_work(std::int32_t ports, std::uint32_t seed, double density) {
    std::mt19937 random(seed);
    std::vector<std::int64_t> work(static_cast<std::size_t>(ports * ports), 0);
    for (std::int64_t& amount : work) {
        if (static_cast<double>(random() % 1000) < 1000 * density)
            amount = 1 + static_cast<std::int64_t>(random() % 200);
    }
    return work;
}

/// All work is done, once; runs of one stage share no port; ports start their runs in stage order.
void check_runs(const std::vector<std::int64_t>& work, std::int32_t ports, const std::vector<Run>& runs) {
    const auto n = static_cast<std::size_t>(ports);
    const auto times = time_runs(runs, ports, 0);
    std::vector<std::int64_t> left = work;
    std::vector<std::int32_t> last(2 * n, -1);
    for (std::size_t r = 0; r < runs.size(); ++r) {
        CHECK(runs[r].work > 0);
        left[static_cast<std::size_t>(runs[r].sender) * n + static_cast<std::size_t>(runs[r].receiver)] -= runs[r].work;
        for (const std::size_t port :
             {static_cast<std::size_t>(runs[r].sender), n + static_cast<std::size_t>(runs[r].receiver)}) {
            CHECK(times.stage[r] > last[port]);
            last[port] = times.stage[r];
        }
    }
    for (const std::int64_t amount : left) CHECK(amount == 0);
}

}  // namespace

int main() {
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
        const std::int32_t ports = 1 + static_cast<std::int32_t>(seed % 17);
        for (const double density : {0.15, 1.0}) {
            const auto work = random_work(ports, seed, density);
            for (const std::int64_t setup : {0, 3}) {
                const std::int64_t bound = open_shop_bound(work, ports, setup);
                for (const std::int32_t stages : {2 * ports, 1000}) {
                    const auto runs = open_shop(work, ports, setup, bound, stages);
                    check_runs(work, ports, runs);
                    CHECK(time_runs(runs, ports, setup).makespan >= bound);
                    // Preemptive open shops reach the bound; setups for interrupted runs come on top.
                    CHECK(time_runs(runs, ports, 0).makespan <= bound + bound / 50);
                }
            }
        }
    }
    // Equal work needs no interruption: one run per pair, n stages.
    const std::vector<std::int64_t> equal(40 * 40, 7);
    const auto runs = open_shop(equal, 40, 0, 280, 64);
    CHECK(runs.size() == 1600);
    CHECK(time_runs(runs, 40, 0).makespan == 280);
    CHECK(time_runs(runs, 40, 0).num_stages == 40);
    CHECK_THROWS(open_shop(equal, 39, 0, 1, 1), interlock::InvalidInput);
    return 0;
}
