#pragma once

#include <cstdint>

namespace interlock {

/// Most nodes or ranks of anything: for more, memory would be gone before there is an answer.
inline constexpr std::int32_t kMostNodes = 1'000'000;
/// Most nodes that are all looked at from each other: time grows with the square.
inline constexpr std::int32_t kMostCompared = 16'384;
/// Most rounds, passes and steps of anything that is repeated until told to stop.
inline constexpr std::int32_t kMostRounds = 100'000;

}  // namespace interlock
