#include <cmath>
#include <cstdint>
#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"
#include "interlock/synthesis/sum_lengths.hpp"

using interlock::crowded_sum;
using interlock::SumBound;
using interlock::SumNetwork;

namespace {

struct Links {
    std::int32_t num_nodes;
    std::vector<std::int32_t> src, dst;
    std::vector<double> rate;
    std::vector<std::int32_t> channel;

    SumNetwork view() const { return {num_nodes, static_cast<std::int32_t>(channel.size()), src, dst, rate, channel}; }
};

// One way round, with rates.
Links one_way_ring(const std::vector<double>& rate) {
    Links links{static_cast<std::int32_t>(rate.size()), {}, {}, rate, {}};
    for (std::int32_t node = 0; node < links.num_nodes; ++node) {
        links.src.push_back(node);
        links.dst.push_back((node + 1) % links.num_nodes);
        links.channel.push_back(node);
    }
    return links;
}

void a_ring_of_equal_links_carries_each_byte_almost_twice() {
    const SumBound bound = crowded_sum(one_way_ring({1, 1, 1, 1, 1}).view(), 0.0, 1000);
    CHECK(std::abs(bound.seconds_per_byte - 8.0 / 5.0) < 1e-9);
}

// Two slow links, one after the other or not: three crossings, where parts and cuts alone prove two.
void two_slow_links_of_a_ring_carry_three_halves_each() {
    const SumBound bound = crowded_sum(one_way_ring({1, 1000, 1, 1000}).view(), 0.0, 1000);
    CHECK(bound.seconds_per_byte > 1.48 && bound.seconds_per_byte < 1.5 + 1e-9);
}

void links_of_one_channel_share_it() {
    Links links{3, {0, 1, 1, 2, 2, 0}, {1, 0, 2, 1, 0, 2}, std::vector<double>(6, 1.0), {0, 0, 1, 1, 2, 2}};
    const SumNetwork halves{3, 3, links.src, links.dst, links.rate, links.channel};
    CHECK(std::abs(crowded_sum(halves, 0.0, 1000).seconds_per_byte - 4.0 / 3.0) < 1e-9);
}

void what_is_known_already_is_not_sought() {
    CHECK(crowded_sum(one_way_ring({1, 1000, 1, 1000}).view(), 10.0, 1000).seconds_per_byte < 1.5);
}

void nothing_is_proven_where_there_is_no_way() {
    const Links line{3, {0, 1}, {1, 2}, {1.0, 1.0}, {0, 1}};
    CHECK(crowded_sum(line.view(), 0.0, 100).seconds_per_byte == 0.0);
}

void bad_links_are_refused() {
    Links links = one_way_ring({1, 1});
    links.rate[0] = 0.0;
    CHECK_THROWS(crowded_sum(links.view(), 0.0, 10), interlock::InvalidInput);
    links.rate[0] = 1.0;
    const std::vector<std::int32_t> beyond{0, 7};
    CHECK_THROWS(crowded_sum({2, 2, links.src, links.dst, links.rate, beyond}, 0.0, 10), interlock::InvalidInput);
}

}  // namespace

int main() {
    a_ring_of_equal_links_carries_each_byte_almost_twice();
    two_slow_links_of_a_ring_carry_three_halves_each();
    links_of_one_channel_share_it();
    what_is_known_already_is_not_sought();
    nothing_is_proven_where_there_is_no_way();
    bad_links_are_refused();
    return 0;
}
