#include <vector>

#include "check.hpp"
#include "interlock/papers/matching.hpp"

using interlock::ShrinkingMatching;

int main() {
    // A cycle of 130 vertices (three words of bits): both perfect matchings of it, one after the other.
    constexpr std::int32_t kCount = 130;
    ShrinkingMatching matching(kCount);
    for (std::int32_t v = 0; v < kCount; ++v) {
        matching.add_edge(v, v);
        matching.add_edge(v, (v + 1) % kCount);
    }
    CHECK(matching.complete());
    const std::int32_t shift = matching.partner()[0];
    for (std::int32_t v = 0; v < kCount; ++v)
        CHECK(matching.partner()[static_cast<std::size_t>(v)] == (v + shift) % kCount);
    // One lost edge turns the whole cycle.
    matching.remove_edge(64, (64 + shift) % kCount);
    CHECK(matching.complete());
    for (std::int32_t v = 0; v < kCount; ++v)
        CHECK(matching.partner()[static_cast<std::size_t>(v)] == (v + 1 - shift) % kCount);
    matching.remove_edge(3, matching.partner()[3]);
    CHECK(!matching.complete());
    return 0;
}
