// Lanes that share ports end when a calculation by hand says.

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "check.hpp"
#include "interlock/two_tier/shared_ports.hpp"

using namespace interlock;

namespace {

constexpr double kNoLimit = 1e300;
const auto kNoLoss = [](std::span<const std::int32_t>, std::span<double>) {};

SharingLane lane(std::int32_t out, std::int32_t in, double bytes, double flows, double most_rate = kNoLimit,
                 std::int32_t after = -1) {
    return {{out, in}, 2, bytes, flows, most_rate, {after, -1}};
}

bool is_near(double value, double wanted) { return std::abs(value - wanted) <= 0.02 * wanted; }

/// Two lanes out of one port, one of them into a slow one: the other takes what it leaves.
void shares_are_max_min() {
    const std::vector<double> rate = {10, 2, 100};
    const std::vector<SharingLane> lanes = {lane(0, 1, 20, 1), lane(0, 2, 80, 1)};
    const auto spans = share_ports(lanes, rate, 0, kNoLoss);
    CHECK(is_near(spans[0].end_s, 10));
    CHECK(is_near(spans[1].end_s, 10));
}

/// Three flows to one: three quarters of the port, and all of it when the other has ended.
void flows_are_weights() {
    const std::vector<double> rate = {8, 100, 100};
    const auto spans = share_ports(std::vector<SharingLane>{lane(0, 1, 60, 3), lane(0, 2, 60, 1)}, rate, 0, kNoLoss);
    CHECK(is_near(spans[0].end_s, 10));
    CHECK(is_near(spans[1].end_s, 15));
}

void a_limit_leaves_the_rest_to_others() {
    const std::vector<double> rate = {10, 100, 100};
    const auto spans = share_ports(std::vector<SharingLane>{lane(0, 1, 10, 1, 1), lane(0, 2, 90, 1)}, rate, 0, kNoLoss);
    CHECK(is_near(spans[0].end_s, 10));
    CHECK(is_near(spans[1].end_s, 10));
}

void lanes_wait_for_those_before() {
    const std::vector<double> rate = {10, 10, 10};
    const auto spans =
        share_ports(std::vector<SharingLane>{lane(0, 1, 50, 1), lane(0, 2, 50, 1, kNoLimit, 0)}, rate, 1, kNoLoss);
    CHECK(is_near(spans[0].end_s, 5));
    CHECK(is_near(spans[1].start_s, 6));
    CHECK(is_near(spans[1].end_s, 11));
}

/// A receiver that gives half with two senders.
void losses_last_as_long_as_senders() {
    const std::vector<double> rate = {10, 10, 10};
    const auto lose = [](std::span<const std::int32_t> active, std::span<double> now) {
        if (active.size() > 1) now[2] /= 2;
    };
    const auto spans = share_ports(std::vector<SharingLane>{lane(0, 2, 10, 1), lane(1, 2, 30, 1)}, rate, 0, lose);
    CHECK(is_near(spans[0].end_s, 4));
    CHECK(is_near(spans[1].end_s, 6));
}

/// No port carries more than it can, and the last end is at least the busiest port's.
void no_port_is_overrun() {
    std::mt19937 random(7);
    for (int n = 0; n < 50; ++n) {
        std::vector<double> rate;
        for (int port = 0; port < 12; ++port) rate.push_back(1.0 + static_cast<double>(random() % 9));
        std::vector<SharingLane> lanes;
        std::vector<double> load(12, 0.0);
        for (int id = 0; id < 60; ++id) {
            const auto out = static_cast<std::int32_t>(random() % 6), in = static_cast<std::int32_t>(6 + random() % 6);
            lanes.push_back(
                lane(out, in, 1.0 + static_cast<double>(random() % 50), 1.0 + static_cast<double>(random() % 3)));
            load[static_cast<std::size_t>(out)] += lanes.back().bytes;
            load[static_cast<std::size_t>(in)] += lanes.back().bytes;
        }
        const auto spans = share_ports(lanes, rate, 0, kNoLoss);
        double last = 0, least = 0, most = 0;
        for (const Span& span : spans) last = std::max(last, span.end_s);
        for (std::size_t port = 0; port < 12; ++port) {
            least = std::max(least, load[port] / rate[port]);
            most += load[port] / rate[port];
        }
        CHECK(last >= 0.97 * least && last <= most);
    }
}

}  // namespace

int main() {
    shares_are_max_min();
    flows_are_weights();
    a_limit_leaves_the_rest_to_others();
    lanes_wait_for_those_before();
    losses_last_as_long_as_senders();
    no_port_is_overrun();
    return 0;
}
