#pragma once

#include "interlock/schedule/schedule_table.hpp"
#include "interlock/validate/findings.hpp"

namespace interlock {

/// Checks each message by itself: its ends, kind, size, dependencies and pieces name things that exist and fit.
/// The other checks of a schedule may index with its columns only if this finds nothing.
Findings check_form(const MessageTable& messages, const PieceTable& pieces, const ItemTable& items);

}  // namespace interlock
