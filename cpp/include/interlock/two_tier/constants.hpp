#pragma once

#include <cstddef>
#include <cstdint>

namespace interlock {

// Every number of the planner that is no rate, latency or overhead of the cluster.

/// Of messages one after the other on a port: one keeps it busy while the arrival of the other is on its way. So many
/// slices of a lane are on the wire at once, so many waves of moves inside a server, so many stages may a server be
/// ahead of others; and what has nothing to hide behind is cut into so many.
inline constexpr std::int32_t kInFlight = 2;
/// Slices at either end of a lane that are smaller, the outermost this many times: only they have nothing to hide
/// behind. Where slices arrive together, so many follow each other.
inline constexpr std::int64_t kRampSteps = 4;
/// k slices of each of p lanes cost a NIC k * p messages; what has nothing to hide behind at either end is about a
/// quarter of a slice of every lane, the wire's time over 4k: best where both grow alike. `benchmarks/fit_slices.py`
/// finds the quarter again.
inline constexpr double kExposed = 0.25;
/// Of the NICs' time: what ports inside servers take before anything waits for them.
inline constexpr double kPortsMatter = 0.3;

/// Of a time: what a prediction must differ to tell two ways apart.
inline constexpr double kToldApart = 0.015;
/// Of a time: by which most sums are off at most.
inline constexpr double kSumsErr = 0.1;
/// Of a level or a time: differences too small to look for.
inline constexpr double kPrecision = 1e-3;

// Caps on work.

/// Slices of all lanes of a NIC, or of one lane, and ticks of an average tile in the open shop.
inline constexpr std::int64_t kMostSlices = 128;
/// Slices of one lane where a NIC has many lanes.
inline constexpr std::int64_t kLeastMost = 6;
/// Slices of the largest sender's lanes on the wire at once.
inline constexpr std::int64_t kMostFlows = 16;
/// Ranks up to which messages are run, or counted between two steps, and up to which every pair may have routes of its
/// own.
inline constexpr std::size_t kMostInDetail = 128;
/// Ranks of a timetable: a port keeps those that wait for it as bits of a word.
inline constexpr std::size_t kMostTimed = 64;
/// Turns that a search gives in vain until it tries no other order.
inline constexpr std::size_t kMostInVain = 20'000;
/// Users of a port that may move, the largest, and routes that are weighed in all.
inline constexpr std::size_t kMostUsers = 16, kMostWeighed = 200'000;

}  // namespace interlock
