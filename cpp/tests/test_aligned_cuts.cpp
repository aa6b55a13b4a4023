#include "interlock/schedule/aligned_cuts.hpp"

#include <cstdint>
#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"

using namespace interlock;

namespace {

using Longs = std::vector<std::int64_t>;

struct Rows {
    Longs piece_offsets, size_bytes;
    std::vector<std::int32_t> item;
    Longs offset, length;
    void align(std::int64_t align) { align_cuts({piece_offsets, size_bytes, item, offset, length}, align); }
};

/// Two items of 100 and 10 bytes; the first is cut at 37 and 70, and its first part is relayed.
Rows two_items() {
    return {{0, 1, 3, 4, 5}, {37, 43, 30, 37}, {0, 0, 1, 0, 0}, {0, 37, 0, 70, 0}, {37, 33, 10, 30, 37}};
}

}  // namespace

int main() {
    Rows rows = two_items();
    rows.align(16);
    CHECK(rows.offset == (Longs{0, 32, 0, 64, 0}));
    CHECK(rows.length == (Longs{32, 32, 10, 36, 32}));
    CHECK(rows.size_bytes == (Longs{32, 42, 36, 32}));

    rows = two_items();
    rows.align(1);
    CHECK(rows.offset == two_items().offset);

    // No multiple of 1000 lies between the cuts: they go to multiples of 16.
    rows = two_items();
    rows.align(1000);
    CHECK(rows.length == (Longs{32, 32, 10, 36, 32}));

    // Cuts closer together than 16 bytes stay apart.
    rows = {{0, 1, 2, 3, 4}, {3, 2, 4, 31}, {0, 0, 0, 0}, {0, 3, 5, 9}, {3, 2, 4, 31}};
    rows.align(16);
    for (const std::int64_t bytes : rows.length) CHECK(bytes > 0);
    CHECK(rows.length[0] + rows.length[1] + rows.length[2] + rows.length[3] == 40);
    CHECK_THROWS(rows.align(0), InvalidInput);
    return 0;
}
