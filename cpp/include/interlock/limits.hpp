#pragma once

#include <cstdint>

namespace interlock {

/// Most nodes or ranks of anything: for more, memory would be gone before there is an answer.
inline constexpr std::int32_t kMostNodes = 1'000'000;
/// Most rounds, passes and steps of anything that is repeated until told to stop.
inline constexpr std::int32_t kMostRounds = 100'000;

}  // namespace interlock
