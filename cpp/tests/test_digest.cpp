#include <cstddef>
#include <set>
#include <vector>

#include "check.hpp"
#include "interlock/schedule/digest.hpp"

using interlock::digest64;

int main() {
    // One changed byte anywhere, a changed length and a changed seed all change the digest.
    std::set<std::uint64_t> seen;
    for (std::size_t size = 0; size < 100; ++size) {
        std::vector<std::byte> bytes(size);
        CHECK(seen.insert(digest64(bytes, 0)).second);
        for (std::size_t i = 0; i < size; ++i) {
            bytes[i] = std::byte{1};
            CHECK(seen.insert(digest64(bytes, 0)).second);
            bytes[i] = std::byte{0};
        }
    }
    const std::vector<std::byte> bytes(64);
    CHECK(digest64(bytes, 0) == digest64(bytes, 0));
    CHECK(digest64(bytes, 0) != digest64(bytes, 1));
    return 0;
}
