#include "interlock/schedule/digest.hpp"

#include <cstring>

namespace interlock {
namespace {

constexpr std::uint64_t kOdd[4] = {0x9e3779b97f4a7c15ULL, 0xd6e8feb86659fd93ULL, 0xa0761d6478bd642fULL,
                                   0xe7037ed1a0b428dbULL};

std::uint64_t load(const std::byte* from) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return word;
}

std::uint64_t mix(std::uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    x ^= x >> 32;
    return x;
}

}  // namespace

std::uint64_t digest64(std::span<const std::byte> bytes, std::uint64_t seed) {
    // Four independent parts keep the multiplier busy; a change in any word reaches its part's every bit.
    std::uint64_t part[4] = {seed ^ kOdd[0], seed ^ kOdd[1], seed ^ kOdd[2], seed ^ kOdd[3]};
    const std::byte* at = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 32; left -= 32, at += 32) {
        for (int i = 0; i < 4; ++i) {
            part[i] = (part[i] ^ load(at + 8 * i)) * kOdd[i];
            part[i] ^= part[i] >> 29;
        }
    }
    std::byte tail[32] = {};
    if (left > 0) std::memcpy(tail, at, left);
    std::uint64_t digest = mix(bytes.size() ^ seed);
    for (int i = 0; i < 4; ++i) digest = mix(digest ^ mix((part[i] ^ load(tail + 8 * i)) * kOdd[i]));
    return digest;
}

}  // namespace interlock
