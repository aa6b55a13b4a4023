#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace interlock {

/// A fast 64-bit digest of bytes, the same on every machine; not cryptographic.
std::uint64_t digest64(std::span<const std::byte> bytes, std::uint64_t seed);

}  // namespace interlock
