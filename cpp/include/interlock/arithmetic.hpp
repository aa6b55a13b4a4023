#pragma once

#include <cstddef>
#include <cstdint>

namespace interlock {

/// A number that is known not to be negative, as a size or an index.
constexpr std::size_t to_size(std::int64_t value) { return static_cast<std::size_t>(value); }
constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// A size that is known to fit.
constexpr std::int32_t to_int32(std::size_t value) { return static_cast<std::int32_t>(value); }

/// A number that looks random and depends on nothing but its argument.
inline std::uint64_t scramble(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/// floor(total * part / whole) for values up to 2^62; 0 where `whole` is 0.
inline std::int64_t portion(std::int64_t total, std::int64_t part, std::int64_t whole) {
    __extension__ using Wide = __int128;
    std::int64_t product = 0;
    if (whole != 0 && !__builtin_mul_overflow(total, part, &product)) return product / whole;  // no wide division
    return whole == 0 ? 0 : static_cast<std::int64_t>(static_cast<Wide>(total) * part / whole);
}

}  // namespace interlock
