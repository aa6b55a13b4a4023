#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlock/schedule/schedule_rows.hpp"
#include "interlock/two_tier/ports.hpp"
#include "interlock/two_tier/two_tier_plan.hpp"

namespace interlock {

/// Who holds which port when: all messages one after the other, exactly as they will run.
struct Timetable {
    std::vector<std::int64_t> turns;  ///< per message, its place among all
    double seconds = 0;
};

/// Ports that are shared evenly cannot let those go first whom others wait for. Here each message holds its ports
/// alone: whenever ports are free, of the messages that could start the first does, those with most hops to come before
/// others. Then the same backwards in time, who ended last first, and forwards again, while messages are few; from the
/// shortest on each message in turn takes the first time at which both its ports have enough, backwards and forwards
/// again. The shortest is taken.
///
/// @param rows of a plan without barriers, on ports that no two messages need to share
/// @param enough_s not to look further below
Timetable make_timetable(const ScheduleRows& rows, const Ports& ports, const TwoTierCosts& costs,
                         double enough_s = 0);

/// The rows that turns are given to, before they have them.
ScheduleRows timed_rows(std::span<const std::int64_t> demand_bytes, const TwoTierDecision& decision,
                        const PieceBytes& pieces);

/// Gives messages their turns; they wait for nothing else but what brings them their bytes.
void take_turns(ScheduleRows& rows, std::span<const std::int64_t> turns);

}  // namespace interlock
