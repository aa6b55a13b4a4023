#pragma once

#include <cstdint>

namespace interlock {

/// floor(total * part / whole) for values up to 2^62; 0 where `whole` is 0.
inline std::int64_t portion(std::int64_t total, std::int64_t part, std::int64_t whole) {
    __extension__ using Wide = __int128;
    std::int64_t product = 0;
    if (whole != 0 && !__builtin_mul_overflow(total, part, &product)) return product / whole;  // no wide division
    return whole == 0 ? 0 : static_cast<std::int64_t>(static_cast<Wide>(total) * part / whole);
}

}  // namespace interlock
