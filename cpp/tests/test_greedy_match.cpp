#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"
#include "interlock/synthesis/greedy_match.hpp"

using namespace interlock;

namespace {

struct Square {
    explicit Square(std::int32_t width) : num_nodes(width * width) {
        const auto join = [&](std::int32_t a, std::int32_t b) {
            src.insert(src.end(), {a, b});
            dst.insert(dst.end(), {b, a});
        };
        for (std::int32_t row = 0; row < width; ++row) {
            for (std::int32_t column = 0; column < width; ++column) {
                if (column + 1 < width) join(row * width + column, row * width + column + 1);
                if (row + 1 < width) join(row * width + column, (row + 1) * width + column);
            }
        }
    }
    std::int32_t num_nodes;
    std::vector<std::int32_t> src, dst;
};

/// Every node holds its own chunk.
struct State {
    explicit State(std::int32_t nodes)
        : held(static_cast<std::size_t>(nodes) * words(nodes)),
          holders(static_cast<std::size_t>(nodes), 1),
          missing(static_cast<std::size_t>(nodes), nodes - 1) {
        for (std::int32_t node = 0; node < nodes; ++node) {
            held[static_cast<std::size_t>(node) * words(nodes) + static_cast<std::size_t>(node) / 64] |=
                std::uint64_t{1} << (node % 64);
        }
    }
    static std::size_t words(std::int32_t chunks) { return (static_cast<std::size_t>(chunks) + 63) / 64; }
    Holdings view() { return {held, holders, missing}; }
    std::vector<std::uint64_t> held;
    std::vector<std::uint32_t> holders;
    std::vector<std::int32_t> missing;
};

std::vector<std::uint16_t> table_of(const Square& graph, std::int32_t threads, std::size_t rows_per_call) {
    State state(graph.num_nodes);
    std::vector<std::uint16_t> table;
    std::int64_t round = 0;
    while (true) {
        std::vector<std::uint16_t> rows(rows_per_call * graph.src.size());
        const std::size_t filled = match_rounds<std::uint16_t>({graph.num_nodes, graph.num_nodes, graph.src, graph.dst},
                                                               state.view(), {4, round, 7, threads}, rows);
        table.insert(table.end(), rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(filled * graph.src.size()));
        round += static_cast<std::int64_t>(filled);
        if (filled < rows_per_call) break;
    }
    for (const std::int32_t missing : state.missing) CHECK(missing == 0);
    for (const std::uint32_t holders : state.holders) CHECK(holders == static_cast<std::uint32_t>(graph.num_nodes));
    return table;
}

void nothing_is_sent_before_it_is_held_nor_twice() {
    const Square graph(9);
    const std::vector<std::uint16_t> table = table_of(graph, 1, 1000);
    const auto nodes = static_cast<std::size_t>(graph.num_nodes);
    CHECK(table.size() / graph.src.size() == 40);  // a corner takes in 80 chunks over two links
    std::vector<std::uint8_t> held(nodes * nodes), next;
    for (std::size_t node = 0; node < nodes; ++node) held[node * nodes + node] = 1;
    for (std::size_t first = 0; first < table.size(); first += graph.src.size()) {
        next = held;
        for (std::size_t link = 0; link < graph.src.size(); ++link) {
            const std::uint16_t chunk = table[first + link];
            if (chunk == std::numeric_limits<std::uint16_t>::max()) continue;
            CHECK(held[static_cast<std::size_t>(graph.src[link]) * nodes + chunk]);
            std::uint8_t& arrived = next[static_cast<std::size_t>(graph.dst[link]) * nodes + chunk];
            CHECK(!arrived);
            arrived = 1;
        }
        held = next;
    }
    for (const std::uint8_t has : held) CHECK(has);
}

void threads_and_calls_do_not_change_the_table() {
    const Square graph(7);
    const std::vector<std::uint16_t> table = table_of(graph, 1, 1000);
    CHECK(table_of(graph, 2, 1000) == table);
    CHECK(table_of(graph, 5, 3) == table);
}

void a_node_that_nothing_leads_to_is_refused() {
    const std::vector<std::int32_t> src{0}, dst{1};
    State state(2);
    std::vector<std::uint16_t> table(4);
    CHECK_THROWS(match_rounds<std::uint16_t>({2, 2, src, dst}, state.view(), {1, 0, 0, 1}, table), InvalidInput);
}

}  // namespace

int main() {
    nothing_is_sent_before_it_is_held_nor_twice();
    threads_and_calls_do_not_change_the_table();
    a_node_that_nothing_leads_to_is_refused();
    return 0;
}
